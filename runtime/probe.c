/* What `doctor` asks. */
#include "cuda/cuda_driver.h"
#include "cuda/nvrtc.h"
#include "device.h"
#include "worker.h"

#include <string.h>

/* The first line of `TOOL --version` that holds a digit. */
static void ask_version(const char *const *argv, RtTool *tool) {
    SubprocessResult r;
    SubprocessSpec spec = {.argv = argv, .timeout_s = 20};
    if (!subprocess_run(&spec, &r)) return;
    for (char *line = r.out.data; *line;) {
        size_t n = strcspn(line, "\n");
        bool more = line[n] == '\n';
        line[n] = '\0';
        if (strncmp(line, "Copyright", 9) != 0 && strpbrk(line, "0123456789")) {
            rt_copy(tool->version, sizeof tool->version, line);
            if (strstr(line, "release") || !strstr(r.out.data, "NVIDIA")) break;
        }
        line += n + more;
    }
    subprocess_release(&r);
}

void rt_probe_cc(RtTool *tool) {
    const char *words[TOOL_MAX_WORDS], *argv[TOOL_MAX_WORDS + 2];
    Arena *arena = arena_create();
    memset(tool, 0, sizeof *tool);
    size_t n = tool_cc(arena, words);
    tool->found = n > 0;
    if (n) {
        memcpy(argv, words, n * sizeof *words);
        argv[n] = "--version";
        argv[n + 1] = NULL;
        rt_copy(tool->path, sizeof tool->path, words[0]);
        ask_version(argv, tool);
    } else {
        rt_copy(tool->version, sizeof tool->version, "neither $CC nor cc is found in PATH");
    }
    arena_destroy(arena);
}

static void probe_cuda_tool(const char *name, RtTool *tool) {
    memset(tool, 0, sizeof *tool);
    tool->found = tool_find(name, true, tool->path, sizeof tool->path);
    if (!tool->found) {
        tool->path[0] = '\0';
        snprintf(tool->version, sizeof tool->version, "%s is not in PATH, CUDA_HOME or /usr/local/cuda", name);
        return;
    }
    const char *argv[] = {tool->path, "--version", NULL};
    ask_version(argv, tool);
}

void rt_probe_ptxas(RtTool *tool) {
    probe_cuda_tool("ptxas", tool);
}
void rt_probe_nvcc(RtTool *tool) {
    probe_cuda_tool("nvcc", tool);
}

/* ---- In a worker: these load foreign libraries ---- */

typedef struct {
    RtTool *tool;
    char (*arch)[32];
    bool told;
} Probe;
typedef struct {
    RtTool tool;
    char arch[32];
} Answer;

static bool receive(void *ctx, const void *data, size_t size) {
    Probe *p = ctx;
    Answer answer;
    if (size != sizeof answer) return false;
    memcpy(&answer, data, size);
    answer.tool.path[sizeof answer.tool.path - 1] = answer.tool.version[sizeof answer.tool.version - 1] = '\0';
    answer.arch[sizeof answer.arch - 1] = '\0';
    *p->tool = answer.tool;
    if (p->arch) memcpy(*p->arch, answer.arch, sizeof answer.arch);
    return p->told = true;
}

static void work_nvrtc(void *ctx, WorkerChannel *channel) {
    Answer answer;
    int major = 0, minor = 0;
    (void)ctx;
    memset(&answer, 0, sizeof answer);
    answer.tool.found = nvrtc_probe(answer.tool.path, sizeof answer.tool.path, &major, &minor);
    if (answer.tool.found)
        snprintf(answer.tool.version, sizeof answer.tool.version, "NVRTC %d.%d", major, minor);
    else
        answer.tool.path[0] = '\0';
    worker_send(channel, &answer, sizeof answer);
}

static void work_cuda(void *ctx, WorkerChannel *channel) {
    Answer answer;
    Device d;
    (void)ctx;
    memset(&answer, 0, sizeof answer);
    worker_phase(channel, 60, "starting CUDA");
    RtError e = device_open_cuda(&d, 0);
    answer.tool.found = !rt_failed(&e);
    rt_copy(answer.tool.version, sizeof answer.tool.version, answer.tool.found ? d.name : e.text);
    if (answer.tool.found) {
        rt_copy(answer.tool.path, sizeof answer.tool.path, "libcuda.so.1");
        rt_copy(answer.arch, sizeof answer.arch, d.arch);
    }
    worker_send(channel, &answer, sizeof answer);
}

static void probe_in_worker(void (*work)(void *, WorkerChannel *), RtTool *tool, char (*arch)[32]) {
    Probe p = {.tool = tool, .arch = arch};
    memset(tool, 0, sizeof *tool);
    RtError e = worker_run(&(WorkerSpec){.work = work, .receive = receive, .ctx = &p});
    if (!p.told) rt_copy(tool->version, sizeof tool->version, e.text);
}

void rt_probe_nvrtc(RtTool *tool) {
    probe_in_worker(work_nvrtc, tool, NULL);
    if (!tool->found && !tool->version[0]) rt_copy(tool->version, sizeof tool->version, "no libnvrtc.so");
}

void rt_probe_cuda(RtTool *tool) {
    probe_in_worker(work_cuda, tool, NULL);
}

bool rt_native_arch(char arch[32]) {
    RtTool tool;
    char found[32] = "";
    if (cuda_running_arch(arch)) return true; /* where CUDA runs it does not start in a fork */
    probe_in_worker(work_cuda, &tool, &found);
    if (tool.found) memcpy(arch, found, sizeof found);
    return tool.found;
}
