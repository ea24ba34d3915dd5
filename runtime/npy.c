/* .npy, versions 1 and 2, C order. The header is a Python dictionary; of it only the form that
 * NumPy writes is taken. bf16 and f8 travel as raw u2 / u1 (V2 / V1 from ml_dtypes are taken too).
 */
#include "runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_SIZE = 6, MAX_HEADER = 65536 };
static const unsigned char magic[MAGIC_SIZE] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct {
    const char *at, *end;
} Cursor;

static void skip_space(Cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}

static bool take(Cursor *c, char wanted) {
    skip_space(c);
    if (c->at >= c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_string(Cursor *c, char *out, size_t size) {
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 >= size) return false;
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    return take(c, quote);
}

static bool take_word(Cursor *c, const char *word) {
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_int(Cursor *c, int64_t *value) {
    skip_space(c);
    const char *start = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *c->at - '0', value)) return false;
    if (c->at > start && c->at < c->end && *c->at == 'L') c->at++; /* Python 2 */
    return c->at > start;
}

static const char *take_shape(Cursor *c, NpyHeader *h) {
    if (!take(c, '(')) return "its shape is no tuple";
    h->elements = 1;
    while (!take(c, ')')) {
        if (h->rank == ARTIFACT_MAX_RANK) return "it has more than 8 axes";
        int64_t extent;
        if (!take_int(c, &extent)) return "its shape holds what is no extent";
        if (__builtin_mul_overflow(h->elements, (uint64_t)extent, &h->elements)) return "it has too many elements";
        h->extents[h->rank++] = extent;
        if (!take(c, ',')) {
            if (!take(c, ')')) return "its shape is no tuple";
            break;
        }
    }
    return NULL;
}

static const char *take_dict(Cursor *c, NpyHeader *h) {
    unsigned seen = 0;
    char key[32];
    if (!take(c, '{')) return "its header is no dictionary";
    while (!take(c, '}')) {
        if (!take_string(c, key, sizeof key) || !take(c, ':')) return "its header is no dictionary";
        if (strcmp(key, "descr") == 0) {
            if (!take_string(c, h->descr, sizeof h->descr)) return "its dtype is no plain one";
            seen |= 1;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = take_word(c, "True");
            if (!h->fortran && !take_word(c, "False")) return "its fortran_order is no truth value";
            seen |= 2;
        } else if (strcmp(key, "shape") == 0) {
            if (seen & 4) return "its shape stands there twice";
            const char *error = take_shape(c, h);
            if (error) return error;
            seen |= 4;
        } else {
            return "its header has an unknown key";
        }
        if (take(c, ',')) continue;
        if (!take(c, '}')) return "its header is no dictionary";
        break;
    }
    return seen == 7 ? NULL : "its header lacks descr, fortran_order or shape";
}

static bool refuse(char error[RT_TEXT], const char *why) {
    snprintf(error, RT_TEXT, "this is no valid .npy file: %s", why);
    return false;
}

bool npy_parse(const unsigned char *data, size_t size, NpyHeader *h, char error[RT_TEXT]) {
    memset(h, 0, sizeof *h);
    if (size < 10 || memcmp(data, magic, MAGIC_SIZE) != 0) return refuse(error, "its first bytes are others");
    unsigned version = data[6], fixed = version == 1 ? 10 : 12;
    if (version < 1 || version > 3) return refuse(error, "its version is unknown");
    if (size < fixed) return refuse(error, "it is cut short");
    size_t length = (size_t)data[8] | (size_t)data[9] << 8;
    if (version > 1) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (length > MAX_HEADER) return refuse(error, "its header is too long");
    if (length > size - fixed) return refuse(error, "it is cut short");
    Cursor c = {(const char *)data + fixed, (const char *)data + fixed + length};
    const char *why = take_dict(&c, h);
    if (why) return refuse(error, why);
    h->data_offset = fixed + length;
    return true;
}

static bool dtype_fits(Dtype dtype, const char *descr) {
    const char *want = dtype_npy(dtype);
    if (strcmp(descr, want) == 0) return true;
    /* One-byte types are written with any byte order mark; '=' is this machine's, little-endian. */
    if (descr[0] && strcmp(descr + 1, want + 1) == 0 && (descr[0] == '=' || dtype_size(dtype) == 1)) return true;
    bool raw = dtype == DTYPE_BF16 || dtype == DTYPE_F8E4M3 || dtype == DTYPE_F8E5M2;
    return raw && strlen(descr) == 3 && descr[1] == 'V' && descr[2] == (char)('0' + dtype_size(dtype));
}

static RtError check_file(NpyFile *f, const char *name, const char *path, Dtype dtype) {
    const NpyHeader *h = &f->header;
    if (!dtype_fits(dtype, h->descr))
        return rt_error(RT_BAD_INPUT, "'%s' is %s (npy %s), %s holds %s", name, dtype_name(dtype), dtype_npy(dtype), path, h->descr);
    if (h->fortran && h->rank > 1) return rt_error(RT_BAD_INPUT, "%s is in Fortran order; save it with numpy.ascontiguousarray", path);
    uint64_t bytes;
    if (__builtin_mul_overflow(h->elements, (uint64_t)dtype_size(dtype), &bytes) || bytes != f->size - h->data_offset)
        return rt_error(RT_BAD_INPUT, "%s: the shape needs other than the %llu bytes of data it holds", path,
                        (unsigned long long)(f->size - h->data_offset));
    return rt_ok();
}

RtError npy_open(NpyFile *f, const char *name, const char *path, Dtype dtype) {
    unsigned char head[MAX_HEADER + 12];
    char error[RT_TEXT];
    struct stat st = {0};
    /* Opening a pipe would wait for its writer. */
    *f = (NpyFile){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (f->fd < 0) return rt_error(RT_BAD_OPTION, "cannot open %s: %s", path, strerror(errno));
    RtError e = rt_ok();
    ssize_t got = pread(f->fd, head, sizeof head, 0);
    if (got < 0 || fstat(f->fd, &st) != 0)
        e = rt_error(RT_BAD_INPUT, "cannot read %s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        e = rt_error(RT_BAD_INPUT, "%s is no regular file", path);
    else if (!npy_parse(head, (size_t)got, &f->header, error))
        e = rt_error(RT_BAD_INPUT, "%s: %.300s", path, error);
    if (!rt_failed(&e)) {
        f->size = (uint64_t)st.st_size;
        e = f->size < f->header.data_offset ? rt_error(RT_BAD_INPUT, "%s is cut short", path) : check_file(f, name, path, dtype);
    }
    if (rt_failed(&e)) npy_close(f);
    return e;
}

RtError npy_read_data(NpyFile *f, const char *path, void *data, uint64_t bytes) {
    uint64_t done = 0;
    while (done < bytes) {
        size_t chunk = bytes - done > (1u << 30) ? (1u << 30) : (size_t)(bytes - done);
        ssize_t got = pread(f->fd, (char *)data + done, chunk, (off_t)(f->header.data_offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return rt_error(RT_BAD_INPUT, "cannot read %s: %s", path, got ? strerror(errno) : "it became shorter");
        done += (uint64_t)got;
    }
    return rt_ok();
}

void npy_close(NpyFile *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

void npy_print_header(char out[NPY_HEADER], Dtype dtype, unsigned rank, const int64_t *extents) {
    static const unsigned char version[4] = {1, 0, (NPY_HEADER - 10) & 255, (NPY_HEADER - 10) >> 8};
    memset(out, ' ', NPY_HEADER);
    memcpy(out, magic, MAGIC_SIZE);
    memcpy(out + MAGIC_SIZE, version, sizeof version);
    char text[NPY_HEADER];
    size_t n = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype_npy(dtype));
    for (unsigned i = 0; i < rank; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%lld,%s", (long long)extents[i], i + 1 < rank ? " " : "");
    n += (size_t)snprintf(text + n, sizeof text - n, "), }");
    memcpy(out + 10, text, n);
    out[NPY_HEADER - 1] = '\n';
}
