#include "device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Seconds, about a day: the one that has the device may be another search, whose time is not ours to limit. */
enum { WAIT_S = 100000 };

void device_lock_file(const char *target, char *out, size_t size) {
    const char *seen = env_get(ENV_CUDA_VISIBLE_DEVICES);
    char gpu[48] = "0";
    size_t n = 0;
    for (; seen && seen[n] && seen[n] != ',' && n < sizeof gpu - 1; n++) {
        char c = seen[n];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
        gpu[n] = plain ? c : '_';
    }
    if (n) gpu[n] = '\0';
    bool cpu = strcmp(target, "openmp") == 0;
    snprintf(out, size, cpu ? "sketchc-cpu.lock" : "sketchc-gpu-%s.lock", gpu);
}

int device_lock(const char *target, ChildChannel *channel) {
    static const char *const folders[] = {"/run/lock", "/tmp"};
    char file[80], path[96];
    device_lock_file(target, file, sizeof file);
    child_phase(channel, WAIT_S, "waiting for the device");
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], file);
        /* Where everybody may write, O_CREAT does not open what belongs to another user. */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0) continue;
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
        }
        return fd;
    }
    return -1;
}

void device_unlock(int lock) {
    if (lock >= 0) close(lock);
}
