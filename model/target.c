/* Reads target documents (JSON) into Target. */
#include "target.h"

#include <string.h>

#include "json.h"
#include "target_data.h"

enum { G = 1, C = 2 }; /* kinds in target_fields.def */

typedef struct {
    const char *name, *group;
    unsigned kinds;
    int64_t minimum, maximum;
    size_t offset;
} Field;

static const Field fields[] = {
#define TARGET_FIELD(id, group, kinds, minimum, maximum, summary) {#id, group, kinds, minimum, maximum, offsetof(Target, id)},
#include "target_fields.def"
#undef TARGET_FIELD
};

static const struct {
    const char *name;
    unsigned bit;
} features[] = {
    {"mma", TARGET_MMA}, {"cp.async", TARGET_CP_ASYNC}, {"wgmma", TARGET_WGMMA},   {"tma", TARGET_TMA},
    {"fma", TARGET_FMA}, {"cluster", TARGET_CLUSTER},   {"mma.f8", TARGET_MMA_F8}, {"stmatrix", TARGET_STMATRIX},
};

typedef struct {
    Arena *arena;
    DiagList *diags;
    const char *path;
    bool ok;
} Reader;

static void complain(Reader *r, const char *what) {
    diag_report(r->diags, DIAG_bad_target_file, SPAN_NONE, r->path, what);
    r->ok = false;
}

static const char *read_string(Reader *r, const Json *object, const char *key) {
    const char *text = json_get_string(object, key, "");
    bool ok = text[0] && text[0] != '-';
    /* Names reach command lines of nvcc and gcc. */
    for (const char *p = text; *p; p++) ok &= strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *p) != NULL;
    if (!ok) complain(r, arena_printf(r->arena, "\"%s\" must be a name of letters, digits, '_', '.' and '-'", key));
    return arena_strdup(r->arena, text);
}

static void read_number(Reader *r, const Json *root, const Field *f, Target *t) {
    int64_t value;
    if (!json_int(json_get(json_get(root, f->group), f->name), &value) || value < f->minimum || value > f->maximum) {
        complain(r, arena_printf(r->arena, "\"%s\" in \"%s\" must be a whole number from %lld to %lld", f->name, f->group,
                                 (long long)f->minimum, (long long)f->maximum));
        return;
    }
    memcpy((char *)t + f->offset, &value, sizeof value);
}

static void reject_unknown(Reader *r, const Json *root, const char *group, unsigned kind) {
    for (const Json *item = json_first(json_get(root, group)); item; item = json_next(item)) {
        bool known = false;
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            known |= (fields[i].kinds & kind) && strcmp(fields[i].group, group) == 0 && strcmp(fields[i].name, json_key(item)) == 0;
        if (!known) complain(r, arena_printf(r->arena, "\"%s\" has no member \"%s\" for this kind of target", group, json_key(item)));
    }
}

static void read_features(Reader *r, const Json *root, Target *t) {
    const Json *list = json_get(root, "features");
    if (json_kind(list) != JSON_ARRAY) complain(r, "\"features\" must be a list");
    for (const Json *item = json_first(list); item; item = json_next(item)) {
        const char *name = json_string(item, "(not a text)");
        bool known = false;
        for (size_t i = 0; i < COUNT_OF(features); i++)
            if (strcmp(features[i].name, name) == 0) {
                t->features |= features[i].bit;
                known = true;
            }
        if (!known) complain(r, arena_printf(r->arena, "unknown feature \"%s\"", name));
    }
}

static void read_root(Reader *r, const Json *root, Target *t) {
    if (strcmp(json_get_string(root, "format", ""), "sketchc.target 1") != 0) {
        complain(r, "\"format\" must be \"sketchc.target 1\"");
        return;
    }
    t->name = read_string(r, root, "name");
    t->arch = read_string(r, root, "arch");
    const char *kind = json_get_string(root, "kind", "");
    bool cuda = strcmp(kind, "cuda") == 0;
    if (!cuda && strcmp(kind, "cpu") != 0) {
        complain(r, "\"kind\" must be \"cuda\" or \"cpu\"");
        return;
    }
    t->kind = cuda ? TARGET_CUDA : TARGET_CPU;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (fields[i].kinds & (cuda ? G : C)) read_number(r, root, &fields[i], t);
    reject_unknown(r, root, "machine", cuda ? G : C);
    reject_unknown(r, root, "tuning", cuda ? G : C);
    read_features(r, root, t);
}

const Target *target_parse(Arena *arena, DiagList *diags, const char *path, const char *text, size_t size) {
    Reader r = {arena, diags, path, true};
    Target *t = ARENA_NEW(arena, Target);
    char error[128];
    Json *root = json_read(text, size, NULL, error);
    if (!root)
        complain(&r, error);
    else if (json_kind(root) != JSON_OBJECT)
        complain(&r, "it is not a JSON object");
    else
        read_root(&r, root, t);
    json_release(root);
    return r.ok ? t : NULL;
}

size_t target_count(void) {
    return COUNT_OF(target_documents);
}

const char *target_name(size_t index) {
    return target_documents[index].name;
}

const Target *target_find(Arena *arena, DiagList *diags, const char *name) {
    const char *names[COUNT_OF(target_documents)];
    for (size_t i = 0; i < COUNT_OF(target_documents); i++) {
        names[i] = target_documents[i].name;
        if (strcmp(names[i], name) == 0) return target_parse(arena, diags, names[i], target_documents[i].text, target_documents[i].size);
    }
    Diag *d = diag_report(diags, DIAG_unknown_target, SPAN_NONE, name);
    const char *close = closest_name(name, names, COUNT_OF(names));
    if (close) diag_note(diags, d, SPAN_NONE, "did you mean \"%s\"?", close);
    return NULL;
}

static bool names_feature(const char *name, const char *feature) {
    for (; *name && (*name == *feature || (*name == '_' && *feature == '.')); name++) feature++;
    return !*name && !*feature;
}

unsigned target_feature_named(const char *name) {
    for (size_t i = 0; i < COUNT_OF(features); i++)
        if (names_feature(name, features[i].name)) return features[i].bit;
    return 0;
}

bool target_has(const Target *t, unsigned wanted) {
    return (t->features & wanted) == wanted;
}
