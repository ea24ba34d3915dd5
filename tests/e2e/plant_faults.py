#!/usr/bin/env python3
"""Plants faults in the C that sketchc emits for the three operators and holds that `sketchc verify`
rejects each of them by its named check, and passes the honest code the same way.

A fault is either an edit inside the kernel (a pattern that must match exactly once in the named
function) or a wrapper that calls the honest kernel and then spoils what it left.

plant_faults.py SKETCHC ARTIFACT_EDIT EXAMPLES
"""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import daily

RMS_FIGURE = 0.7  # VERIFY_RMS_FIGURE: at most half of what the mildest fault gives
F16_K = (64, 256, 1024, 4096, 16384)


@dataclasses.dataclass
class Operator:
    """How an example is compiled and what its wrapper needs to know."""
    title: str
    example: str
    entry: str  # the kernel version that `arguments` reach
    signature: str
    call: str
    output: str
    count: str  # elements of the output
    row: str
    inputs: dict[str, str]  # tensor -> elements
    arguments: list[str]
    compile: list[str] = dataclasses.field(default_factory=list)


SOFTMAX = dict(example="softmax", signature="const float *X, float *Y, int64_t M, int64_t N",
               call="X, Y, M, N", output="Y", count="M * N", row="N", inputs={"X": "M * N"})
RMS = Operator("rms_norm", "rmsnorm", "rms_norm_optimized",
               "const float *X, float *Y, int64_t B, int64_t F, int64_t D1, int64_t D2",
               "X, Y, B, F, D1, D2", "Y", "B * F * D1 * D2", "D2", {"X": "B * F * D1 * D2"},
               ["--case=small", "-D", "F=64", "-D", "D2=20"])
ROW = Operator("softmax, whole row", entry="softmax_whole_row_row",
               arguments=["--case=rows_4096", "-D", "M=32"], **SOFTMAX)
PASSES = Operator("softmax, chunks", entry="softmax_whole_row_passes",
                  arguments=["--case=rows_65537", "-D", "M=3"], **SOFTMAX)


def matmul(title: str, sizes: str, *compile_with: str) -> Operator:
    arguments = ["--case=small"] + [a for size in sizes.split() for a in ("-D", size)]
    return Operator(title, "matmul_f32", "matmul_f32_tiled",
                    "const float *A, const float *B, float *C, int64_t M, int64_t N, int64_t K",
                    "A, B, C, M, N, K", "C", "M * N", "N", {"A": "M * K", "B": "K * N"}, arguments,
                    list(compile_with))


MATMUL = matmul("matmul_f32", "M=200 N=140 K=640")
TILES_32 = ["-D", "BM=32", "-D", "BN=32"]


@dataclasses.dataclass
class Fault:
    """`pattern` to `replacement` inside the kernel, or `spoil` after it (or `before` it)."""
    name: str
    status: str
    checks: tuple[str, ...]
    pattern: str = ""
    replacement: str = ""
    spoil: str = ""
    before: str = ""
    arguments: tuple[str, ...] = ()
    everything: bool = False  # all cases and ragged sizes, not the operator's chosen case


HONEST = Fault("none", "ok", ("",))
WRONG = ("bound", "rms")


def wrapper_faults(op: Operator) -> list[Fault]:
    """What applies to every operator, whatever its kernel looks like."""
    out = [
        Fault("zeros", "mismatch", ("bound",), spoil="for (int64_t i = 0; i < n; i++) out[i] = 0;"),
        Fault("moved element", "mismatch", ("bound",), spoil="out[n / 2] = out[n / 2 + 1];"),
        Fault("swapped rows", "mismatch", ("bound",),
              spoil="for (int64_t i = 0; i < row; i++) { const float t = out[i]; "
                    "out[i] = out[row + i]; out[row + i] = t; }"),
        Fault("write past the end", "out_of_bounds", ("guard",), spoil="out[n] = 1;"),
        Fault("write before the start", "out_of_bounds", ("guard",), spoil="out[-1] = 1;"),
        Fault("second launch skipped", "second_launch", ("second_launch",),
              before="static int launches; if (launches++) return 0;"),
        Fault("hang", "hang", ("timeout",), before="for (volatile int on = 1; on;) {}",
              arguments=("--time-limit=1",)),
        Fault("fault", "fault", ("fault",),
              before="volatile int *volatile nowhere = 0; *nowhere = 1;"),
    ]
    for tensor, count in op.inputs.items():
        out.append(Fault(f"input {tensor} modified", "input_modified", ("input_modified",),
                         spoil=f"((uint32_t *){tensor})[({count}) / 2] ^= 1;"))
    return out


def f16(pattern: str, name: str = "f16 accumulation") -> Fault:
    return Fault(name, "mismatch", WRONG, pattern, r"\1 = (float)(_Float16)(\2);")


def f16_by_chunks() -> Fault:
    return Fault("f16 accumulation, 16 products at a time", "mismatch", WRONG,
                 r"(__builtin_memcpy\(&acc\w*\[i_2\]\[[^\]]*\], (acc_\d+), (\d+)\);)",
                 r"for (int l = 0; l < \3 / 4; ++l) \2[l] = (float)(_Float16)\2[l];\n\1")


KERNEL_FAULTS = {
    RMS.title: [
        Fault("skipped last tile", "not_written", ("unwritten",), r"d1_outer < count;",
              "d1_outer < count - 1;"),
        Fault("missing last reduction stage", "mismatch", WRONG,
              r"(square_sum\[8\]\[256\] = \{\{0\}\};\s+for \(int64_t f = 0; f < F);", r"\1 - 1;"),
        f16(r"(square_sum\[i\]\[j\]) = ([^;]*);"),
    ],
    ROW.title: [
        Fault("skipped last tile", "not_written", ("unwritten",), r"m < M;", "m < M - 1;"),
        Fault("missing last reduction stage", "mismatch", WRONG,
              r"(total\[0\] = x_\d+ \+ x_\d+ \+ \(x_\d+ \+ x_\d+\)) \+ [^;]*;", r"\1;"),
        Fault("missing last lane", "mismatch", WRONG,
              r"l < 32(; \+\+l\) acc_2\[l\] = acc_2\[l\] \+)", r"l < 31\1"),
        f16(r"(acc_2\[l\]) = (acc_2\[l\] \+ [^;]*);"),
    ],
    PASSES.title: [
        Fault("skipped last tile", "not_written", ("unwritten",),
              r"(total_2\[0\] = .*?N_0 < N);", r"\1 - 1024;"),
        Fault("missing last reduction stage", "mismatch", WRONG,
              r"(total_2\[0\] = x_\d+ \+ x_\d+ \+ \(x_\d+ \+ x_\d+\)) \+ [^;]*;", r"\1;"),
        Fault("missing last lane", "mismatch", WRONG,
              r"l < 32(; \+\+l\) acc_2\[l\] = acc_2\[l\] \+)", r"l < 31\1"),
        # One element of 65,537 is within the bound there: a row just beyond the switch to chunks,
        # which the ragged sizes hold, shows it.
        Fault("missing last chunk", "mismatch", WRONG,
              r"(float total\[1024\] = \{0\};\s+for \(int64_t N_0 = 0; N_0 < N);", r"\1 - 1024;",
              everything=True, arguments=("--max-bytes=2000000",)),
    ],
    MATMUL.title: [
        Fault("skipped last tile", "not_written", ("unwritten",), r"i < end;", "i < end - 1;"),
        Fault("missing last reduction stage", "mismatch", WRONG, r"k < end_2;", "k < end_2 - 1;"),
    ],
}
F16_GEMM = [f16(r"(acc_\d+\[l\]) =\s+(__builtin_fmaf\([^;]*\));"), f16_by_chunks()]


def body_of(code: str, function: str) -> tuple[int, int]:
    start = code.index(f"\nint {function}(")
    end = code.find("\n}\n", start)
    assert end > start, f"{function} has no end"
    return start, end


def edit_kernel(code: str, op: Operator, fault: Fault) -> str:
    start, end = body_of(code, op.entry)
    body, count = re.subn(fault.pattern, fault.replacement, code[start:end], flags=re.DOTALL)
    assert count == 1, f"{op.title}, {fault.name}: the edit matches {count} times, not once"
    return code[:start] + body + code[end:]


def wrap(code: str, op: Operator, fault: Fault) -> str:
    return f"""#define {op.entry} honest_{op.entry}
{code}
#undef {op.entry}
int {op.entry}({op.signature}) {{
    float *out = {op.output};
    const int64_t n = {op.count}, row = {op.row};
    (void)out, (void)n, (void)row;
    {fault.before}
    const int status = honest_{op.entry}({op.call});
    if (status) return status;
    {fault.spoil}
    return 0;
}}
"""


class Bench:
    """A folder with the examples' artifacts, and what to run on them."""

    def __init__(self, sketchc: str, editor: str, examples: str, folder: str) -> None:
        self.sketchc, self.editor, self.examples = sketchc, editor, pathlib.Path(examples)
        self.folder = pathlib.Path(folder)
        self.env = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"),
                        OMP_NUM_THREADS="2")

    def must(self, *command) -> bytes:
        result = subprocess.run([str(c) for c in command], env=self.env, capture_output=True,
                                timeout=120, check=False)
        assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stderr.decode()}"
        return result.stdout

    def artifact(self, op: Operator) -> tuple[pathlib.Path, str]:
        path = self.folder / f"{op.example}{'-'.join(op.compile[1::2])}.ska"
        if not path.exists():
            self.must(self.sketchc, self.examples / f"{op.example}.sketch", "-t", "openmp",
                      "--emit=artifact", "-o", path, *op.compile)
        return path, self.must(self.editor, "get", path).decode()

    def plant(self, number: int, op: Operator, fault: Fault) -> pathlib.Path:
        path, code = self.artifact(op)
        if fault.pattern:
            spoilt = edit_kernel(code, op, fault)
        elif fault.spoil or fault.before:
            spoilt = wrap(code, op, fault)
        else:
            spoilt = code
        source, planted = self.folder / f"{number}.c", self.folder / f"{number}.ska"
        source.write_text(spoilt)
        self.must(self.editor, "put", path, source, planted)
        assert fault is not HONEST or planted.read_bytes() == path.read_bytes()
        return planted

    def verify(self, planted: pathlib.Path, op: Operator, fault: Fault) -> tuple[int, dict]:
        where = [] if fault.everything else [*op.arguments, "--no-ragged"]
        result = subprocess.run(
            [self.sketchc, "verify", str(planted), "--json", "--no-cache", *where,
             *fault.arguments], env=self.env, capture_output=True, timeout=200, check=False)
        assert result.stdout, f"{op.title}, {fault.name}: {result.stderr.decode()}"
        return result.returncode, json.loads(result.stdout)


def judge(op: Operator, fault: Fault, code: int, report: dict) -> tuple[str, dict]:
    """What is wrong with the verdict ('' when it is as it must be), and the deciding case."""
    failed = [c for c in report["cases"] if c["status"] not in ("ok", "skipped")]
    case = (failed or report["cases"])[0]
    expected = {"ok": 0, "hang": 124}.get(fault.status, 3)
    wrong = ""
    if code != expected:
        wrong = f"exit status {code}, not {expected}"
    elif case["status"] != fault.status or case["check"] not in fault.checks:
        wrong = f"{case['status']}/{case['check']}, not {fault.status}/{'|'.join(fault.checks)}"
    elif fault is HONEST and not (case["compared"] and case["rms_ratio"] < RMS_FIGURE):
        wrong = "nothing was compared, or rms above the figure"
    elif fault.status == "mismatch" and not case["rms_ratio"] >= 2 * RMS_FIGURE:
        wrong = f"rms {case['rms_ratio']} is below twice the figure {RMS_FIGURE}"
    return wrong and f"{op.title}, {fault.name}: {wrong} ({case['text']})", case


def all_jobs() -> list[tuple[Operator, Fault]]:
    jobs = []
    for op in (RMS, ROW, PASSES, MATMUL):
        jobs += [(op, HONEST)] + [(op, f) for f in KERNEL_FAULTS[op.title] + wrapper_faults(op)]
    for k in F16_K:
        op = matmul(f"matmul_f32, K = {k}", f"K={k}", *TILES_32)
        jobs += [(op, HONEST)] + [(op, f) for f in F16_GEMM]
    return jobs


def line_of(op: Operator, fault: Fault, case: dict) -> str:
    found = f"`{case['check']}` ({case['status']})" if case["check"] else "passes"
    judged = fault.status in ("ok", "mismatch")
    figure = f"{case['rms_ratio']:.3g}" if judged and case["rms_ratio"] is not None else "-"
    return f"| {op.title} | {fault.name} | {found} | {figure} |"


def main() -> int:
    sketchc, editor, examples = sys.argv[1:4]
    problems = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        bench = Bench(sketchc, editor, examples, folder)
        jobs = [j for j in all_jobs() if j[1] is HONEST] + daily.drawn([j for j in all_jobs() if j[1] is not HONEST], 2)
        planted = [bench.plant(i, op, fault) for i, (op, fault) in enumerate(jobs)]
        verdicts = pool.map(lambda i: bench.verify(planted[i], *jobs[i]), range(len(jobs)))
        print("| operator | fault | check (status) | rms of error / bound |\n| --- | --- | --- | --- |")
        for (op, fault), (code, report) in zip(jobs, verdicts):
            wrong, case = judge(op, fault, code, report)
            print(line_of(op, fault, case), flush=True)
            problems += [wrong] if wrong else []
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
