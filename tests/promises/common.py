"""What the scripts of this folder share: running sketchc and measuring it."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

LONG = os.environ.get("SKETCHC_TEST_LONG") == "1"


def environment(folder, **more) -> dict[str, str]:
    """Nothing of the caller's but the path: a cache of its own, no settings."""
    keep = ("PATH", "CUDA_HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")
    env = {k: os.environ[k] for k in keep if k in os.environ}
    return dict(env, HOME=str(folder), XDG_CACHE_HOME=str(pathlib.Path(folder) / "cache"),
                TMPDIR=str(folder), LC_ALL="C.UTF-8", **more)


def run(command, env, cwd, timeout=60, data=None) -> subprocess.CompletedProcess:
    return subprocess.run([str(c) for c in command], env=env, cwd=cwd, input=data or b"",
                          capture_output=True, timeout=timeout, check=False)


def must_run(command, env, cwd, **more) -> bytes:
    result = run(command, env, cwd, **more)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {result.returncode}\n"
                 f"{result.stderr.decode(errors='replace')[:2000]}")
    return result.stdout


def wall_ms(command, env, cwd, times: int) -> list[float]:
    """Wall times with process start, sorted, after one warm-up."""
    must_run(command, env, cwd)
    samples = []
    for _ in range(times):
        begin = time.perf_counter()
        must_run(command, env, cwd)
        samples.append(1e3 * (time.perf_counter() - begin))
    return sorted(samples)


def peak_mb(command, env, cwd) -> float:
    """Peak resident memory of one run."""
    process = subprocess.Popen([str(c) for c in command], env=env, cwd=cwd,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command}: status {process.returncode}")
    return usage.ru_maxrss / 1024


class Promises:
    """Figures against limits. The short run, on a machine that others use too, holds the fastest
    sample to the limit; the long run the median."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    def hold_ms(self, name: str, samples: list[float], limit: float) -> None:
        median = statistics.median(samples)
        print(f"figure: {name} {median:.1f} ms median, {samples[0]:.1f} fastest of {len(samples)} "
              f"(limit {limit:g})")
        if (median if LONG else samples[0]) > limit:
            self.broken.append(name)

    def hold(self, name: str, value: float, limit: float, unit: str) -> None:
        print(f"figure: {name} {value:.1f} {unit} (limit {limit:g})")
        if value > limit:
            self.broken.append(name)

    def end(self) -> int:
        if self.broken:
            print("broken:", ", ".join(self.broken))
        return 1 if self.broken else 0
