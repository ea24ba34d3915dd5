/* sketchc library list, show, add. */
#include "library.h"

#include "fail.h"
#include "sketchc.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_LIMIT = 1 << 20 };

/* ---- The folder ---- */

static const char *folder_of(Arena *arena, const char *given) {
    const char *own = env_get(ENV_LIBRARY), *data = env_get(ENV_XDG_DATA_HOME), *home = env_get(ENV_HOME);
    if (given) return given;
    if (own && *own) return own;
    if (data && data[0] == '/') return arena_printf(arena, "%s/sketchc/library", data);
    return home && home[0] == '/' ? arena_printf(arena, "%s/.local/share/sketchc/library", home) : NULL;
}

static int is_sketch(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && n > 7 && strcmp(entry->d_name + n - 7, ".sketch") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

typedef void Visit(void *context, const char *path, const char *text);

static void visit_files(Arena *arena, const char *folder, Visit *visit, void *context) {
    struct dirent **entries = NULL;
    int n = folder ? scandir(folder, &entries, is_sketch, by_name) : 0;
    for (int i = 0; i < n; i++) {
        const char *path = arena_printf(arena, "%s/%s", folder, entries[i]->d_name);
        Str text;
        str_init(&text);
        if (file_read_regular(path, FILE_LIMIT, &text)) visit(context, path, arena_strdup(arena, text.data));
        str_release(&text);
        free(entries[i]);
    }
    free(entries);
}

typedef struct {
    Arena *arena;
    VEC(const char *) texts;
} Texts;

static void add_text(void *context, const char *path, const char *text) {
    Texts *t = context;
    (void)path;
    VEC_PUSH(t->arena, &t->texts, text);
}

const char *const *library_texts(Arena *arena, const char *given, size_t *count) {
    Texts t = {.arena = arena};
    visit_files(arena, folder_of(arena, given), add_text, &t);
    *count = t.texts.len;
    return t.texts.data;
}

/* ---- list, show ---- */

/* The name behind the line that begins with `sketch `; "": there is none. */
static const char *sketch_name(Arena *arena, const char *text) {
    const char *at = strncmp(text, "sketch ", 7) == 0 ? text : strstr(text, "\nsketch ");
    if (!at) return "";
    at = strchr(at, ' ') + 1;
    return arena_strndup(arena, at, strcspn(at, " {\n"));
}

/* The first sentence of the comment at the head. */
static const char *sentence(Arena *arena, const char *text) {
    if (strncmp(text, "# ", 2) != 0) return "";
    return arena_strndup(arena, text + 2, strcspn(text + 2, "\n"));
}

static void list_own(void *arena, const char *path, const char *text) {
    char *why = sketchc_library_refuses(text);
    printf("%-24s %s%s%s\n", sketch_name(arena, text), path, why ? ": left out, " : "", why ? why : "");
    sketchc_free(why);
}

static int list(Arena *arena, const char *folder) {
    for (size_t i = 0; sketchc_library_name(i); i++)
        printf("%-24s %s\n", sketchc_library_name(i), sentence(arena, sketchc_library_text(i)));
    visit_files(arena, folder, list_own, arena);
    return 0;
}

typedef struct {
    Arena *arena;
    const char *name, *text;
} Wanted;

static void find_own(void *context, const char *path, const char *text) {
    Wanted *w = context;
    (void)path;
    if (strcmp(sketch_name(w->arena, text), w->name) == 0) w->text = text;
}

static int show(Arena *arena, const char *folder, const char *name) {
    Wanted w = {arena, name, NULL};
    for (size_t i = 0; sketchc_library_name(i); i++)
        if (strcmp(sketchc_library_name(i), name) == 0) w.text = sketchc_library_text(i);
    if (!w.text) visit_files(arena, folder, find_own, &w);
    if (!w.text) return fail(SKETCHC_USAGE_ERROR, "the library has no sketch \"%s\"; `sketchc library list` names them", name);
    fputs(w.text, stdout);
    return 0;
}

/* ---- add ---- */

/* The folder and those on the way to it. */
static void make_folders(Arena *arena, const char *folder) {
    char *copy = arena_strdup(arena, folder);
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(copy, 0755);
        *p = '/';
    }
    mkdir(copy, 0755);
}

static bool is_of_program(const char *name) {
    for (size_t i = 0; sketchc_library_name(i); i++)
        if (strcmp(sketchc_library_name(i), name) == 0) return true;
    return false;
}

static int keep(Arena *arena, const char *folder, const char *name, const char *text) {
    char *formatted = NULL;
    size_t size = 0;
    sketchc_unit *unit = sketchc_unit_create(name, text, strlen(text));
    const char *to = arena_printf(arena, "%s/%s.sketch", folder, name);
    bool formed = unit && sketchc_format(unit, &formatted, &size) == SKETCHC_OK;
    make_folders(arena, folder);
    bool written = formed && file_write_atomic(to, formatted, size, 0644);
    sketchc_free(formatted);
    sketchc_unit_destroy(unit);
    if (!written) return fail(SKETCHC_USAGE_ERROR, "cannot write %s: %s", to, strerror(errno));
    printf("%s\n", to);
    return 0;
}

typedef struct {
    int (*verify)(void *context, const char *path);
    void *context;
} Judge;

static int add_text_of(Arena *arena, const char *folder, const char *path, const char *text, const Judge *judge) {
    char *why = sketchc_library_refuses(text);
    int status = why ? fail(SKETCHC_SOURCE_ERROR, "%s is no file of a library: %s", path, why) : 0;
    sketchc_free(why);
    const char *name = sketch_name(arena, text);
    if (!status && is_of_program(name))
        status = fail(SKETCHC_SOURCE_ERROR, "%s: a sketch of the program is called %s; give yours another name", path, name);
    if (!status) status = judge->verify(judge->context, path);
    return status ? status : keep(arena, folder, name, text);
}

static int add(Arena *arena, const char *folder, const char *path, const Judge *judge) {
    Str text;
    str_init(&text);
    int status = 0;
    if (!folder) status = fail(SKETCHC_USAGE_ERROR, "neither --library, SKETCHC_LIBRARY, XDG_DATA_HOME nor HOME says where the library is");
    if (!status && !file_read(path, FILE_LIMIT, &text)) status = fail(SKETCHC_USAGE_ERROR, "cannot read %s: %s", path, strerror(errno));
    if (!status) status = add_text_of(arena, folder, path, arena_strdup(arena, text.data), judge);
    str_release(&text);
    return status;
}

int command_library(Arena *arena, const CommandLine *line, int (*verify)(void *context, const char *path), void *context) {
    size_t count = line->operands.len;
    const char *const *words = line->operands.data, *verb = count ? words[0] : "list";
    const char *folder = folder_of(arena, option_value(line, OPTION_LIBRARY));
    Judge judge = {verify, context};
    int status = 0;
    if (strcmp(verb, "list") == 0 && count <= 1) return list(arena, folder);
    if (strcmp(verb, "show") == 0 && count == 2) return show(arena, folder, words[1]);
    if (strcmp(verb, "add") != 0 || count < 2) return fail(SKETCHC_USAGE_ERROR, "library wants list, show NAME, or add and files");
    const char **files = ARENA_ARRAY(arena, const char *, count); /* the line holds one at a time while it is verified */
    for (size_t i = 1; i < count; i++) files[i] = words[i];
    for (size_t i = 1; i < count; i++) {
        int one = add(arena, folder, files[i], &judge);
        if (one > status) status = one;
    }
    return status;
}
