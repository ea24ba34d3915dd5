#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool read_all(int fd, size_t limit, Str *out) {
    char block[16384];
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got == 0) return true;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if ((size_t)got > limit - out->len) {
            errno = EFBIG;
            return false;
        }
        str_append_n(out, block, (size_t)got);
    }
}

static void close_keeping_errno(int fd) {
    int saved = errno;
    close(fd);
    errno = saved;
}

bool file_read(const char *path, size_t limit, Str *out) {
    out->len = 0;
    if (out->cap) out->data[0] = 0;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = read_all(fd, limit, out);
    if (!is_stdin) close_keeping_errno(fd);
    return ok;
}

static bool write_all(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        data += put;
        size -= (size_t)put;
    }
    return true;
}

/* Creates a new file in `folder` (ends in '/' or is empty), never through a link: O_EXCL refuses
 * whatever stands there. Only uniqueness is asked of the name, not secrecy. */
static int create_temporary(const char *folder, int mode, Str *name) {
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        uint64_t key[4] = {(uint64_t)getpid(), (uint64_t)now.tv_nsec, (uintptr_t)&now, attempt};
        char hex[33];
        hash128_hex(hash128(key, sizeof key, (Hash128){0, 0}), hex);
        name->len = 0;
        str_printf(name, "%s.sketchc-%.16s.tmp", folder, hex);
        int fd = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* The rename is durable only once the folder is synced; a file system that cannot do that has
 * still replaced the file. */
static void sync_folder(const char *folder) {
    int fd = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static bool replace_file(const char *path, const void *data, size_t size, int mode) {
    const char *slash = strrchr(path, '/');
    Str folder, name;
    str_init(&folder);
    str_init(&name);
    if (slash) str_append_n(&folder, path, (size_t)(slash + 1 - path));
    int fd = create_temporary(folder.data, mode, &name);
    bool ok = fd >= 0 && write_all(fd, data, size) && fsync(fd) == 0;
    if (fd >= 0) {
        close_keeping_errno(fd);
        ok = ok && rename(name.data, path) == 0;
        int saved = errno;
        if (!ok) unlink(name.data);
        errno = saved;
    }
    if (ok) sync_folder(folder.data);
    str_release(&folder);
    str_release(&name);
    return ok;
}

static bool write_in_place(const char *path, const void *data, size_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0) return false;
    bool ok = write_all(fd, data, size);
    close_keeping_errno(fd);
    return ok;
}

static bool is_special(const struct stat *info) {
    return S_ISCHR(info->st_mode) || S_ISBLK(info->st_mode) || S_ISFIFO(info->st_mode);
}

/* Replacing /dev/null, or /dev/stdout (a link), would damage the machine. */
bool file_write_atomic(const char *path, const void *data, size_t size, int mode) {
    struct stat info, target;
    if (lstat(path, &info) == 0) {
        if (is_special(&info)) return write_in_place(path, data, size);
        if (S_ISLNK(info.st_mode) && stat(path, &target) == 0 && is_special(&target)) {
            errno = ELOOP;
            return false;
        }
    }
    return replace_file(path, data, size, mode);
}
