#include "runtime_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

RtError temp_dir_create(TempDir *dir) {
    const char *base = env_get(ENV_TMPDIR);
    if (!base || base[0] != '/') base = "/tmp";
    int n = snprintf(dir->path, sizeof dir->path, "%s/sketchc-XXXXXX", base);
    if (n < 0 || (size_t)n >= sizeof dir->path || !mkdtemp(dir->path)) {
        RtError e = rt_error(RT_MISSING, "cannot make a temporary folder in %s: %s", base, strerror(errno));
        dir->path[0] = '\0';
        return e;
    }
    return rt_ok();
}

void temp_dir_file(const TempDir *dir, const char *name, char *out, size_t size) {
    snprintf(out, size, "%s/%s", dir->path, name);
}

RtError temp_dir_write(const TempDir *dir, const char *name, const void *data, size_t size) {
    char path[640];
    temp_dir_file(dir, name, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t done = 0;
    while (fd >= 0 && done < size) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    bool ok = fd >= 0 && done == size;
    RtError e = ok ? rt_ok() : rt_error(RT_MISSING, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return e;
}

void temp_dir_remove(TempDir *dir) {
    DIR *d = dir->path[0] ? opendir(dir->path) : NULL;
    if (!d) return;
    for (struct dirent *entry; (entry = readdir(d));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(d), entry->d_name, 0); /* NOLINT(*StdCLibraryFunctions): an open folder has one */
    closedir(d);
    rmdir(dir->path);
    dir->path[0] = '\0';
}
