#!/usr/bin/env python3
"""Faults planted into emitted CUDA C: each must make the verification on the CPU fail, which passes without it.

    faults.py SKETCHC DRIVER_FOLDER [--seed=N] [--only=N,...]"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily
import verify

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOFTMAX = ("examples/softmax.sketch:M=3,N=1000", "sm_80")
ROWS = ("examples/softmax.sketch:M=2,N=20000", "sm_90a")
MMA = ("examples/matmul_f16.sketch:M=40,N=72,K=136", "sm_80")
WGMMA = ("examples/matmul_f16.sketch:M=136,N=72,K=200", "sm_90a")
# Three steps: parts of rows, the finish of more of them than the last step repeats, the rows.
NORM = ("bench/kernelbench/level1/040_layer_norm.sketch:B=1,C=5,H=31,W=37,P=16,held=1000", "sm_90a")
COLUMNS = ("bench/kernelbench/level1/047_sum_axis1.sketch:B=2,K=400,N=203", "sm_90a")
MIDDLE, LAST, FINISH = r"layer_norm_parts_2_\w+", r"layer_norm_parts_3_\w+", r"sum_axis1_tiled_2_finish_\w+"
# What, where, the number of the match or the names of the kernels that have it, the pattern, and what stands there instead.
FAULTS = [
    ("no barrier behind the first partial sums", SOFTMAX, 1, r"__syncthreads\(\);", ""),
    ("no barrier behind the second partial sums", SOFTMAX, 2, r"__syncthreads\(\);", ""),
    ("a shuffle over another distance", SOFTMAX, 2, r"(__shfl_xor_sync\(0xffffffffu, \w+), 4\)", r"\1, 8)"),
    ("a shuffle whose mask lacks a lane", SOFTMAX, 3, "0xffffffffu", "0x7fffffffu"),
    ("a store one piece past the end", SOFTMAX, 1, r"(if \(\w+) < (left\)\s+__stwb)", r"\1 <= \2"),
    ("an address that is not aligned", SOFTMAX, 1, r"(load_or\(\(const float4 \*\)&X\[\w+)\]", r"\1 + 1]"),
    ("values sent to blocks that have not begun", ROWS, 1, r"\n +asm volatile\(\"barrier\.cluster\.wait\.aligned[^;]*;[^;]*;", ""),
    ("no meeting of the cluster", ROWS, 1, r"\n +cluster_meet\([^;]*;", ""),
    ("a meeting's parity", ROWS, 1, r"(cluster_meet\(\w+, \d+, met >> 0 & 1)\);", r"\1 ^ 1);"),
    ("fewer bytes than come", ROWS, 2, r"(cluster_meet\(\w+, )\d+", r"\g<1>4"),
    ("a value sent to one block, counted by another", ROWS, 1, r"(mapa\.shared::cluster\.u32 a, %0, )%3", r"\g<1>0"),
    ("a copy's swizzle", MMA, 1, r">> 1\) & 3\) \* 8\)", r">> 2) & 3) * 8)"),
    ("a fragment's swizzle", MMA, 3, r"\^ \(\(\(at_\d+ >> 1\) & 3\) \* 8\)", ""),
    ("a wait for one group less", MMA, 1, "wait_group 1", "wait_group 2"),
    ("no barrier behind the wait", MMA, 1, r"(wait_group 1;\" ::: \"memory\"\);\s*)__syncthreads\(\);", r"\1"),
    ("copies read past the end", MMA, 1, r", 16, %2;", ", 16, 16;"),
    ("a fragment that is not transposed", MMA, 1, r"x4\.trans", "x4"),
    ("halves of a factor exchanged", MMA, 1, r"\{%8,%9\}", "{%9,%8}"),
    ("a descriptor's stride", WGMMA, 1, "0x8000002000000000", "0x8000004000000000"),
    ("a descriptor's lead", WGMMA, 1, "0x4000004001000000", "0x4000004000800000"),
    ("a descriptor's swizzle", WGMMA, 1, "0x4000004001000000", "0x8000004001000000"),
    ("a wait for one product less", WGMMA, 1, r"wait_group\.sync\.aligned 1", "wait_group.sync.aligned 2"),
    ("sums used before they are there", WGMMA, 1, r"\n +wgmma_wait_all_\w+\([^;]*;", ""),
    ("no fence before a product", WGMMA, 1, r"\n +wgmma_fence\(\);", ""),
    ("the parity of a phase", WGMMA, 1, r"(mbar_wait\(&full\[\w+\], [^;]*)\);", r"\1 ^ 1);"),
    ("bytes that are awaited", WGMMA, 2, r"(mbar_expect\(&full\[\w+\], )16384", r"\g<1>16256"),
    ("coordinates exchanged", WGMMA, 1, r"\{%4, %3\}", "{%3, %4}"),
    ("a step that does not wait for those before", NORM, MIDDLE, r"\n +wait_for_steps\(\);", ""),
    ("a last step that does not wait for those before", NORM, LAST, r"\n +wait_for_steps\(\);", ""),
    ("a step that waits behind its loads", COLUMNS, FINISH, r"(\n +wait_for_steps\(\);)((?:.|\n)*?folded\d[^;]*;)", r"\2\1"),
    ("a step that waits behind its stores", NORM, LAST, r"(\n +wait_for_steps\(\);)((?:.|\n)*?\n)(?=\})", r"\2\1\n"),
    ("a stage filled while it is read", WGMMA, 1, r"(wgmma_wait_1\(\);\s*)__syncthreads\(\);", r"\1"),
]


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("sketchc")
    parser.add_argument("folder")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only")
    options = parser.parse_args(arguments)
    chosen = [int(x) for x in options.only.split(",")] if options.only else daily.drawn(range(1, len(FAULTS) + 1), 2)
    runs = verify.options_of([options.sketchc, options.folder, "--seed=" + options.seed, "--time-limit=20", "-", "--", "--case=small"])
    missed = 0
    for (file, arch) in sorted({FAULTS[i - 1][1] for i in chosen}):
        wrong = verify.verify(runs, arch, ROOT / file)
        missed += wrong is not None
        if wrong:
            print("without a fault, %s %s: %s" % (file, arch, wrong))
    for i in chosen:
        what, (file, arch), place, old, new = FAULTS[i - 1]
        wrong = verify.verify(runs, arch, ROOT / file, "%s:%s=>%s" % (place, old, new))
        seen = wrong is not None and wrong.startswith("status 3: ") and "build_failed" not in wrong
        missed += not seen
        print("%s %2d %s: %s" % ("ok" if seen else "NOT SEEN", i, what, wrong), flush=True)
    print("figure: planted-cuda-faults %d of %d seen" % (len(chosen) - missed, len(chosen)))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
