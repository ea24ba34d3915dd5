/* CUDA C: the dialect and the kernels. */
#include "c_internal.h"

static void print_kernel(CPrinter *p, const IrFunc *f) {
    c_enter(p, f);
    long long threads = func_threads(f), min_blocks = ir_func_int(f, IR_FN_MIN_BLOCKS, 0);
    const char *bounds =
        min_blocks > 0 ? arena_printf(p->arena, "%lld, %lld", threads, min_blocks) : arena_printf(p->arena, "%lld", threads);
    long long cluster = ir_func_cluster(f);
    const char *clusters = cluster > 1 ? arena_printf(p->arena, "__cluster_dims__(%lld, 1, 1) ", cluster) : "";
    const char *head = arena_printf(p->arena, "extern \"C\" __global__ void %s__launch_bounds__(%s)", clusters, bounds);
    c_print_call(p, head, emit_entry_name(p->arena, &p->plan, f), c_parameters(p, f, true, NULL), ") {", true);
    p->indent++;
    c_print_body(p, f);
    p->indent--;
    c_line(p, "}");
}

static void print(CPrinter *p) {
    const char *separator = "";
    for (size_t i = 0; i < p->plan.func_count && !p->failed; i++) {
        str_append(p->out, separator);
        print_kernel(p, p->plan.funcs[i]);
        separator = "\n";
    }
    if (!p->options->no_launcher && !p->failed) c_print_launchers(p);
}

static void print_head(CPrinter *p, Str *head) {
    str_append(head, "// nvcc -fmad=false -ftz=false -prec-div=true -prec-sqrt=true\n");
    if (p->types_used & 1u << DTYPE_BF16) str_append(head, "#include <cuda_bf16.h>\n");
    if (p->types_used & 1u << DTYPE_F16) str_append(head, "#include <cuda_fp16.h>\n");
    if (p->tensor_maps && !p->options->no_launcher) str_append(head, "#ifndef __CUDACC_RTC__\n#include <cuda.h>\n#endif\n");
    str_append_char(head, '\n');
    if (p->tensor_maps) str_append(head, "struct alignas(64) TensorMap { unsigned char bytes[128]; };\n\n");
    if (p->tensor_maps && !p->options->no_launcher) str_append(head, c_make_map_text);
}

const CDialect c_dialect_cuda = {
    .target = "cuda",
    .gpu = true,
    .mask = C_CUDA,
    .index_type = "long long",
    .restrict_word = "__restrict__",
    .helper_prefix = "static __device__ __forceinline__",
    .shared_prefix = "static __host__ __device__ inline",
    .builtin = "",
    .print = print,
    .print_head = print_head,
};

bool emit_cuda(const IrModule *m, const EmitOptions *options, Str *out, DiagList *diags) {
    return c_emit(m, &c_dialect_cuda, options, out, diags);
}
