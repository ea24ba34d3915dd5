/* The pipelines of passes.def: each pass takes what those in front of it leave, and all end at kernel level. */
#include "check.h"
#include "passes.h"

static unsigned behind(const PassInfo *info, unsigned states) {
    return info->leaves ? info->leaves : states;
}

static void check_pipeline(TargetKind kind) {
    size_t count;
    const PassId *passes = pipeline_for(kind, &count);
    unsigned states = PASS_STATE_OPEN;
    for (size_t i = 0; i < count; i++) {
        const PassInfo *info = pass_info(passes[i]);
        if (states & ~info->needs) printf("%s does not take what stands in front of it\n", info->name);
        CHECK(!(states & ~info->needs));
        states = behind(info, states);
    }
    CHECK(states == PASS_STATE_KERNEL);
}

/* Behind a pass that makes one state of several nothing is in the former. */
static void check_order(void) {
    unsigned last = PASS_STATE_OPEN;
    for (unsigned i = 0; i < PASS_COUNT; i++) {
        const PassInfo *info = pass_info((PassId)i);
        if (!info->leaves) continue;
        CHECK(info->leaves >= last);
        last = info->leaves & (~info->leaves + 1); /* the lowest of them */
    }
}

int main(void) {
    check_pipeline(TARGET_CUDA);
    check_pipeline(TARGET_CPU);
    check_order();
    return 0;
}
