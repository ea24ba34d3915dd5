/* operator_features.h: the text of the graph, read line by line. */
#include "operator_features.h"

#include "sketchc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {
#define KIND(id, name) name,
#include "operator_kinds.def"
#undef KIND
};

const char *operator_kind_name(OperatorKind kind) {
    return kind < OPERATOR_KIND_COUNT ? kinds[kind] : "";
}

/* ---- One line of the graph ---- */

typedef struct {
    char op[48], kind[16];
    unsigned rank;
    bool is_tensor, is_index;
} Line;

/* What stands behind `mark` in the line, as long as it is a word. */
static bool word_behind(const char *line, size_t size, const char *mark, char *out, size_t room) {
    const char *end = line + size, *p = line;
    size_t n = strlen(mark), k = 0;
    for (; p + n <= end && memcmp(p, mark, n) != 0;) p++;
    if (p + n > end) return false;
    for (p += n; p < end && k + 1 < room && !strchr(" ,(){}[]\"<>:", *p);) out[k++] = *p++;
    out[k] = 0;
    return k > 0;
}

/* "tensor<[M, 2*H] x f32>": the first result's rank. */
static void read_type(const char *line, size_t size, Line *l) {
    static const char mark[] = " : tensor<[";
    const char *end = line + size, *p = line;
    for (; p + sizeof mark - 1 <= end && memcmp(p, mark, sizeof mark - 1) != 0;) p++;
    l->is_tensor = p + sizeof mark - 1 <= end;
    if (!l->is_tensor) {
        char type[16] = "";
        if (!word_behind(line, size, ") : ", type, sizeof type)) word_behind(line, size, "} : ", type, sizeof type);
        l->is_index = strcmp(type, "index") == 0;
        return;
    }
    p += sizeof mark - 1;
    for (l->rank = *p != ']'; p < end && *p != ']'; p++) l->rank += *p == ',';
}

/* False: no operation stands there, or one that says nothing. */
static bool read_line(const char *line, size_t size, Line *l) {
    *l = (Line){0};
    if (!size || line[0] != ' ' || !word_behind(line, size, " = ", l->op, sizeof l->op)) return false;
    if (strcmp(l->op, "const") == 0) return false;
    word_behind(line, size, "kind = \"", l->kind, sizeof l->kind);
    read_type(line, size, l);
    return true;
}

/* ---- What the lines say together ---- */

typedef struct {
    bool sort, scan, contract, fold, computes, window, gather, mask, arg;
    unsigned elements, products, most_rank, last_rank; /* elements, products: of the generic being read */
    bool in_fold_add, product, convolution;
} Seen;

static void end_generic(Seen *s) {
    if (s->in_fold_add && s->elements > 1 && s->products) {
        s->product |= !s->window;
        s->convolution |= s->window;
    }
    s->elements = s->products = 0;
    s->in_fold_add = s->window = false;
}

static bool is_one_of(const char *word, const char *list) {
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
    return false;
}

static void note_graph_op(const Line *l, Seen *s) {
    bool generic = strcmp(l->op, "graph.generic") == 0, reduce = strcmp(l->op, "graph.reduce") == 0;
    if (generic) {
        end_generic(s);
        s->in_fold_add = strcmp(l->kind, "add") == 0;
    }
    s->fold |= reduce || (generic && l->kind[0]);
    s->sort |= strcmp(l->op, "graph.sort") == 0;
    s->scan |= strcmp(l->op, "graph.scan") == 0;
    s->contract |= strcmp(l->op, "graph.contract") == 0;
    s->arg |= strcmp(l->op, "graph.arg") == 0;
    s->elements += strcmp(l->op, "graph.element") == 0;
}

static void note(const Line *l, Seen *s, bool data_index) {
    if (strncmp(l->op, "graph.", 6) == 0)
        note_graph_op(l, s);
    else if (l->is_index)
        s->window |= strcmp(l->op, "cast") != 0, s->gather |= data_index && strcmp(l->op, "cast") == 0;
    else if (is_one_of(l->op, "select le lt ge gt eq ne"))
        s->mask = true;
    else if (strcmp(l->op, "cast") != 0)
        s->computes = true;
    s->products += strcmp(l->op, "mul") == 0 && !l->is_index;
    if (!l->is_tensor) return;
    if (l->rank > s->most_rank) s->most_rank = l->rank;
    s->last_rank = l->rank;
}

static OperatorKind kind_of(const Seen *s) {
    if (s->sort) return OPERATOR_SORTING;
    if (s->scan) return OPERATOR_SCAN;
    if (s->convolution) return OPERATOR_CONVOLUTION;
    if (s->contract || s->product) return OPERATOR_PRODUCT;
    if (s->fold) return s->last_rank >= s->most_rank ? OPERATOR_NORMALISATION : OPERATOR_REDUCTION;
    if (s->arg || s->gather || (s->mask && !s->computes)) return OPERATOR_INDEXING;
    return s->computes ? OPERATOR_ELEMENTWISE : OPERATOR_MANIPULATION;
}

/* Words for the operation with its kind, with the one before it, and with its result's rank. What all operators have, such as an
 * element type, tells nothing apart. */
static void describe(const Line *l, char last[64], Str *out) {
    char name[64];
    snprintf(name, sizeof name, "%s%s%s%s", l->is_index ? "index." : "", l->op, l->kind[0] ? "." : "", l->kind);
    str_printf(out, "%s ", name);
    if (last[0]) str_printf(out, "%s>%s ", last, name);
    if (l->is_tensor) str_printf(out, "%s.rank%u ", name, l->rank);
    memcpy(last, name, sizeof name);
}

static void read_graph(const char *text, OperatorFeatures *f) {
    Seen seen = {0};
    Line line;
    char last[64] = "";
    bool from_data = false;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        /* Parameters count for the ranks: "tensor %X: tensor<[M, N] x f32> in". */
        if (strncmp(p, "func ", 5) == 0)
            for (const char *q = p; (q = strstr(q, ": tensor<[")) && q < p + n;) {
                unsigned rank = *(q += 10) != ']';
                for (; *q && *q != ']'; q++) rank += *q == ',';
                if (rank > seen.most_rank) seen.most_rank = rank;
            }
        else if (read_line(p, n, &line)) {
            note(&line, &seen, from_data);
            from_data = strcmp(line.op, "graph.element") == 0;
            describe(&line, last, &f->description);
        }
        p += n + (p[n] == '\n');
    }
    end_generic(&seen);
    f->kind = kind_of(&seen);
    str_printf(&f->description, "kind.%s", operator_kind_name(f->kind));
}

/* ---- Shapes ---- */

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static double size_at(const char *p) {
    double size = 0;
    for (p += strspn(p, " "); *p >= '0' && *p <= '9'; p++) size = 10 * size + (*p - '0');
    return size;
}

/* "case @large {M = 2048, N = 1024; X = ...}": the case with the largest product of sizes. */
static void read_cases(const char *text, OperatorFeatures *f) {
    double most = -1;
    for (const char *p = strstr(text, "case @"); p; p = strstr(p + 1, "\ncase @")) {
        const char *brace = strchr(p, '{');
        double sizes[SHAPE_SIZE], sum = 0;
        unsigned count = 0;
        for (const char *q = brace; q && *q && *q != ';' && *q != '}' && count < SHAPE_SIZE; q++) {
            if (*q != '=') continue;
            sizes[count] = log2(1 + size_at(q + 1));
            sum += sizes[count++];
        }
        if (sum <= most) continue;
        most = sum;
        qsort(sizes, count, sizeof *sizes, descending);
        f->shape_count = count;
        if (count) memcpy(f->shape, sizes, count * sizeof *sizes);
    }
}

double shape_similarity(const OperatorFeatures *a, const OperatorFeatures *b) {
    double sum = 0;
    for (unsigned i = 0; i < SHAPE_SIZE; i++) {
        double x = i < a->shape_count ? a->shape[i] : 0, y = i < b->shape_count ? b->shape[i] : 0;
        sum += (x - y) * (x - y);
    }
    return 1 / (1 + sqrt(sum));
}

/* ---- Features and their embedding ---- */

bool operator_features(const char *operator_text, OperatorFeatures *f) {
    *f = (OperatorFeatures){.kind = OPERATOR_ELEMENTWISE};
    str_init(&f->description);
    sketchc_unit *unit = sketchc_unit_create("operator.sketch", operator_text, strlen(operator_text));
    sketchc_options options = {.size = sizeof options};
    char *graph = NULL;
    size_t size;
    bool ok = unit && sketchc_emit(unit, &options, "graph", &graph, &size) == SKETCHC_OK;
    if (ok) {
        read_cases(graph, f);
        read_graph(graph, f);
    }
    sketchc_free(graph);
    sketchc_unit_destroy(unit);
    return ok;
}

void operator_features_release(OperatorFeatures *f) {
    str_release(&f->description);
}

/* How often the word at `p` stands in the text, and whether this is the first time. */
static unsigned occurrences(const char *text, const char *p, size_t n, bool *first) {
    unsigned count = 0;
    *first = true;
    for (const char *q = text; *q;) {
        size_t k = strcspn(q, " ");
        if (k == n && memcmp(q, p, n) == 0) {
            *first &= q >= p;
            count++;
        }
        q += k + (q[k] == ' ');
    }
    return count;
}

void embed_words(const char *description, double vector[EMBEDDING_SIZE]) {
    for (size_t i = 0; i < EMBEDDING_SIZE; i++) vector[i] = 0;
    for (const char *p = description; *p;) {
        size_t n = strcspn(p, " ");
        bool first;
        unsigned count = n ? occurrences(description, p, n, &first) : 0;
        if (count && first) {
            Hash128 h = hash128(p, n, (Hash128){0, 0});
            vector[h.lo % EMBEDDING_SIZE] += (h.hi & 1 ? 1 : -1) * log2(1 + (double)count);
        }
        p += n + (p[n] == ' ');
    }
    double squares = 0;
    for (size_t i = 0; i < EMBEDDING_SIZE; i++) squares += vector[i] * vector[i];
    for (size_t i = 0; squares > 0 && i < EMBEDDING_SIZE; i++) vector[i] /= sqrt(squares);
}

double embedding_cosine(const double *a, const double *b, size_t size) {
    double dot = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < size; i++) {
        dot += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : 0;
}
