/* sketchc docspec: documents and target tables are checked, formatted, added to the user's own. */
#include "ask.h"

#include "docspec.h"
#include "llm.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { DOCUMENT_LIMIT = 256 << 10 };

static int complain(const char *path, const char *text) {
    fprintf(stderr, "sketchc: %s: %s\n", path, text);
    return SKETCHC_SOURCE_ERROR;
}

static bool is_table(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

/* A table is read by the compiler itself, for the target of its kind. */
static int check_table(const char *path, const Str *text) {
    static const char sketch[] = "sketch s {\n    symbols: N;\n    tensors: X[N]: f32; Y[N]: f32;\n    for i in range(N):\n"
                                 "        x = alloc([1])\n        load(X[i:i+1] -> x)\n        store(x -> Y[i:i+1])\n}\n";
    bool cpu = strstr(text->data, "\"cpu\"") != NULL;
    sketchc_options options = {.size = sizeof options, .target = cpu ? "openmp" : "cuda", .target_file = text->data};
    sketchc_unit *unit = sketchc_unit_create(path, sketch, sizeof sketch - 1);
    char *code = NULL, *diagnostics = NULL;
    size_t size;
    int status = unit ? (int)sketchc_emit(unit, &options, NULL, &code, &size) : SKETCHC_BUG;
    if (status && unit) diagnostics = sketchc_diagnostics(unit, "text");
    if (diagnostics) fprintf(stderr, "%s: %s", path, diagnostics);
    sketchc_free(diagnostics);
    sketchc_free(code);
    sketchc_unit_destroy(unit);
    return status ? SKETCHC_SOURCE_ERROR : 0;
}

static int lint(Arena *arena, const char *path, const Str *text) {
    if (is_table(path)) return check_table(path, text);
    Document doc;
    Str problems;
    str_init(&problems);
    int status = document_parse(arena, path, text->data, text->len, &doc, &problems) ? 0 : SKETCHC_SOURCE_ERROR;
    fputs(problems.data, stderr);
    str_release(&problems);
    return status;
}

/* Where a model or program is set, its shorter text in place of the document's, if that is fit. */
static int shorten(const CommandLine *line, const char *path, Str *formed) {
    LlmConfig *config = read_settings(line);
    if (!config) return SKETCHC_USAGE_ERROR;
    Str error, shorter;
    str_init(&error);
    str_init(&shorter);
    Proposer *proposer = llm_wanted(config) ? llm_proposer_create(config, &error) : NULL;
    int status = error.len ? complain(path, error.data) : 0;
    if (proposer) {
        ProposerRequest request = {.task = PROPOSE_SHORTEN, .operator_name = "", .operator_text = formed->data, .target = "", .arch = ""};
        ProposerReply reply;
        proposer_reply_init(&reply);
        proposer->propose(proposer, &request, 1, &reply);
        if (reply.status == PROPOSED && document_shortened(path, formed->data, reply.raw.data, &shorter)) {
            str_release(formed);
            *formed = shorter;
            str_init(&shorter);
        } else {
            fprintf(stderr, "sketchc: %s: kept as it is: %s\n", path,
                    reply.status == PROPOSED ? "the answer is not shorter, or changes code" : reply.error.data);
        }
        proposer_reply_release(&reply);
    }
    proposer_destroy(proposer);
    llm_config_destroy(config);
    str_release(&shorter);
    str_release(&error);
    return status;
}

static int format(const CommandLine *line, const char *path, const Str *text) {
    if (is_table(path)) return complain(path, "a target table is data; fmt is for documents");
    Str out;
    str_init(&out);
    document_format(path, text->data, text->len, &out);
    int status = shorten(line, path, &out);
    if (status) {
        str_release(&out);
        return status;
    }
    status = ask_write_text(line, &out);
    str_release(&out);
    return status;
}

/* The folders on the way to `path`, which is absolute. */
static void make_folders(Arena *arena, const char *path) {
    char *copy = arena_strdup(arena, path);
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(copy, 0755);
        *p = '/';
    }
}

/* A file's own name, of letters, digits and _ . - only, not beginning with a point. */
static bool is_plain_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    return name[0] && name[0] != '.' && strspn(name, allowed) == strlen(name) && strlen(name) < 100;
}

static int add(Arena *arena, const char *path, const Str *text) {
    int status = lint(arena, path, text);
    if (status) return status;
    const char *folder = docspec_folder(arena), *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!folder) return complain(path, "neither XDG_DATA_HOME nor HOME says where own documents go");
    if (!is_plain_name(name)) return complain(path, "a document's name has letters, digits, '_', '.' and '-' only");
    const char *to = arena_printf(arena, "%s/%s%s", folder, is_table(path) ? "targets/" : "", name);
    make_folders(arena, to);
    if (!file_write_atomic(to, text->data, text->len, 0644)) return complain(to, strerror(errno));
    printf("%s\n", to);
    return 0;
}

int command_docspec(Arena *arena, const CommandLine *line) {
    static const char *const verbs[] = {"lint", "fmt", "add"};
    const char *verb = line->operands.len ? line->operands.data[0] : "";
    size_t which = 0;
    while (which < COUNT_OF(verbs) && strcmp(verbs[which], verb) != 0) which++;
    if (which == COUNT_OF(verbs) || line->operands.len < 2) {
        fputs("sketchc: docspec wants lint, fmt or add, and files\n", stderr);
        return SKETCHC_USAGE_ERROR;
    }
    int status = 0;
    for (size_t i = 1; i < line->operands.len; i++) {
        const char *path = line->operands.data[i];
        Str text;
        str_init(&text);
        int one = SKETCHC_USAGE_ERROR;
        if (!file_read(path, DOCUMENT_LIMIT, &text))
            complain(path, strerror(errno));
        else
            one = which == 0 ? lint(arena, path, &text) : which == 1 ? format(line, path, &text) : add(arena, path, &text);
        if (one > status) status = one;
        str_release(&text);
    }
    return status;
}

const char *own_target(Arena *arena, const char *arch) {
    const char *folder = docspec_folder(arena);
    if (!folder || !is_plain_name(arch)) return NULL;
    Str text;
    str_init(&text);
    bool ok = file_read_regular(arena_printf(arena, "%s/targets/%s.json", folder, arch), DOCUMENT_LIMIT, &text);
    const char *copy = ok ? arena_strdup(arena, text.data) : NULL;
    str_release(&text);
    return copy;
}
