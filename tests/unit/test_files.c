#define _GNU_SOURCE
#include "check.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/sketchc-files-XXXXXX";

static const char *content(const char *path) {
    static Str text;
    if (!text.data) str_init(&text);
    CHECK(file_read(path, 1 << 20, &text));
    return text.data;
}

static int entries(void) {
    Str out;
    str_init(&out);
    FILE *list = popen("ls -A | wc -l", "r");
    int count = 0;
    CHECK(list && fscanf(list, "%d", &count) == 1);
    pclose(list);
    str_release(&out);
    return count;
}

static void check_read(void) {
    Str text;
    str_init(&text);
    CHECK(!file_read("missing", 10, &text) && errno == ENOENT);
    CHECK(!file_read(".", 10, &text) && errno == EISDIR);
    CHECK(file_write_atomic("ten", "0123456789", 10, 0644));
    CHECK(file_read("ten", 10, &text) && text.len == 10);
    CHECK(!file_read("ten", 9, &text) && errno == EFBIG);
    CHECK(!file_read("/dev/zero", 100000, &text) && errno == EFBIG);
    CHECK(file_write_atomic("ten", "", 0, 0644) && file_read("ten", 0, &text) && text.len == 0);
    str_release(&text);
}

static void check_links(void) {
    CHECK(file_write_atomic("victim", "precious", 8, 0644));
    CHECK(symlink("victim", "planted") == 0);
    CHECK(file_write_atomic("planted", "new", 3, 0600));
    CHECK_STR(content("victim"), "precious");
    CHECK_STR(content("planted"), "new");
    struct stat info;
    CHECK(lstat("planted", &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0600);
    CHECK(file_write_atomic("/dev/null", "x", 1, 0644));
    CHECK(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
    CHECK(symlink("/dev/null", "device") == 0);
    CHECK(!file_write_atomic("device", "x", 1, 0644) && errno == ELOOP);
}

/* The old content stays, and no temporary file is left. */
static void check_failure(void) {
    CHECK(file_write_atomic("kept", "old", 3, 0644));
    CHECK(mkdir("folder", 0755) == 0);
    int before = entries();
    CHECK(!file_write_atomic("folder", "x", 1, 0644) && errno == EISDIR);
    CHECK(!file_write_atomic("missing/file", "x", 1, 0644) && errno == ENOENT);
    CHECK(!file_write_atomic("kept", NULL, (size_t)1 << 40, 0644));
    CHECK_STR(content("kept"), "old");
    CHECK(entries() == before);
}

int main(void) {
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    umask(022);
    check_read();
    check_links();
    check_failure();
    Str command;
    str_init(&command);
    str_printf(&command, "rm -rf %s", folder);
    CHECK(system(command.data) == 0);
    str_release(&command);
    return 0;
}
