/* The pass check_barriers over whole files, and whether it misses a barrier, fence or wait that is taken away.
 *
 *   barriers [--arch=NAME]... [--remove] [--most=N] [--every=N] [--interpret] [--allow=NAME]... [-v] FILE|FOLDER...
 *
 * FILE is a .sketch or text IR, FOLDER stands for all of its sketches. --allow: kernels whose name has this in it need not be proved. Every cuda kernel of it must be proved. With --remove each barrier, fence and wait of
 * a kernel is taken away in turn (of at most N of them a kernel, spread evenly), each wait also weakened by a group:
 * (with --every=N of every N-th file of a folder, as the day's seed SKETCHC_TEST_SEED draws; the long run takes all)
 * what is left must not be proved, or the removal counts as superfluous and is named. With --interpret a superfluous
 * one is held against the interpreter at small sizes: a race in shared memory that it sees there refutes the proof and
 * fails; one in a tensor, which is not the proof's business, is counted. */
#include "check/barrier_check.h"
#include "ir.h"
#include "passes.h"
#include "sketchc.h"
#include "verify.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_ARCHS = 4, MAX_ALLOWED = 8 };

typedef struct {
    const char *archs[MAX_ARCHS];
    const char *allowed[MAX_ALLOWED];
    size_t arch_count, allowed_count, most, every;
    bool remove, interpret, verbose;
    size_t files, kernels, proved, excused, removals, missed, runs, in_tensors, refuted;
} Run;

static void print_op(const IrOp *op) {
    Str text;
    str_init(&text);
    ir_print_op(op, &text);
    printf("%.*s", (int)strcspn(text.data, "\n"), text.data);
    str_release(&text);
}

static bool is_cuda(const IrFunc *f) {
    return f->level == IR_LEVEL_KERNEL && ir_func_is_cuda(f);
}

/* ---- Taking away ---- */

static bool orders(const IrOp *op) {
    switch (op->opcode) {
    case IR_BARRIER:
    case IR_CLUSTER_BEGUN:
    case IR_CLUSTER_MEET:
    case IR_ASYNC_WAIT:
    case IR_ASYNC_COMMIT:
    case IR_MBAR_WAIT:
    case IR_MBAR_ARRIVE:
    case IR_WGMMA_FENCE:
    case IR_WGMMA_COMMIT:
    case IR_WGMMA_WAIT:
        return true;
    default:
        return false;
    }
}

typedef struct {
    size_t count, wanted;
    IrOp *found;
} Search;

static void find_order(void *context, IrOp *op) {
    Search *s = context;
    if (orders(op) && s->count++ == s->wanted) s->found = op;
}

static IrOp *order_number(IrFunc *f, size_t number, size_t *count) {
    Search s = {.wanted = number};
    ir_walk(f->body, find_order, &s);
    if (count) *count = s.count;
    return s.found;
}

static void take_away(IrOp *op) {
    if (op->result_count) ir_replace_uses(&op->results[0], op->operands[0]);
    ir_op_erase(op);
}

/* ---- The interpreter ---- */

enum { MAX_SYMBOLS = 32, STEPS = 1 << 22 };

/* Runs the kernel with all symbols at `value` where it takes that; the trap's text, or null. */
static const char *trap_at(Arena *arena, IrFunc *f, int64_t value, bool *ran) {
    SymbolValue given[MAX_SYMBOLS];
    size_t symbols = 0, tensors = 0;
    const char *error = NULL;
    *ran = false;
    for (unsigned i = 0; i < f->param_count; i++)
        if (f->params[i].kind == IR_PARAM_SYMBOL && !f->params[i].derived && symbols < MAX_SYMBOLS)
            given[symbols++] = (SymbolValue){f->params[i].name, value};
    const Sizes *sizes = sizes_bind(arena, f, &(Sizes){symbols, given}, &error);
    int64_t runs = 1;
    if (!sizes || (f->guard && (!sizes_eval(sizes, f->guard, &runs) || runs <= 0))) return NULL;
    InterpretTensor *tensor = ARENA_ARRAY(arena, InterpretTensor, f->param_count + 1);
    for (unsigned i = 0; i < f->param_count; i++) {
        Shape shape;
        if (f->params[i].kind != IR_PARAM_TENSOR) continue;
        if (!f->params[i].type || !shape_of(sizes, f->params[i].name, f->params[i].type, &shape) || shape.elements > 1 << 20) return NULL;
        size_t bytes = (size_t)shape.elements * dtype_size(shape.dtype);
        tensor[tensors++] = (InterpretTensor){shape.name, arena_alloc(arena, bytes + 16), bytes};
    }
    InterpretArgs args = {.sizes = sizes, .tensor_count = tensors, .tensors = tensor, .step_limit = STEPS};
    *ran = true;
    return interpret_func(arena, f, &args, &error) ? NULL : error;
}

/* What the interpreter says of a kernel that is proved without an op. */
static void hold_against(Run *r, IrFunc *whole, IrFunc *without) {
    static const int64_t values[] = {8, 33, 64, 96};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        Arena *arena = arena_create();
        bool ran, again;
        const char *trap = trap_at(arena, whole, values[i], &ran);
        if (ran && !trap) {
            trap = trap_at(arena, without, values[i], &again);
            r->runs++;
            bool race = trap && strstr(trap, "race");
            if (race && !strstr(trap, "of shared memory"))
                r->in_tensors++;
            else if (trap && !strstr(trap, "step limit")) {
                r->refuted++;
                printf("REFUTED at %lld: %s\n  ", (long long)values[i], trap);
            }
        }
        arena_destroy(arena);
    }
}

static void try_without(Run *r, const char *file, const char *arch, IrFunc *f, size_t number, bool weaken) {
    BarrierFault fault;
    IrFunc *without = ir_func_clone(f, "without");
    IrOp *op = order_number(without, number, NULL);
    if (weaken)
        ir_attr_set_int(op, "pending", ir_attr_int(op, "pending", 0) + 1);
    else
        take_away(op);
    r->removals++;
    if (barrier_check_holds(without, &fault)) {
        r->missed++;
        if (r->interpret) hold_against(r, f, without);
        printf("%s %s %s: superfluous: number %zu%s: ", file, arch, f->name, number, weaken ? ", weakened" : "");
        print_op(order_number(f, number, NULL));
        putchar('\n');
    }
    ir_func_remove(without);
}

static void try_removals(Run *r, const char *file, const char *arch, IrFunc *f) {
    size_t count;
    order_number(f, SIZE_MAX, &count);
    size_t step = r->most && count > r->most ? (count + r->most - 1) / r->most : 1;
    for (size_t i = 0; i < count; i += step) {
        try_without(r, file, arch, f, i, false);
        if (ir_attr(order_number(f, i, NULL), "pending")) try_without(r, file, arch, f, i, true);
    }
}

/* ---- Files ---- */

static bool is_allowed(const Run *r, const char *name) {
    for (size_t i = 0; i < r->allowed_count; i++)
        if (strstr(name, r->allowed[i])) return true;
    return false;
}

static void check_module(Run *r, const char *file, const char *arch, IrModule *m) {
    IrFunc *next;
    for (IrFunc *f = m->first; f; f = next) {
        BarrierFault fault;
        next = f->next;
        if (!is_cuda(f)) continue;
        r->kernels++;
        if (barrier_check_holds(f, &fault)) {
            r->proved++;
            if (r->remove) try_removals(r, file, arch, f);
            continue;
        }
        bool excused = is_allowed(r, f->name);
        r->excused += excused;
        printf("%s %s %s: not proved%s: %s\n  ", file, arch, f->name, excused ? " (allowed)" : "", fault.what);
        print_op(fault.op);
        if (fault.other) printf("\n  earlier: "), print_op(fault.other);
        putchar('\n');
    }
}

static IrModule *parse(Arena *arena, const char *file, const char *text, size_t size) {
    DiagList diags;
    diag_list_init(&diags, arena, source_map_create(arena));
    IrModule *m = ir_parse(arena, &diags, file, text, size);
    if (!m) printf("%s: not readable as text IR\n", file);
    return m;
}

/* False: the file does not compile for this machine, which other tests look at. */
static bool check_sketch(Run *r, const char *file, const char *arch, const Str *text) {
    sketchc_unit *unit = sketchc_unit_create(file, text->data, text->len);
    sketchc_options options = {.size = sizeof options, .target = "cuda", .arch = arch};
    char *data = NULL;
    size_t size = 0;
    bool ok = sketchc_emit(unit, &options, "kernel", &data, &size) == SKETCHC_OK;
    Arena *arena = arena_create();
    IrModule *m = ok ? parse(arena, file, data, size) : NULL;
    if (m)
        check_module(r, file, arch, m);
    else if (r->verbose)
        printf("%s %s: does not compile\n", file, arch);
    arena_destroy(arena);
    sketchc_free(data);
    sketchc_unit_destroy(unit);
    return ok;
}

static void check_file(Run *r, const char *file) {
    Str text;
    str_init(&text);
    const char *suffix = strrchr(file, '.');
    if (!file_read(file, 64 << 20, &text)) {
        printf("cannot read %s\n", file);
    } else if (suffix && strcmp(suffix, ".sketch") == 0) {
        for (size_t a = 0; a < r->arch_count; a++) check_sketch(r, file, r->archs[a], &text);
    } else {
        Arena *arena = arena_create();
        IrModule *m = parse(arena, file, text.data, text.len);
        if (m) check_module(r, file, "", m);
        arena_destroy(arena);
    }
    r->files++;
    str_release(&text);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool takes_turn(const Run *r, size_t number) {
    const char *day = getenv("SKETCHC_TEST_SEED"), *all = getenv("SKETCHC_TEST_LONG");
    if (!r->every || !day || (all && strcmp(all, "1") == 0)) return true;
    return (number + strtoul(day, NULL, 10)) % r->every == 0;
}

static void check_path(Run *r, const char *path) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        check_file(r, path);
        return;
    }
    Arena *arena = arena_create();
    VEC(char *) names = {0};
    DIR *folder = opendir(path);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const char *suffix = strrchr(e->d_name, '.');
        if (suffix && strcmp(suffix, ".sketch") == 0) VEC_PUSH(arena, &names, arena_printf(arena, "%s/%s", path, e->d_name));
    }
    if (folder) closedir(folder);
    if (names.len) qsort(names.data, names.len, sizeof *names.data, by_name);
    bool remove = r->remove;
    for (size_t i = 0; i < names.len; i++) {
        r->remove = remove && takes_turn(r, i);
        check_file(r, names.data[i]);
    }
    r->remove = remove;
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    Run r = {0};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strncmp(a, "--arch=", 7) == 0 && r.arch_count < MAX_ARCHS)
            r.archs[r.arch_count++] = a + 7;
        else if (strncmp(a, "--allow=", 8) == 0 && r.allowed_count < MAX_ALLOWED)
            r.allowed[r.allowed_count++] = a + 8;
        else if (strcmp(a, "--remove") == 0)
            r.remove = true;
        else if (strcmp(a, "--interpret") == 0)
            r.interpret = true;
        else if (strcmp(a, "-v") == 0)
            r.verbose = true;
        else if (strncmp(a, "--every=", 8) == 0)
            r.every = strtoul(a + 8, NULL, 10);
        else if (strncmp(a, "--most=", 7) == 0)
            r.most = strtoul(a + 7, NULL, 10);
        else {
            if (!r.arch_count) r.archs[r.arch_count++] = "sm_80", r.archs[r.arch_count++] = "sm_90a";
            check_path(&r, a);
            fflush(stdout);
        }
    }
    printf("figure: %zu files, %zu kernels, %zu proved; %zu removals, %zu superfluous\n", r.files, r.kernels, r.proved, r.removals,
           r.missed);
    if (r.interpret) printf("figure: %zu interpreted without, %zu races in tensors, %zu refuted\n", r.runs, r.in_tensors, r.refuted);
    return r.proved + r.excused != r.kernels || !r.kernels || r.refuted;
}
