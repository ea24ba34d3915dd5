#include "verify_plan.h"
#include "analyzer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 8 << 20, RAGGED_ELEMENTS = 1 << 20 };

const char *task_graph_name(const ArtifactParam *p) {
    return p->graph_name ? p->graph_name : p->name;
}

static RtError no_operator(const TaskPlan *plan, bool needed) {
    return rt_error(RT_BAD_INPUT,
                    needed ? "%s has no operator: there is nothing to verify it against"
                           : "%s has neither an operator nor a case: nothing says at which sizes to time it",
                    plan->a->name);
}

/* `needed`: timing does without an operator when there are cases. */
static RtError parse_graph(TaskPlan *plan, bool needed) {
    if (!plan->a->graph) return no_operator(plan, needed);
    DiagList diags;
    diag_list_init(&diags, plan->arena, source_map_create(plan->arena));
    plan->module = ir_parse(plan->arena, &diags, "operator", plan->a->graph, strlen(plan->a->graph));
    const char *why = diags.first ? diags.first->text : "";
    if (!plan->module) return rt_error(RT_BAD_ARTIFACT, "the artifact's operator is not valid: %.300s", why);
    if (!ir_verify(plan->module, &diags))
        return rt_error(RT_BAD_ARTIFACT, "the artifact's operator is not valid: %.300s", diags.first ? diags.first->text : "");
    for (plan->graph = plan->module->first; plan->graph; plan->graph = plan->graph->next)
        if (plan->graph->level == IR_LEVEL_GRAPH) return rt_ok();
    return !needed && plan->module->case_count ? rt_ok() : no_operator(plan, needed);
}

/* ---- Tasks ---- */

static void set_size(Sizes *sizes, const char *name, int64_t value) {
    for (size_t i = 0; i < sizes->count; i++)
        if (strcmp(sizes->values[i].name, name) == 0) {
            sizes->values[i].value = value;
            return;
        }
    sizes->values[sizes->count++] = (SymbolValue){name, value};
}

static Sizes *given_sizes(TaskPlan *plan, const IrCase *c) {
    Sizes *given = ARENA_NEW(plan->arena, Sizes);
    size_t n = (c ? c->symbol_count : 0) + plan->options->symbol_count;
    given->values = ARENA_ARRAY(plan->arena, SymbolValue, n + 1);
    for (size_t i = 0; c && i < c->symbol_count; i++) set_size(given, c->symbols[i], c->values[i]);
    for (size_t i = 0; i < plan->options->symbol_count; i++)
        set_size(given, plan->options->symbols[i].name, plan->options->symbols[i].value);
    return given;
}

Task *task_plan_add(TaskPlan *plan, const char *name, const Sizes *sizes, const IrCase *data) {
    Task *t = &plan->tasks[plan->count++];
    rt_copy(t->name, sizeof t->name, name);
    t->sizes = sizes;
    t->data = data;
    return t;
}

static void add_case(TaskPlan *plan, const char *name, const IrCase *c) {
    const char *error = NULL;
    const Sizes *sizes = given_sizes(plan, c);
    if (plan->graph) sizes = sizes_bind(plan->arena, plan->graph, sizes, &error);
    Task *t = task_plan_add(plan, name, sizes, c);
    t->named = plan->options->case_name != NULL;
    t->own = c;
    if (!sizes) rt_copy(t->skip, sizeof t->skip, error ? error : "the sizes do not fit the operator");
}

/* Is it among names with commas between? */
static bool is_named(const char *names, const char *name) {
    for (size_t n = strlen(name); names; names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL)
        if (strncmp(names, name, n) == 0 && (names[n] == ',' || names[n] == '\0')) return true;
    return false;
}

/* Each name that --case gives is one of a case; `given`: of an operator without cases. */
static RtError check_names(const TaskPlan *plan) {
    const IrModule *m = plan->module;
    for (const char *at = plan->options->case_name; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[RT_NAME];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        bool known = !m->case_count && strcmp(name, "given") == 0;
        for (size_t i = 0; i < m->case_count; i++) known |= strcmp(m->cases[i].name, name) == 0;
        if (!known) return rt_error(RT_BAD_OPTION, "%s has no case named '%.64s'", plan->a->name, name);
    }
    return rt_ok();
}

RtError task_plan_create(TaskPlan *plan, Arena *arena, const Artifact *a, const RtOptions *options, bool ragged) {
    *plan = (TaskPlan){.a = a, .options = options, .arena = arena};
    RT_TRY(parse_graph(plan, ragged));
    const IrModule *m = plan->module;
    ANALYZER_ASSUME(m); /* else there was an error */
    plan->tasks = ARENA_ARRAY(arena, Task, m->case_count + 2);
    for (size_t i = 0; i < m->case_count; i++)
        if (!options->case_name || is_named(options->case_name, m->cases[i].name)) add_case(plan, m->cases[i].name, &m->cases[i]);
    RT_TRY(check_names(plan));
    if (!plan->count) add_case(plan, "given", NULL);
    if (!plan->tasks[0].sizes && !m->case_count)
        return rt_error(RT_BAD_OPTION, "no case gives sizes: %.300s; -D NAME=N gives them", plan->tasks[0].skip);
    if (!ragged || options->no_ragged || options->case_name) return rt_ok();
    RT_TRY(task_read_sketch(plan));
    int64_t most = RAGGED_ELEMENTS;
    if (options->max_bytes / 4 < (uint64_t)most && options->max_bytes) most = (int64_t)(options->max_bytes / 4);
    SizeList list = task_more_sizes(plan, most);
    Task *tasks = ARENA_ARRAY(arena, Task, plan->count + list.count + 1);
    memcpy(tasks, plan->tasks, plan->count * sizeof *tasks);
    plan->tasks = tasks;
    for (size_t i = 0; i < list.count; i++) task_plan_add(plan, arena_printf(arena, "ragged %zu", i + 1), list.sizes[i], tasks[0].data);
    if (options->exact) return rt_ok();
    task_plan_vary(plan, plan->count - list.count);
    return rt_ok();
}

/* ---- One task ---- */

static bool find_size(const Sizes *sizes, const char *name, int64_t *value) {
    for (size_t i = 0; i < sizes->count; i++)
        if (strcmp(sizes->values[i].name, name) == 0) {
            *value = sizes->values[i].value;
            return true;
        }
    return false;
}

/* A symbol of the sketch alone, as a stride may be. */
static bool find_given(const RtOptions *o, const char *name, int64_t *value) {
    for (size_t i = 0; i < o->symbol_count; i++)
        if (strcmp(o->symbols[i].name, name) == 0) {
            *value = o->symbols[i].value;
            return true;
        }
    return false;
}

static bool find_in_case(const IrCase *c, const char *name, int64_t *value) {
    for (size_t i = 0; c && i < c->symbol_count; i++)
        if (strcmp(c->symbols[i], name) == 0) {
            *value = c->values[i];
            return true;
        }
    return false;
}

static int graph_param(const IrFunc *graph, const char *name) {
    for (unsigned i = 0; graph && i < graph->param_count; i++)
        if (strcmp(graph->params[i].name, name) == 0) return (int)i;
    return -1;
}

/* The operator's tensor of that name, an input or an output, at the task's sizes. */
static bool graph_shape(const TaskPlan *plan, const Task *task, const char *name, Shape *shape) {
    int g = graph_param(plan->graph, name);
    if (g >= 0) return shape_of(task->sizes, name, plan->graph->body->args[g]->type, shape);
    const IrOp *end = plan->graph ? plan->graph->body->last : NULL;
    const IrAttr *names = end && end->opcode == IR_RETURN ? ir_attr(end, "names") : NULL;
    for (size_t i = 0; names && names->kind == IR_ATTR_STRS && i < names->count && i < end->operand_count; i++)
        if (strcmp(names->strs[i], name) == 0) return shape_of(task->sizes, name, end->operands[i]->type, shape);
    return false;
}

/* The sketch's symbols from the operator's shapes. A tensor that the sketch sees reshaped has
 * another rank and is bound by its symbols' names. */
static RtError bind_shapes(const TaskPlan *plan, const Task *task, Binding *b) {
    for (unsigned i = 0; i < plan->a->param_count; i++) {
        const ArtifactParam *p = &plan->a->params[i];
        Shape shape;
        if (p->kind != ARTIFACT_TENSOR || !graph_shape(plan, task, task_graph_name(p), &shape) || shape.rank != p->rank) continue;
        RT_TRY(binding_set_shape(b, i, shape.rank, shape.extents));
    }
    return rt_ok();
}

/* The artifact's name of a scalar that the operator calls `name`. */
static const char *own_name(const TaskPlan *plan, const char *name) {
    for (size_t i = 0; i < plan->a->param_count; i++) {
        const ArtifactParam *p = &plan->a->params[i];
        if (p->kind == ARTIFACT_SCALAR && strcmp(task_graph_name(p), name) == 0) return p->name;
    }
    return name;
}

/* What the case says of a scalar, else its default; NaN: neither. */
static double own_scalar(const TaskPlan *plan, const Task *task, const char *name) {
    const IrCase *c = task->data;
    for (size_t i = 0; c && i < c->data_count; i++)
        if (strcmp(c->data[i].tensor, name) == 0 && c->data[i].arg_count == 1) return c->data[i].args[0].number;
    int g = graph_param(plan->graph, name);
    return g >= 0 && plan->graph->params[g].kind == IR_PARAM_SCALAR ? plan->graph->params[g].fallback : NAN;
}

static double scalar_value(const TaskPlan *plan, const Task *task, const ArtifactParam *p) {
    double own = own_scalar(plan, task, task_graph_name(p));
    return task->scalars ? task_other_scalar(p->dtype, own, task->scalars) : own;
}

RtError task_bind(const TaskPlan *plan, const Task *task, Binding *b) {
    RT_TRY(bind_shapes(plan, task, b));
    for (size_t i = 0; i < plan->a->param_count; i++) {
        const ArtifactParam *p = &plan->a->params[i];
        const char *name = task_graph_name(p);
        int64_t value;
        if (p->kind == ARTIFACT_SYMBOL && !p->derived && !b->bound[i] &&
            (find_size(task->sizes, name, &value) || find_given(plan->options, p->name, &value) ||
             find_in_case(task->own, p->name, &value)))
            RT_TRY(binding_set_symbol(b, p->name, value));
        double scalar = p->kind == ARTIFACT_SCALAR ? scalar_value(plan, task, p) : NAN;
        if (!isnan(scalar)) RT_TRY(binding_set_scalar(b, p->name, scalar));
    }
    for (size_t i = 0; i < plan->options->scalar_count; i++)
        RT_TRY(binding_set_scalar(b, own_name(plan, plan->options->scalars[i].name), plan->options->scalars[i].value));
    return binding_complete(b);
}

RtError task_check_size(const TaskPlan *plan, const Task *task, const Device *d, const Binding *b) {
    uint64_t need = binding_tensor_bytes(b), limit = plan->options->max_bytes;
    if (!limit) limit = (plan->a->target == ARTIFACT_CUDA ? d->memory_bytes : d->free_bytes) / 4;
    if (need > limit && !task->named)
        return rt_error(RT_SKIPPED, "its %llu bytes are above --max-bytes=%llu", (unsigned long long)need, (unsigned long long)limit);
    if (need > d->free_bytes) return rt_error(RT_SKIPPED, "its %llu MB do not fit into memory", (unsigned long long)(need >> 20));
    return rt_ok();
}

static RtError make_plain_spec(const TaskPlan *plan, const Task *task, TaskInput *in) {
    const IrCase *c = task->data;
    const char *error = NULL;
    if (plan->options->exact) {
        input_spec_exact(&in->spec, plan->options->seed, &in->shape);
        return rt_ok();
    }
    for (size_t i = 0; c && i < c->data_count; i++) {
        const IrCaseData *data = &c->data[i];
        if (strcmp(data->tensor, in->shape.name) != 0) continue;
        bool empty;
        if (input_spec_of_case(&in->spec, plan->options->seed, &in->shape, data, task->sizes, &empty, &error)) return rt_ok();
        if (empty) return rt_error(RT_SKIPPED, "its sizes leave the data of '%s' no value", in->shape.name);
        return rt_error(RT_BAD_INPUT, "the data of '%s': %.300s", in->shape.name, error ? error : "not valid");
    }
    input_spec_default(&in->spec, plan->options->seed, &in->shape);
    return rt_ok();
}

static RtError make_spec(const TaskPlan *plan, const Task *task, TaskInput *in) {
    RT_TRY(make_plain_spec(plan, task, in));
    if (!task->special || strcmp(task->special, in->shape.name) != 0) return rt_ok();
    in->spec.special = task->axis + 1;
    in->spec.beyond = task->beyond;
    return rt_ok();
}

/* In the operator's shape where there is one (a sketch may see it reshaped), else in its own. */
static RtError find_shape(const TaskPlan *plan, const Task *task, const Binding *b, size_t i, Shape *shape) {
    const ArtifactParam *p = &plan->a->params[i];
    const char *name = task_graph_name(p);
    if (!plan->graph) {
        *shape = (Shape){.name = name, .dtype = p->dtype, .rank = p->rank, .elements = (int64_t)b->elements[i]};
        memcpy(shape->extents, b->extents[i], sizeof shape->extents);
        return rt_ok();
    }
    int g = graph_param(plan->graph, name);
    if (g < 0 || !shape_of(task->sizes, plan->graph->params[g].name, plan->graph->body->args[g]->type, shape))
        return rt_error(RT_BAD_ARTIFACT, "the operator has no tensor '%s'", name);
    if (shape->dtype != p->dtype || (uint64_t)shape->elements != b->elements[i])
        return rt_error(RT_BAD_ARTIFACT, "'%s' is another tensor in the operator (dtype or number of elements)", p->name);
    return rt_ok();
}

/* Stored and then loaded by the sketch, but no input of the operator: it starts out poisoned. */
static bool is_made_here(const TaskPlan *plan, const Task *task, const ArtifactParam *p) {
    Shape shape;
    return plan->graph && graph_param(plan->graph, task_graph_name(p)) < 0 && graph_shape(plan, task, task_graph_name(p), &shape);
}

RtError task_inputs(const TaskPlan *plan, const Task *task, Arena *arena, const Binding *b, TaskInput **inputs) {
    *inputs = ARENA_ARRAY(arena, TaskInput, plan->a->param_count + 1);
    for (size_t i = 0; i < plan->a->param_count; i++) {
        const ArtifactParam *p = &plan->a->params[i];
        TaskInput *in = &(*inputs)[i];
        if (p->kind != ARTIFACT_TENSOR || !(p->direction & ARTIFACT_IN)) continue;
        if (is_made_here(plan, task, p)) continue;
        RT_TRY(find_shape(plan, task, b, i, &in->shape));
        in->read = true;
        RT_TRY(make_spec(plan, task, in));
    }
    return rt_ok();
}

RtError task_upload(Session *s, const TaskInput *inputs, bool only_inout, unsigned threads) {
    for (size_t i = 0; i < s->a->param_count; i++) {
        if (!inputs[i].read || (only_inout && s->a->params[i].direction != ARTIFACT_INOUT)) continue;
        int64_t elements = inputs[i].shape.elements,
                piece = elements < PIECE_ELEMENTS || s->a->params[i].strided ? elements : PIECE_ELEMENTS;
        uint64_t size = dtype_size(s->a->params[i].dtype);
        void *data = rt_alloc((uint64_t)piece * size);
        RtError e = data ? rt_ok() : rt_error(RT_MISSING, "out of memory");
        for (int64_t at = 0; at < elements && !rt_failed(&e); at += piece) {
            int64_t end = elements - at < piece ? elements : at + piece;
            input_fill(&inputs[i].spec, data, at, end, threads);
            e = piece == elements
                    ? session_upload(s, (unsigned)i, data)
                    : s->device->ops->upload(s->device, s->addresses[i] + (uint64_t)at * size, data, (uint64_t)(end - at) * size);
        }
        free(data);
        RT_TRY(e);
    }
    return rt_ok();
}
