#include "device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { WAIT_S = 100000 };

int device_lock(const char *target, ChildChannel *channel) {
    static const char *const folders[] = {"/run/lock", "/tmp"};
    const char *device = strcmp(target, "openmp") == 0 ? "cpu" : "gpu";
    char path[64];
    child_phase(channel, WAIT_S, "waiting for the device");
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        snprintf(path, sizeof path, "%s/sketchc-%s.lock", folders[i], device);
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
