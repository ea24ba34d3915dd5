/* Values of the reference that another process of the search has computed: a key says operator, sizes, data and elements, and what is
 * kept under it is what eval_run gives for them. */
#include "book.h"
#include "evaluate_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Keys ---- */

static Hash128 add(Hash128 hash, const void *data, size_t size) {
    return hash128(data, size, hash);
}

static Hash128 add_text(Hash128 hash, const char *text) {
    return add(hash, text, strlen(text) + 1);
}

static Hash128 add_graph(Hash128 hash, const IrFunc *f) {
    Str text;
    str_init(&text);
    ir_print_func(f, &text);
    hash = add_text(hash, text.data);
    str_release(&text);
    return hash;
}

static Hash128 add_input(Hash128 hash, const EvalInput *input) {
    const InputSpec *spec = input->spec;
    const int64_t numbers[] = {input->shape.dtype,    input->shape.rank, spec->kind,    (int64_t)spec->key[0],
                               (int64_t)spec->key[1], spec->nonzero,     spec->special, spec->shape.dtype};
    const double limits[] = {spec->a, spec->b};
    hash = add_text(hash, input->shape.name ? input->shape.name : "");
    hash = add(hash, numbers, sizeof numbers);
    hash = add(hash, limits, sizeof limits);
    hash = add(hash, input->shape.extents, input->shape.rank * sizeof *input->shape.extents);
    return add(hash, spec->shape.extents, spec->shape.rank * sizeof *spec->shape.extents);
}

void evaluator_identify(Evaluator *ev, const IrFunc *f) {
    const EvalBinding *b = ev->binding;
    const int64_t flags[] = {b->exact, b->trial, b->flushes, b->fault, (int64_t)b->input_count, (int64_t)b->scalar_count};
    if (!book_is_open()) return;
    for (size_t i = 0; i < b->input_count; i++)
        if (!b->inputs[i].spec) return; /* data that nothing describes */
    Hash128 hash = add_graph((Hash128){0, 0}, f);
    hash = add(hash, flags, sizeof flags);
    for (size_t i = 0; i < b->sizes->count; i++) {
        hash = add_text(hash, b->sizes->values[i].name);
        hash = add(hash, &b->sizes->values[i].value, sizeof b->sizes->values[i].value);
    }
    for (size_t i = 0; i < b->input_count; i++) hash = add_input(hash, &b->inputs[i]);
    for (size_t i = 0; i < b->scalar_count; i++) {
        hash = add_text(hash, b->scalars[i].name);
        hash = add(hash, &b->scalars[i].value, sizeof b->scalars[i].value);
    }
    ev->identity = hash;
    ev->recorded = true;
}

/* ---- Records ---- */

enum { INSIDE = 1, BEYOND = 2 };

/* Of `count` elements: values or whole numbers, bounds, then a byte each for what is undecided and its way, and one for all. */
typedef struct {
    unsigned char *memory;
    double *value, *bound;
    int64_t *integer;
    bool *undecided;
    uint8_t *way, *all;
    size_t size;
} Record;

static bool record_create(Record *r, size_t count) {
    r->size = count * (sizeof *r->value + sizeof *r->bound + sizeof *r->undecided + sizeof *r->way) + 1;
    r->memory = calloc(1, r->size);
    if (!r->memory) return false;
    r->value = (double *)(void *)r->memory;
    r->integer = (int64_t *)(void *)r->memory; /* an output is one or the other */
    r->bound = r->value + count;
    r->undecided = (bool *)(r->bound + count);
    r->way = (uint8_t *)(r->undecided + count);
    r->all = r->way + count;
    return true;
}

static void record_read(const Record *r, bool real, size_t count, EvalResult *result) {
    if (real)
        memcpy(result->value, r->value, count * sizeof *r->value);
    else
        memcpy(result->integer, r->integer, count * sizeof *r->integer);
    memcpy(result->bound, r->bound, count * sizeof *r->bound);
    memcpy(result->undecided, r->undecided, count * sizeof *r->undecided);
    if (result->way) memcpy(result->way, r->way, count * sizeof *r->way);
}

static void record_fill(Record *r, EvalRun *run, unsigned output, size_t count, const int64_t *flat) {
    EvalResult own = {r->value, r->integer, r->bound, r->undecided, r->way};
    bool inside = eval_elements(run, output, count, flat, &own);
    *r->all = (uint8_t)((inside ? INSIDE : 0) | (run->beyond ? BEYOND : 0));
}

bool eval_recorded(EvalRun *run, unsigned output, size_t count, const int64_t *flat, EvalResult *result) {
    const uint64_t place[] = {output, count};
    bool real = run->ev->outputs[output]->is_real;
    Hash128 key = add(add(run->ev->identity, place, sizeof place), flat, count * sizeof *flat);
    Record r;
    if (!count || !record_create(&r, count)) return eval_elements(run, output, count, flat, result);
    BookAnswer answer = book_ask(key, r.memory, r.size, count);
    if (answer != BOOK_FOUND) record_fill(&r, run, output, count, flat);
    if (answer == BOOK_YOURS) book_put(key, r.memory);
    record_read(&r, real, count, result);
    run->beyond |= (*r.all & BEYOND) != 0;
    bool inside = *r.all & INSIDE;
    free(r.memory);
    return inside;
}
