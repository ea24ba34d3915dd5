/* `run`: one launch on .npy files. */
#include "remote.h"
#include "session.h"
#include "verify.h"
#include "worker.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16 << 20 };

typedef struct {
    const Artifact *a;
    const RtOptions *options;
    size_t input_count, output_count;
    const RtFile *inputs, *outputs;
    RtError result;
    bool told;
    /* in the child */
    WorkerChannel *channel;
    Arena *arena;
    NpyFile *files;      /* by input */
    unsigned *params;    /* by input: the parameter */
    Hash128 *hashes;     /* by parameter: inputs before the launch */
    char **results;      /* by output: the file's bytes */
    const IrFunc *graph; /* the operator; null: not looked for, or there is none */
    bool by_operator;    /* inputs have its shapes where the sketch's are others, and so have results */
    Binding binding;
    Session session;
} Run;

static RtError find_tensor(const Artifact *a, const char *name, unsigned direction, unsigned *param) {
    int i = artifact_find_param(a, name);
    if (i < 0 || a->params[i].kind != ARTIFACT_TENSOR) return rt_error(RT_BAD_OPTION, "'%.64s' is no tensor of %s", name, a->name);
    if (!(a->params[i].direction & direction))
        return rt_error(RT_BAD_OPTION, "'%s' is not %s by %s", name, direction == ARTIFACT_IN ? "read" : "written", a->name);
    *param = (unsigned)i;
    return rt_ok();
}

static RtError check_names(Run *r) {
    unsigned param;
    for (size_t i = 0; i < r->input_count; i++) {
        RT_TRY(find_tensor(r->a, r->inputs[i].name, ARTIFACT_IN, &r->params[i]));
        for (size_t j = 0; j < i; j++)
            if (r->params[j] == r->params[i]) return rt_error(RT_BAD_OPTION, "'%s' is given twice", r->inputs[i].name);
    }
    for (size_t i = 0; i < r->output_count; i++) RT_TRY(find_tensor(r->a, r->outputs[i].name, ARTIFACT_OUT, &param));
    for (unsigned p = 0; p < r->a->param_count; p++) {
        bool given = !(r->a->params[p].kind == ARTIFACT_TENSOR && (r->a->params[p].direction & ARTIFACT_IN));
        for (size_t i = 0; i < r->input_count; i++) given = given || r->params[i] == p;
        if (!given) return rt_error(RT_BAD_OPTION, "no file is given for the tensor '%s'", r->a->params[p].name);
    }
    return rt_ok();
}

/* ---- The operator's shapes, of tensors that the sketch sees reshaped ---- */

static void find_graph(Run *r) {
    DiagList diags;
    if (r->graph || !r->a->graph) return;
    diag_list_init(&diags, r->arena, source_map_create(r->arena));
    const IrModule *m = ir_parse(r->arena, &diags, "operator", r->a->graph, strlen(r->a->graph));
    for (r->graph = m ? m->first : NULL; r->graph && r->graph->level != IR_LEVEL_GRAPH;) r->graph = r->graph->next;
}

/* The operator's type of the tensor; null: it has none. */
static const IrType *operator_type(Run *r, const ArtifactParam *p) {
    const char *name = p->graph_name ? p->graph_name : p->name;
    find_graph(r);
    const IrOp *end = r->graph ? r->graph->body->last : NULL;
    const IrAttr *names = end && end->opcode == IR_RETURN ? ir_attr(end, "names") : NULL;
    for (unsigned i = 0; r->graph && i < r->graph->param_count; i++)
        if (strcmp(r->graph->params[i].name, name) == 0) return r->graph->body->args[i]->type;
    for (size_t i = 0; names && names->kind == IR_ATTR_STRS && i < names->count && i < end->operand_count; i++)
        if (strcmp(names->strs[i], name) == 0) return end->operands[i]->type;
    return NULL;
}

/* The type where a file has that many axes and the sketch's tensor has not; else null. */
static const IrType *other_shape(Run *r, unsigned param, unsigned rank) {
    const ArtifactParam *p = &r->a->params[param];
    const IrType *t = rank == p->rank ? NULL : operator_type(r, p);
    return t && t->kind == IR_TYPE_TENSOR && t->rank == rank ? t : NULL;
}

static RtError set_shape(Run *r, unsigned param, unsigned rank, const int64_t *extents) {
    const IrType *t = other_shape(r, param, rank);
    if (!t) return binding_set_shape(&r->binding, param, rank, extents);
    r->by_operator = true;
    for (unsigned d = 0; d < rank; d++) {
        int symbol = t->extents[d]->kind == AFF_SYM ? artifact_find_param(r->a, t->extents[d]->name) : -1;
        if (symbol < 0 || r->a->params[symbol].kind != ARTIFACT_SYMBOL || r->a->params[symbol].derived) continue;
        RT_TRY(binding_set_symbol(&r->binding, t->extents[d]->name, extents[d]));
    }
    return rt_ok();
}

static bool extents_of(const Run *r, const IrType *t, int64_t *extents) {
    for (unsigned d = 0; d < t->rank; d++)
        if (!binding_eval(&r->binding, t->extents[d], &extents[d])) return false;
    return true;
}

static RtError check_shape(Run *r, unsigned param, unsigned rank, const int64_t *extents) {
    const IrType *t = other_shape(r, param, rank);
    int64_t wanted[ARTIFACT_MAX_RANK];
    char want[200], got[200];
    if (!t || !extents_of(r, t, wanted)) return binding_check_shape(&r->binding, param, rank, extents);
    if (memcmp(extents, wanted, rank * sizeof *extents) == 0) return rt_ok();
    rt_print_shape(want, sizeof want, rank, wanted);
    rt_print_shape(got, sizeof got, rank, extents);
    return rt_error(RT_BAD_INPUT, "'%s' is %s at these sizes, the given array is %s", r->a->params[param].name, want, got);
}

static RtError bind(Run *r) {
    for (size_t i = 0; i < r->input_count; i++) {
        const ArtifactParam *p = &r->a->params[r->params[i]];
        RT_TRY(npy_open(&r->files[i], p->name, r->inputs[i].path, p->dtype));
        RT_TRY(set_shape(r, r->params[i], r->files[i].header.rank, r->files[i].header.extents));
    }
    RT_TRY(binding_set_all(&r->binding, r->options->symbols, r->options->symbol_count, r->options->scalars, r->options->scalar_count));
    RT_TRY(binding_complete(&r->binding));
    for (size_t i = 0; i < r->input_count; i++) RT_TRY(check_shape(r, r->params[i], r->files[i].header.rank, r->files[i].header.extents));
    return rt_ok();
}

/* `only_inout`: just those that a launch changed. */
static RtError upload_inputs(Run *r, bool only_inout) {
    for (size_t i = 0; i < r->input_count; i++) {
        unsigned p = r->params[i];
        if (only_inout && !(r->a->params[p].direction & ARTIFACT_OUT)) continue;
        uint64_t bytes = binding_element_bytes(&r->binding, p);
        void *data = rt_alloc(bytes);
        if (!data) return rt_error(RT_MISSING, "out of memory for '%s'", r->inputs[i].name);
        RtError e = npy_read_data(&r->files[i], r->inputs[i].path, data, bytes);
        if (!rt_failed(&e)) e = session_upload(&r->session, p, data);
        free(data);
        RT_TRY(e);
        RT_TRY(session_hash(&r->session, p, &r->hashes[p]));
    }
    return rt_ok();
}

static RtError check_inputs(Run *r) {
    for (size_t i = 0; i < r->input_count; i++) {
        unsigned p = r->params[i];
        Hash128 after;
        if (r->a->params[p].direction != ARTIFACT_IN) continue;
        RT_TRY(session_hash(&r->session, p, &after));
        if (after.lo != r->hashes[p].lo || after.hi != r->hashes[p].hi)
            return rt_error(RT_INPUT_MODIFIED, "the tensor '%s', which is only read, was changed", r->a->params[p].name);
    }
    return rt_ok();
}

static int output_param(const Run *r, size_t i) {
    return artifact_find_param(r->a, r->outputs[i].name);
}
static bool is_read(const Run *r, int p) {
    return r->a->params[p].direction & ARTIFACT_IN;
}

/* The file's contents, to be: the header, then what the launch left. */
static RtError take_output(Run *r, size_t i) {
    int p = output_param(r, i);
    const ArtifactParam *param = &r->a->params[p];
    char *file = r->results[i] = rt_alloc(NPY_HEADER + binding_element_bytes(&r->binding, (size_t)p));
    if (!file) return rt_error(RT_MISSING, "out of memory for '%s'", r->outputs[i].name);
    const IrType *t = r->by_operator ? operator_type(r, param) : NULL;
    int64_t extents[ARTIFACT_MAX_RANK];
    if (t && t->kind == IR_TYPE_TENSOR && t->rank <= ARTIFACT_MAX_RANK && extents_of(r, t, extents))
        npy_print_header(file, param->dtype, t->rank, extents);
    else
        npy_print_header(file, param->dtype, param->rank, r->binding.extents[p]);
    return session_download(&r->session, (unsigned)p, file + NPY_HEADER);
}

/* Elements that look like the poison; what was read before holds none. `second`: after another launch, or null. */
static int64_t count_poison(const Run *r, size_t i, const void *second, int64_t *at) {
    int p = output_param(r, i);
    if (is_read(r, p)) return 0;
    return poison_count(r->a->params[p].dtype, r->results[i] + NPY_HEADER, second, (int64_t)r->binding.elements[p], at);
}

static RtError check_written(Run *r, size_t i) {
    int p = output_param(r, i);
    int64_t first = 0;
    if (!count_poison(r, i, NULL, NULL)) return rt_ok();
    void *second = rt_alloc(binding_element_bytes(&r->binding, (size_t)p));
    if (!second) return rt_error(RT_MISSING, "out of memory for '%s'", r->outputs[i].name);
    RtError e = session_download(&r->session, (unsigned)p, second);
    int64_t count = rt_failed(&e) ? 0 : count_poison(r, i, second, &first);
    free(second);
    if (count)
        return rt_error(RT_NOT_WRITTEN, "%lld elements of '%s' were never written, the first at flat index %lld", (long long)count,
                        r->a->params[p].name, (long long)first);
    return e;
}

static void begin_phase(Run *r, double seconds, const char *what) {
    worker_phase(r->channel, seconds, what);
    remote_phase(r->session.device, what);
}

static RtError launch(Run *r, const char *what) {
    begin_phase(r, r->options->time_limit_s > 0 ? r->options->time_limit_s : 60, what);
    RT_TRY(session_launch(&r->session));
    begin_phase(r, WORKER_PATIENCE, "checking the results");
    return session_check_guards(&r->session);
}

/* Each byte may be a right result, the poison's too (a NaN of eight bits; an integer): where an output holds it, a second
 * launch from the same state over another poison decides. */
static RtError check_all_written(Run *r) {
    int64_t doubtful = 0;
    for (size_t i = 0; i < r->output_count; i++) doubtful += count_poison(r, i, NULL, NULL);
    if (!doubtful) return rt_ok();
    r->session.round = 1;
    for (unsigned p = 0; p < r->a->param_count; p++) {
        const ArtifactParam *param = &r->a->params[p];
        bool out = param->kind == ARTIFACT_TENSOR && (param->direction & ARTIFACT_OUT);
        if (out || param->kind == ARTIFACT_WORKSPACE) RT_TRY(session_poison(&r->session, p));
    }
    RT_TRY(upload_inputs(r, true));
    RT_TRY(launch(r, "the kernel's second run"));
    for (size_t i = 0; i < r->output_count; i++) RT_TRY(check_written(r, i));
    return rt_ok();
}

static RtError write_output(Run *r, size_t i) {
    uint64_t bytes = NPY_HEADER + binding_element_bytes(&r->binding, (size_t)output_param(r, i));
    if (file_write_atomic(r->outputs[i].path, r->results[i], bytes, 0666)) return rt_ok();
    return rt_error(RT_BAD_OPTION, "cannot write %s: %s", r->outputs[i].path, strerror(errno));
}

static RtError launch_and_check(Run *r) {
    RT_TRY(launch(r, "the kernel's run"));
    RT_TRY(check_inputs(r));
    for (size_t i = 0; i < r->output_count; i++) RT_TRY(take_output(r, i));
    RT_TRY(check_all_written(r));
    for (size_t i = 0; i < r->output_count; i++) RT_TRY(write_output(r, i));
    RtError e = rt_ok();
    RT_TRY(session_counts(&r->session, e.text, sizeof e.text));
    return e;
}

static RtError run_on(Run *r, Device *d) {
    Program *program;
    binding_init(&r->binding, r->arena, r->a, d->num_sms, d->num_cores);
    RT_TRY(bind(r));
    worker_phase(r->channel, WORKER_PATIENCE, "loading the code");
    RT_TRY(d->ops->load(d, r->a, r->options, &program));
    RT_TRY(session_open(&r->session, r->arena, d, program, &r->binding));
    RT_TRY(upload_inputs(r, false));
    return launch_and_check(r);
}

/* The process ends after this; what it holds goes with it. */
static void work(void *ctx, WorkerChannel *channel) {
    Run *r = ctx;
    Device device;
    r->channel = channel;
    r->arena = arena_create();
    r->files = ARENA_ARRAY(r->arena, NpyFile, r->input_count + 1);
    r->params = ARENA_ARRAY(r->arena, unsigned, r->input_count + 1);
    r->hashes = ARENA_ARRAY(r->arena, Hash128, r->a->param_count + 1);
    r->results = ARENA_ARRAY(r->arena, char *, r->output_count + 1);
    RtError e = check_names(r);
    if (!rt_failed(&e)) e = remote_open(&device, r->a, r->options);
    if (!rt_failed(&e)) e = run_on(r, &device);
    worker_send(channel, &e, sizeof e);
}

static void begins(void *ctx, const char *what) {
    const RtOptions *o = ((Run *)ctx)->options;
    if (o->on_progress) o->on_progress(o->progress_context, what);
}

static bool receive(void *ctx, const void *data, size_t size) {
    Run *r = ctx;
    if (size != sizeof r->result) return false;
    memcpy(&r->result, data, size);
    r->result.text[RT_TEXT - 1] = '\0';
    r->told = (unsigned)r->result.status < RT_STATUS_COUNT;
    return r->told;
}

RtError rt_run(const Artifact *a, const RtOptions *options, size_t input_count, const RtFile *inputs, size_t output_count,
               const RtFile *outputs) {
    Run r = {.a = a, .options = options, .input_count = input_count, .inputs = inputs, .output_count = output_count, .outputs = outputs};
    RtError e = worker_run(&(WorkerSpec){.work = work, .receive = receive, .ctx = &r, .begins = begins});
    if (r.told && (rt_failed(&r.result) || !rt_failed(&e))) return r.result;
    return rt_failed(&e) ? e : rt_error(RT_BUG, "the worker said nothing");
}
