/* support: arenas, strings, vectors, maps, source spans, diagnostics, affine expressions,
 * subprocesses and JSON. Includes libc only; every other folder may include this header. */
#ifndef SUPPORT_SUPPORT_H
#define SUPPORT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PRINTF_LIKE(fmt, args)
#endif
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Arena: memory with one lifetime. Named by lifetime: unit, func, scratch. ---- */

typedef struct Arena Arena;

/* Creates an empty arena; the caller owns it and ends it with arena_destroy. Never null: when memory or a size limit runs
 * out, here and below, the innermost memory_try ends (memory.h). */
Arena *arena_create(void);
void arena_destroy(Arena *arena); /* null is allowed */

/* Zeroed memory of `size` bytes, aligned to 16; never null. Lives as long as the arena. */
void *arena_alloc(Arena *arena, size_t size);
/* As arena_alloc(count * size), with the product checked for overflow. */
void *arena_alloc_array(Arena *arena, size_t count, size_t size);
char *arena_strdup(Arena *arena, const char *text);
char *arena_strndup(Arena *arena, const char *text, size_t length); /* all `length` bytes, also NUL */
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

#define ARENA_NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define ARENA_ARRAY(arena, T, count) ((T *)arena_alloc_array((arena), (count), sizeof(T)))

/* ---- Vec: a growing array in an arena. `VEC(T) v = {0};` or a field. ---- */

#define VEC(T)                                                                                                                             \
    struct {                                                                                                                               \
        T *data;                                                                                                                           \
        size_t len, cap;                                                                                                                   \
    }
#define VEC_PUSH(arena, v, ...)                                                                                                            \
    do {                                                                                                                                   \
        if ((v)->len == (v)->cap) (v)->data = vec_grow((arena), (v)->data, (v)->len, &(v)->cap, sizeof *(v)->data);                        \
        (v)->data[(v)->len++] = (__VA_ARGS__);                                                                                             \
    } while (0)
void *vec_grow(Arena *arena, void *data, size_t len, size_t *cap, size_t element_size);

/* ---- Str: a growing byte string on the heap; str_init / str_release. Always NUL-terminated. ---- */

typedef struct {
    char *data; /* "" when empty */
    size_t len, cap;
} Str;
void str_init(Str *s);
void str_release(Str *s);
void str_append(Str *s, const char *text);
void str_append_n(Str *s, const char *bytes, size_t count);
void str_append_char(Str *s, char c);
void str_printf(Str *s, const char *format, ...) PRINTF_LIKE(2, 3);
void str_vprintf(Str *s, const char *format, va_list args);
/* Appends `text` as a JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void str_append_json(Str *s, const char *text);
void str_append_json_n(Str *s, const char *bytes, size_t count);
/* A further member of a JSON object, `,"key":...`; a null text is left out. */
void str_append_member(Str *s, const char *key, const char *text);
void str_append_member_number(Str *s, const char *key, double value);
/* Bytes as base64 with padding, and back: false, with `s` as far as it was read, for what is none. */
void str_append_base64(Str *s, const void *data, size_t size);
bool str_read_base64(Str *s, const char *text);
/* The `%g` text with the fewest digits that reads back as the same double ("inf", "-inf", "nan",
 * "1e+20", "-0"); independent of the locale. An integral value has no ".0". */
void str_append_double(Str *s, double value);
/* Reads a double from the whole of `text`, independent of the locale: decimal digits with optional
 * sign, point and exponent, or inf, nan. False when it is not one or is too large for a double. */
bool parse_double(const char *text, double *value);
/* Decimal digits with an optional sign; false when it is not one or does not fit. */
bool parse_int64(const char *text, int64_t *value);

/* ---- Map: interned string -> pointer, in an arena. ---- */

typedef struct Map Map;
Map *map_create(Arena *arena);
void *map_get(const Map *map, const char *key);                     /* null when absent */
void map_set(Map *map, Arena *arena, const char *key, void *value); /* copies the key */
size_t map_count(const Map *map);

/* ---- Files ---- */

/* Reads the whole file ("-" is standard input) into the initialised `out`, replacing its content.
 * False with errno set; EFBIG above `limit` bytes. */
bool file_read(const char *path, size_t limit, Str *out);
/* The same of what nobody named: pipes and devices, which could hold the program up, are refused (EINVAL). */
bool file_read_regular(const char *path, size_t limit, Str *out);
/* Replaces `path` atomically (temporary file in the same folder, fsync, rename); an existing file
 * stays whole on failure, a symbolic link at `path` is replaced and not followed. A device or pipe is
 * written in place; a link to one is refused (ELOOP). `mode` is subject to the umask. False with
 * errno set. */
bool file_write_atomic(const char *path, const void *data, size_t size, int mode);

/* ---- Environment ---- */

/* The variables that are read, one row each in environment.def. */
typedef enum {
#define ENVIRONMENT(id, name, secret, use) ENV_##id,
#include "environment.def"
#undef ENVIRONMENT
    ENV_COUNT
} EnvId;
const char *env_get(EnvId id); /* null: not set */
const char *env_name(EnvId id);
const char *env_use(EnvId id); /* one line for people */
bool env_is_secret(EnvId id);  /* not to be shown, recorded or passed to a child */
/* For a process that runs foreign code: leaves what such code, compilers and drivers read, and wipes the rest out of memory. */
void environment_clean(void);

/* ---- Time ---- */

double seconds_now(void); /* of a clock that only goes forward */

/* ---- Subprocess ---- */

typedef struct {
    const char *const *argv; /* NULL-terminated; argv[0] looked up in PATH */
    const char *input;       /* bytes for standard input, may be NULL */
    size_t input_size;
    double timeout_s;            /* <= 0: none. On expiry the process group is killed */
    size_t output_limit;         /* bytes kept of each stream; 0: 1 MiB */
    const char *const *env_keep; /* NULL: inherit; else a NULL-terminated list of the only names
                                    passed on. Secret variables (env_is_secret) never are */
    const atomic_int *cancel;    /* may be NULL; once non-zero the group is killed. Lock-free: a signal
                                handler or another thread may set it */
} SubprocessSpec;
typedef struct {
    int exit_status; /* valid when exited */
    int signal;      /* valid when signaled */
    bool exited, signaled, timed_out, cancelled;
    Str out, err;
} SubprocessResult;
/* Runs in a process group of its own to the end of argv[0]; what it leaves behind in that group is
 * killed. Without input, standard input is /dev/null. False when it could not be started (errno).
 * The caller releases with subprocess_release, also after false. */
bool subprocess_run(const SubprocessSpec *spec, SubprocessResult *result);
void subprocess_release(SubprocessResult *result);
/* Starts argv[0] and goes on. `streams` become its standard input, output and error (-1: /dev/null); `more`
 * (NULL-terminated "NAME=VALUE", or null) replaces variables of the environment, of which it gets no secret ones.
 * In a process group of its own; the caller waits for it. False with errno when it could not be started. */
bool subprocess_start(const char *const *argv, const int streams[3], const char *const *more, pid_t *pid);

/* ---- Hash ---- */

/* 128-bit content hash (not for secrets), stable over platforms and releases. */
typedef struct {
    uint64_t lo, hi;
} Hash128;
Hash128 hash128(const void *data, size_t size, Hash128 seed);
void hash128_hex(Hash128 hash, char out[33]);

#endif
