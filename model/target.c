/* Reads target documents (JSON) into Target. */
#include "target.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "target_data.h"

enum { G = 1, C = 2 }; /* kinds in target_fields.def */

typedef struct {
    const char *name, *group;
    unsigned kinds;
    int64_t minimum, maximum;
    size_t offset;
} Field;

static const Field fields[] = {
#define TARGET_FIELD(id, group, kinds, minimum, maximum, summary)                                  \
    {#id, group, kinds, minimum, maximum, offsetof(Target, id)},
#include "target_fields.def"
#undef TARGET_FIELD
};

static const struct {
    const char *name;
    unsigned bit;
} features[] = {
    {"mma", TARGET_MMA}, {"cp.async", TARGET_CP_ASYNC}, {"wgmma", TARGET_WGMMA}, {"tma", TARGET_TMA}, {"fma", TARGET_FMA},
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

static const char *read_string(Reader *r, const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(item) || !item->valuestring[0]) {
        complain(r, arena_printf(r->arena, "\"%s\" must be a text that is not empty", key));
        return "";
    }
    /* Names reach command lines of nvcc and gcc. */
    for (const char *p = item->valuestring; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *p) || item->valuestring[0] == '-') {
            complain(r, arena_printf(r->arena, "\"%s\" may hold letters, digits, '_', '.' and '-' only", key));
            return "";
        }
    return arena_strdup(r->arena, item->valuestring);
}

static void read_number(Reader *r, const cJSON *root, const Field *f, Target *t) {
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(root, f->group);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(group, f->name);
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!(v >= (double)f->minimum && v <= (double)f->maximum) || v != floor(v)) {
        complain(r, arena_printf(r->arena, "\"%s\" in \"%s\" must be a whole number from %lld to %lld", f->name, f->group,
                                 (long long)f->minimum, (long long)f->maximum));
        return;
    }
    int64_t value = (int64_t)v;
    memcpy((char *)t + f->offset, &value, sizeof value);
}

static void reject_unknown(Reader *r, const cJSON *root, const char *group, unsigned kind) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, group)) {
        bool known = false;
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            known |= (fields[i].kinds & kind) && strcmp(fields[i].group, group) == 0 && strcmp(fields[i].name, item->string) == 0;
        if (!known)
            complain(r, arena_printf(r->arena, "\"%s\" has no member \"%s\" for this kind of target", group, item->string));
    }
}

static void read_features(Reader *r, const cJSON *root, Target *t) {
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(root, "features");
    if (!cJSON_IsArray(list))
        complain(r, "\"features\" must be a list");
    cJSON_ArrayForEach(item, list) {
        bool known = false;
        for (size_t i = 0; i < COUNT_OF(features) && cJSON_IsString(item); i++)
            if (strcmp(features[i].name, item->valuestring) == 0) {
                t->features |= features[i].bit;
                known = true;
            }
        if (!known)
            complain(r, arena_printf(r->arena, "unknown feature %s", cJSON_IsString(item) ? item->valuestring : "(no text)"));
    }
}

static void read_root(Reader *r, const cJSON *root, Target *t) {
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    if (!cJSON_IsString(format) || strcmp(format->valuestring, "sketchc.target 1") != 0) {
        complain(r, "\"format\" must be \"sketchc.target 1\"");
        return;
    }
    t->name = read_string(r, root, "name");
    t->arch = read_string(r, root, "arch");
    const char *kind = read_string(r, root, "kind");
    bool cuda = strcmp(kind, "cuda") == 0;
    if (!cuda && strcmp(kind, "cpu") != 0) {
        complain(r, "\"kind\" must be \"cuda\" or \"cpu\"");
        return;
    }
    t->kind = cuda ? TARGET_CUDA : TARGET_CPU;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (fields[i].kinds & (cuda ? G : C))
            read_number(r, root, &fields[i], t);
    reject_unknown(r, root, "machine", cuda ? G : C);
    reject_unknown(r, root, "tuning", cuda ? G : C);
    read_features(r, root, t);
}

const Target *target_parse(Arena *arena, DiagList *diags, const char *path, const char *text, size_t size) {
    Reader r = {arena, diags, path, true};
    Target *t = ARENA_NEW(arena, Target);
    cJSON *root = cJSON_ParseWithLength(text, size);
    if (cJSON_IsObject(root))
        read_root(&r, root, t);
    else
        complain(&r, "it is not a JSON object");
    cJSON_Delete(root);
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
        if (strcmp(names[i], name) == 0)
            return target_parse(arena, diags, names[i], target_documents[i].text, target_documents[i].size);
    }
    Diag *d = diag_report(diags, DIAG_unknown_target, SPAN_NONE, name);
    const char *close = closest_name(name, names, COUNT_OF(names));
    if (close)
        diag_note(diags, d, SPAN_NONE, "did you mean \"%s\"?", close);
    return NULL;
}

bool target_has(const Target *t, unsigned wanted) {
    return (t->features & wanted) == wanted;
}
