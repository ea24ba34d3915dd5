/* The kernel cache: one file an entry, named by the content's key; payload first (so that a shared
 * object can be loaded in place), then a trailer with size and hash. Written atomically. What does
 * not check is a miss. Over the limit the entries unused for longest go. */
#include "runtime_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRAILER = 32, MAX_ENTRIES = 65536, HEX = 32 };
#define DEFAULT_LIMIT ((uint64_t)1 << 30)
static const char trailer_magic[8] = {'s', 'k', 'c', 'a', 'c', 'h', 'e', '1'};

static uint64_t size_limit(void) {
    const char *text = env_get(ENV_CACHE_LIMIT);
    double value;
    if (text && parse_double(text, &value) && value >= 0 && value < 1e18) return (uint64_t)value;
    return DEFAULT_LIMIT;
}

static bool choose_dir(const char *given, char *out, size_t size) {
    int n;
    const char *xdg = env_get(ENV_XDG_CACHE_HOME), *home = env_get(ENV_HOME);
    if (given)
        n = snprintf(out, size, "%s", given);
    else if (xdg && xdg[0] == '/')
        n = snprintf(out, size, "%s/sketchc", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.cache/sketchc", home);
    else
        return false;
    return n > 0 && (size_t)n < size;
}

/* A folder of ours that nobody else may write to. */
static bool is_private(const char *dir) {
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

static bool make_dirs(char *dir) {
    for (char *p = dir + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        bool ok = mkdir(dir, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok) return false;
    }
    return mkdir(dir, 0700) == 0 || errno == EEXIST;
}

void cache_open(Cache *cache, const char *dir) {
    cache->dir[0] = '\0';
    char path[sizeof cache->dir];
    if ((dir && !dir[0]) || !choose_dir(dir, path, sizeof path)) return;
    if (make_dirs(path) && is_private(path)) rt_copy(cache->dir, sizeof cache->dir, path);
}

void cache_path(const Cache *cache, Hash128 key, const char *suffix, char *out, size_t size) {
    char hex[HEX + 1];
    hash128_hex(key, hex);
    snprintf(out, size, "%s/%s.%s", cache->dir, hex, suffix);
}

static void make_trailer(const void *payload, size_t size, unsigned char out[TRAILER]) {
    Hash128 h = hash128(payload, size, (Hash128){1, 0});
    uint64_t n = size;
    memcpy(out, trailer_magic, 8);
    memcpy(out + 8, &n, 8);
    memcpy(out + 16, &h.lo, 8);
    memcpy(out + 24, &h.hi, 8);
}

bool cache_get(const Cache *cache, Hash128 key, const char *suffix, Str *payload) {
    if (!cache->dir[0]) return false;
    char path[1200];
    unsigned char want[TRAILER];
    Str file;
    str_init(&file);
    cache_path(cache, key, suffix, path, sizeof path);
    bool ok = file_read_regular(path, (size_t)1 << 30, &file) && file.len >= TRAILER;
    if (ok) {
        make_trailer(file.data, file.len - TRAILER, want);
        ok = memcmp(want, file.data + file.len - TRAILER, TRAILER) == 0;
    }
    if (ok) {
        str_append_n(payload, file.data, file.len - TRAILER);
        utimensat(AT_FDCWD, path, NULL, 0); /* used now */
    }
    str_release(&file);
    return ok;
}

/* ---- Entries in the folder ---- */

typedef struct {
    char name[HEX + 16];
    uint64_t bytes;
    struct timespec used;
} Entry;
typedef struct {
    Entry *data;
    size_t count;
    uint64_t bytes;
} Entries;

static bool is_entry_name(const char *name) {
    return strspn(name, "0123456789abcdef") == HEX && name[HEX] == '.' && strlen(name) < sizeof((Entry *)0)->name;
}

static Entries list_entries(const char *dir) {
    Entries list = {0};
    size_t cap = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) && list.count < MAX_ENTRIES;) {
        struct stat st;
        /* NOLINTNEXTLINE(*StdCLibraryFunctions): of no descriptor nothing is there */
        if (!is_entry_name(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (list.count == cap) {
            Entry *more = realloc(list.data, (cap = cap ? 2 * cap : 64) * sizeof *more);
            if (!more) break;
            list.data = more;
        }
        Entry *entry = &list.data[list.count++];
        rt_copy(entry->name, sizeof entry->name, e->d_name);
        entry->bytes = (uint64_t)st.st_size;
        entry->used = st.st_mtim;
        list.bytes += entry->bytes;
    }
    if (d) closedir(d);
    return list;
}

static int by_age(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool remove_entry(const char *dir, const char *name) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return unlink(path) == 0;
}

static void evict(const Cache *cache) {
    uint64_t limit = size_limit();
    Entries list = list_entries(cache->dir);
    if (list.bytes > limit) {
        qsort(list.data, list.count, sizeof *list.data, by_age);
        for (size_t i = 0; i < list.count && list.bytes > limit; i++)
            if (remove_entry(cache->dir, list.data[i].name)) list.bytes -= list.data[i].bytes;
    }
    free(list.data);
}

void cache_put(const Cache *cache, Hash128 key, const char *suffix, const void *payload, size_t size) {
    if (!cache->dir[0] || size + TRAILER > size_limit()) return;
    char path[1200];
    unsigned char trailer[TRAILER];
    Str file;
    str_init(&file);
    make_trailer(payload, size, trailer);
    str_append_n(&file, payload, size);
    str_append_n(&file, (const char *)trailer, TRAILER);
    cache_path(cache, key, suffix, path, sizeof path);
    if (file_write_atomic(path, file.data, file.len, 0600)) evict(cache);
    str_release(&file);
}

bool rt_cache_info(const char *cache_dir, RtCacheInfo *info) {
    memset(info, 0, sizeof *info);
    info->limit = size_limit();
    if ((cache_dir && !cache_dir[0]) || !choose_dir(cache_dir, info->dir, sizeof info->dir)) return false;
    if (!is_private(info->dir)) return false;
    Entries list = list_entries(info->dir);
    info->entries = list.count;
    info->bytes = list.bytes;
    free(list.data);
    return true;
}

uint64_t rt_cache_clear(const char *cache_dir) {
    RtCacheInfo info;
    uint64_t removed = 0;
    if (!rt_cache_info(cache_dir, &info)) return 0;
    Entries list = list_entries(info.dir);
    for (size_t i = 0; i < list.count; i++) removed += remove_entry(info.dir, list.data[i].name);
    free(list.data);
    return removed;
}
