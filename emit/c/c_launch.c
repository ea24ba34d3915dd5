/* The host launcher of each step: chooses the version, computes the grid, checks what it can. */
#include "c_internal.h"

#include <string.h>

/* Pointers that a version reads or writes 4 to 16 bytes at a time must be aligned to that. */
static const char *alignment_condition(CPrinter *p, const IrFunc *f) {
    const char *text = "";
    for (size_t bytes = 16; bytes >= 2; bytes /= 2) {
        const char *sum = "";
        unsigned count = 0;
        for (unsigned i = 0; i < f->body->arg_count; i++) {
            const IrValue *v = f->body->args[i];
            if (v->type->kind != IR_TYPE_PTR || param_access_bytes(f, i) != bytes || dtype_size(v->type->dtype) == bytes) continue;
            sum = arena_printf(p->arena, "%s%s(size_t)%s", sum, count ? " | " : "", c_use(p, v).text);
            count++;
        }
        if (count)
            text = arena_printf(p->arena, count > 1 ? "%s%s(%s) %% %zu == 0" : "%s%s%s %% %zu == 0", text, *text ? " && " : "", sum, bytes);
    }
    return *text ? text : NULL;
}

/* How much of "a && b && c" fits into `room`: up to an &&, and at least one condition. */
static size_t fitting_conditions(const char *text, size_t room) {
    enum { AND = 4 }; /* " && " */
    size_t n = strlen(text);
    const char *last = NULL;
    for (const char *at = n < room ? NULL : strstr(text, " && "); at && (!last || (size_t)(at - text) + AND <= room);
         at = strstr(at + AND, " && "))
        last = at;
    return last ? (size_t)(last - text) + AND : n;
}

/* `const bool NAME = GUARD;`, on as many lines as it takes. */
static void print_conditions(CPrinter *p, const char *name, const char *guard) {
    const char *head = arena_printf(p->arena, "const bool %s = ", name);
    for (; *guard; head = "    ") {
        size_t n = fitting_conditions(guard, C_LINE_WIDTH - 4 * p->indent - strlen(head));
        bool ends = !guard[n];
        c_line(p, "%s%.*s%s", head, (int)(ends ? n : n - 1), guard, ends ? ";" : "");
        guard += n;
    }
}

/* The `if` of a version; conditions that do not fit on its line get names. */
static const char *version_condition(CPrinter *p, const IrFunc *f, unsigned version) {
    const char *aligned = alignment_condition(p, f), *guard = c_guard(p, f);
    size_t width = 4 * p->indent + 12 + (aligned ? strlen(aligned) : 0) + (guard ? strlen(guard) : 0);
    if (width > C_LINE_WIDTH && guard && strlen(guard) > 40) {
        const char *name = name_claim(&p->names, arena_printf(p->arena, "fits_%u", version));
        print_conditions(p, name, guard);
        guard = name;
    }
    width = 4 * p->indent + 12 + (aligned ? strlen(aligned) : 0) + (guard ? strlen(guard) : 0);
    if (width > C_LINE_WIDTH && aligned) {
        const char *name = name_claim(&p->names, arena_printf(p->arena, "aligned_%u", version));
        c_line(p, "const bool %s = %s;", name, aligned);
        aligned = name;
    }
    if (!guard) return aligned;
    return aligned ? arena_printf(p->arena, "%s && %s", guard, aligned) : guard;
}

static void print_shared(CPrinter *p, const char *entry, const char *bytes) {
    const char *limit = name_claim(&p->names, "limit"), *name = name_claim(&p->names, "error");
    c_line(p, "const cudaFuncAttribute %s = cudaFuncAttributeMaxDynamicSharedMemorySize;", limit);
    const char *items[] = {entry, limit, bytes};
    c_print_call(p, arena_printf(p->arena, "const cudaError_t %s =", name), "cudaFuncSetAttribute", (CList){items, 3}, ");", false);
    c_line(p, "if (%s != cudaSuccess) return %s;", name, name);
}

typedef struct {
    const char *text;           /* the extent as an argument of dim3 */
    const char *empty, *excess; /* conditions; null: it is a constant */
} GridDim;

static GridDim grid_dim(CPrinter *p, const IrFunc *f, unsigned axis) {
    static const IrFuncAff axes[] = {IR_FN_GRID_X, IR_FN_GRID_Y, IR_FN_GRID_Z};
    static const long long limits[] = {2147483647, 65535, 65535};
    const Aff *e = ir_func_aff(f, axes[axis]);
    if (!e) return (GridDim){.text = c_int_text(p, 1)};
    int64_t constant;
    if (aff_is_const(e, &constant) && constant > 0 && constant <= limits[axis]) return (GridDim){.text = c_int_text(p, constant)};
    const char *extent = c_aff(p, e).text, *name = name_claim(&p->names, ir_func_attr_info(axes[axis])->key);
    c_line(p, "const long long %s = %s;", name, extent);
    return (GridDim){arena_printf(p->arena, "(unsigned int)%s", name), arena_printf(p->arena, "%s <= 0", name),
                     arena_printf(p->arena, "%s > %lld", name, limits[axis])};
}

static const char *join_or(CPrinter *p, const char *a, const char *b) {
    return !a ? b : !b ? a : arena_printf(p->arena, "%s || %s", a, b);
}

static const char *print_grid(CPrinter *p, const IrFunc *f) {
    GridDim dims[3];
    const char *empty = NULL, *excess = NULL;
    for (unsigned i = 0; i < 3; i++) {
        dims[i] = grid_dim(p, f, i);
        empty = join_or(p, empty, dims[i].empty);
        excess = join_or(p, excess, dims[i].excess);
    }
    if (empty) c_if_line(p, empty, "return cudaSuccess;");
    if (excess) c_if_line(p, excess, "return cudaErrorInvalidConfiguration;");
    if (strcmp(dims[1].text, "1") == 0 && strcmp(dims[2].text, "1") == 0) return dims[0].text;
    const char *grid = name_claim(&p->names, "grid");
    c_line(p, "const dim3 %s(%s, %s, %s);", grid, dims[0].text, dims[1].text, dims[2].text);
    return grid;
}

const char c_make_map_text[] = "#ifndef __CUDACC_RTC__\n"
                               "static cudaError_t make_map(TensorMap *map, int dtype, int rank, const void *base,\n"
                               "                            const unsigned long long *shape, const unsigned int *box,\n"
                               "                            unsigned long long bytes, int swizzle, int joined) {\n"
                               "    void *entry = nullptr;\n"
                               "    cudaDriverEntryPointQueryResult found;\n"
                               "    unsigned long long extents[5], strides[5];\n"
                               "    const unsigned int ones[5] = {1, 1, 1, 1, 1};\n"
                               "    cudaError_t error = cudaGetDriverEntryPointByVersion(\"cuTensorMapEncodeTiled\", &entry, 12000,\n"
                               "                                                         cudaEnableDefault, &found);\n"
                               "    if (error != cudaSuccess) return error;\n"
                               "    for (int i = 0; i < rank; ++i) {\n"
                               "        if (shape[i] == 0) return cudaSuccess; // nothing is read\n"
                               "        extents[i] = shape[i];\n"
                               "        strides[i] = bytes *= shape[i];\n"
                               "    }\n"
                               "    if (joined > 1) { // a row of the map is so many of the tensor, which overlap\n"
                               "        extents[0] *= joined;\n"
                               "        if (extents[1] < joined) return cudaSuccess;\n"
                               "        extents[1] -= joined - 1;\n"
                               "    }\n"
                               "    const CUresult result = ((decltype(&cuTensorMapEncodeTiled))entry)(\n"
                               "        (CUtensorMap *)map, (CUtensorMapDataType)dtype, rank, (void *)base,\n"
                               "        (const cuuint64_t *)extents, (const cuuint64_t *)strides, box, ones,\n"
                               "        CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)swizzle,\n"
                               "        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
                               "    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;\n"
                               "}\n"
                               "#endif\n\n";

static const char *map_dtype(Dtype t, bool tf32) {
    if (tf32) return "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32";
    switch (t) {
    case DTYPE_F16:
        return "CU_TENSOR_MAP_DATA_TYPE_FLOAT16";
    case DTYPE_BF16:
        return "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16";
    case DTYPE_F32:
        return "CU_TENSOR_MAP_DATA_TYPE_FLOAT32";
    case DTYPE_F64:
        return "CU_TENSOR_MAP_DATA_TYPE_FLOAT64";
    default:
        break;
    }
    static const char *const words[] = {"CU_TENSOR_MAP_DATA_TYPE_UINT8", "CU_TENSOR_MAP_DATA_TYPE_UINT16", "CU_TENSOR_MAP_DATA_TYPE_UINT32",
                                        "CU_TENSOR_MAP_DATA_TYPE_UINT64"};
    return words[__builtin_ctzll(dtype_size(t))];
}

/* A map of tensor `t`, its axes from the innermost one outwards. */
static void print_map(CPrinter *p, const IrFunc *f, unsigned at, unsigned t) {
    const IrTensorMap *map = &f->params[at].map;
    const IrType *tensor = f->params[t].type;
    const char *name = c_use(p, f->body->args[at]).text, *extents = "", *box = "";
    for (unsigned a = map->rank; a-- > 0;) {
        const char *comma = *extents ? ", " : "";
        extents =
            arena_printf(p->arena, "%s%s(unsigned long long)%s", extents, comma, c_text(p, c_aff(p, tensor->extents[a]), C_PREC_UNARY));
        box = arena_printf(p->arena, "%s%s%lld", box, comma, (long long)map->box[a]);
    }
    const char *sizes = name_claim(&p->names, arena_printf(p->arena, "%s_extents", map->tensor));
    const char *boxes = name_claim(&p->names, arena_printf(p->arena, "%s_box", map->tensor));
    const char *error = name_claim(&p->names, "error");
    int swizzle = map->swizzle == 128 ? 3 : map->swizzle == 64 ? 2 : map->swizzle == 32 ? 1 : 0;
    c_line(p, "TensorMap %s = {};", name);
    c_line(p, "const unsigned long long %s[] = {%s};", sizes, extents);
    c_line(p, "const unsigned int %s[] = {%s};", boxes, box);
    const char *items[] = {arena_printf(p->arena, "&%s", name),
                           map_dtype(tensor->dtype, map->tf32),
                           c_int_text(p, map->rank),
                           c_use(p, f->body->args[t]).text,
                           sizes,
                           boxes,
                           c_int_text(p, (int64_t)dtype_size(tensor->dtype)),
                           c_int_text(p, swizzle),
                           c_int_text(p, map->joined > 1 ? map->joined : 1)};
    c_print_call(p, arena_printf(p->arena, "const cudaError_t %s =", error), "make_map", (CList){items, COUNT_OF(items)}, ");", false);
    c_line(p, "if (%s != cudaSuccess) return %s;", error, error);
}

static void print_maps(CPrinter *p, const IrFunc *f) {
    for (unsigned i = 0; i < f->param_count; i++)
        for (unsigned t = 0; f->params[i].kind == IR_PARAM_MAP && t < i; t++)
            if (strcmp(f->params[t].name, f->params[i].map.tensor) == 0) print_map(p, f, i, t);
}

/* cudaLaunchKernelExC with the attribute that all blocks are resident at once, else an error. */
static void print_cooperative(CPrinter *p, const IrFunc *f, const char *grid, const char *entry, const char *bytes) {
    c_line(p, "cudaLaunchAttribute together = {};");
    c_line(p, "together.id = cudaLaunchAttributeCooperative;");
    c_line(p, "together.val.cooperative = 1;");
    c_line(p, "cudaLaunchConfig_t config = {};");
    c_line(p, "config.gridDim = %s;", grid);
    c_line(p, "config.blockDim = %lld;", (long long)func_threads(f));
    c_line(p, "config.dynamicSmemBytes = %s;", bytes);
    c_line(p, "config.stream = stream;");
    c_line(p, "config.attrs = &together;");
    c_line(p, "config.numAttrs = 1;");
    CList arguments = c_arguments(p, f);
    const char **items = ARENA_ARRAY(p->arena, const char *, arguments.count + 2);
    items[0] = "&config", items[1] = entry;
    for (size_t i = 0; i < arguments.count; i++) items[i + 2] = arguments.items[i];
    c_print_call(p, "return", "cudaLaunchKernelEx", (CList){items, arguments.count + 2}, ");", false);
}

static void print_launch(CPrinter *p, const IrFunc *f) {
    const char *grid = print_grid(p, f), *entry = emit_entry_name(p->arena, &p->plan, f);
    int64_t shared = ir_func_int(f, IR_FN_SHARED_BYTES, 0);
    const char *bytes = c_int_text(p, shared);
    /* up to 48 KiB need no attribute */
    if (shared > 49152) print_shared(p, entry, bytes);
    print_maps(p, f);
    if (ir_func_int(f, IR_FN_COOPERATIVE, 0)) {
        print_cooperative(p, f, grid, entry, bytes);
        return;
    }
    const char *launch = arena_printf(p->arena, "%s<<<%s, %lld, %s, stream>>>", entry, grid, (long long)func_threads(f), bytes);
    c_print_call(p, "", launch, c_arguments(p, f), ");", false);
    c_line(p, "return cudaGetLastError();");
}

static void print_launcher(CPrinter *p, const IrStep *step) {
    const IrFunc *first = step->versions[0];
    c_enter(p, first);
    const char *name = arena_printf(p->arena, "%s_launch", emit_step_name(p->arena, &p->plan, step));
    c_print_call(p, "extern \"C\" cudaError_t", name, c_parameters(p, first, false, "cudaStream_t stream"), ") {", false);
    p->indent++;
    c_print_checks(p, first, "return cudaErrorInvalidValue;");
    bool open = true;
    for (unsigned v = 0; v < step->version_count && open; v++) {
        const IrFunc *f = step->versions[v];
        c_enter(p, f);
        const char *condition = version_condition(p, f, v + 1);
        if (condition) {
            c_line(p, "if (%s) {", condition);
            p->indent++;
        }
        print_launch(p, f);
        if (condition) {
            p->indent--;
            c_line(p, "}");
        }
        open = condition;
    }
    if (open) c_line(p, "return cudaErrorInvalidValue;");
    p->indent--;
    c_line(p, "}");
}

void c_print_launchers(CPrinter *p) {
    str_append(p->out, "\n#ifndef __CUDACC_RTC__\n");
    const char *separator = "";
    for (size_t i = 0; i < p->plan.step_count && !p->failed; i++) {
        str_append(p->out, separator);
        print_launcher(p, &p->plan.steps[i]);
        separator = "\n";
    }
    str_append(p->out, "#endif\n");
}
