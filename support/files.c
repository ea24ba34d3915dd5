#define _GNU_SOURCE /* O_TMPFILE */
#include "memory.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void close_undone(void *fd) {
    if (*(int *)fd != STDIN_FILENO) close(*(int *)fd);
}

static bool read_whole(int fd, size_t limit, Str *out) {
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

/* Where memory runs out the file is closed. */
static bool read_all(int fd, size_t limit, Str *out) {
    MemoryUndo undo;
    memory_push(&undo, close_undone, &fd);
    bool ok = read_whole(fd, limit, out);
    memory_pop(&undo);
    return ok;
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

bool file_read_regular(const char *path, size_t limit, Str *out) {
    struct stat info;
    out->len = 0;
    if (out->cap) out->data[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (!regular) errno = EINVAL;
    bool ok = regular && read_all(fd, limit, out);
    close_keeping_errno(fd);
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

/* A name for a new file in `folder` (ends in '/' or is empty). Only uniqueness is asked of it, not secrecy. */
static void choose_name(const char *folder, unsigned attempt, Str *name) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t key[4] = {(uint64_t)getpid(), (uint64_t)now.tv_nsec, (uintptr_t)&now, attempt};
    char hex[33];
    hash128_hex(hash128(key, sizeof key, (Hash128){0, 0}), hex);
    name->len = 0;
    str_printf(name, "%s.sketchc-%.16s.tmp", folder, hex);
}

/* Gives the file a name, or with -1 makes one with a name, never through a link: linkat and O_EXCL refuse whatever stands there. The
 * file, or -1. */
static int create_temporary(const char *folder, int mode, int nameless, Str *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", nameless);
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        choose_name(folder, attempt, name);
        int fd = nameless;
        if (nameless < 0)
            fd = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        else if (linkat(AT_FDCWD, path, AT_FDCWD, name->data, AT_SYMLINK_FOLLOW) != 0)
            fd = -1;
        if (fd >= 0) return fd;
        if (errno != EEXIST) break;
    }
    name->len = 0;
    return -1;
}

/* The calling thread takes no signal that would end the process between the two names of a file. */
static void hold_signals(sigset_t *before) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, before);
}

static void release_signals(void *before) {
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* The rename is durable only once the folder is synced; a file system that cannot do that has
 * still replaced the file. */
static void sync_folder(const char *folder) {
    int fd = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* Without a name while it is written nothing is left of it should the process be killed; not every file system knows that. */
static bool write_new(const char *folder, const void *data, size_t size, int mode, bool nameless, Str *name) {
    int fd = nameless ? open(*folder ? folder : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : create_temporary(folder, mode, -1, name);
    if (fd < 0) return false;
    bool ok = write_all(fd, data, size) && fsync(fd) == 0;
    if (ok && nameless) ok = create_temporary(folder, mode, fd, name) >= 0;
    close_keeping_errno(fd);
    int saved = errno;
    if (!ok && name->len) unlink(name->data);
    errno = saved;
    return ok;
}

static bool replace_file(const char *path, const void *data, size_t size, int mode) {
    const char *slash = strrchr(path, '/');
    Str folder, name;
    str_init(&folder);
    str_init(&name);
    /* All that the names take, before there is a file that would be left open. */
    str_printf(&name, "%s%64s", path, "");
    name.len = 0;
    if (slash) str_append_n(&folder, path, (size_t)(slash + 1 - path));
    bool ok = write_new(folder.data, data, size, mode, true, &name) || write_new(folder.data, data, size, mode, false, &name);
    if (ok && rename(name.data, path) != 0) {
        int saved = errno;
        unlink(name.data);
        errno = saved;
        ok = false;
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
    sigset_t before;
    hold_signals(&before);
    MemoryUndo undo;
    memory_push(&undo, release_signals, &before);
    bool ok = replace_file(path, data, size, mode);
    memory_pop(&undo);
    int saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return ok;
}
