"""times.py LIBSKETCHC ID=FOLDER:FORM,FOLDER:FORM ...: one process; every element compared, times in turn beside eager and cuDNN's benchmark mode."""
import concurrent.futures
import os
import pathlib
import statistics
import sys
import types

REPO = pathlib.Path(os.environ["REPO"])
sys.path += [str(REPO / "bench" / "kernelbench"), str(REPO / "bench")]
import torch  # noqa: E402
from kernel import Kernel  # noqa: E402
from run import Run, difference, fastest_of_cudnn, result_of, scalars_of, torch_of  # noqa: E402

options = types.SimpleNamespace(library=pathlib.Path(sys.argv[1]), artifacts=pathlib.Path("."), drawn=0, variant="f32", case="full", only="")
run = Run(options)
spec = {int(a.split("=")[0]): [v.split(":") for v in a.split("=")[1].split(",")] for a in sys.argv[2:]}


def kernel(p, folder, form, sizes, tensors):
    artifact = run.library.read(pathlib.Path(folder) / p["file"].replace(".sketch", f".{form}.ska"))
    return Kernel(run.library, artifact, sizes, tensors, scalars_of(p))


def warm(number, folder, form):
    p = run.problems[number]
    try:
        inputs, out = run.data(p, p["cases"]["small"])
        kernel(p, folder, form, p["cases"]["small"], {**inputs, result_of(p): out}).close()
    except Exception as error:
        print(number, folder, form, repr(error)[:300], flush=True)


with concurrent.futures.ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda a: warm(*a), [(n, *v) for n, kinds in spec.items() for v in kinds]))
for number, kinds in spec.items():
    p, calls, told = run.problems[number], {}, {}
    with torch.no_grad():
        inputs, want = run.data(p, p["cases"]["full"])
        out, reference = torch.empty_like(want), torch_of(p)[1]
        for folder, form in kinds:
            try:
                out.fill_(float("nan"))
                call = kernel(p, folder, form, p["cases"]["full"], {**inputs, result_of(p): out})
                call()
                torch.cuda.synchronize()
                worst, odd = difference(out, want, True)
                told[f"{folder}:{form}"] = f"{'' if odd == 0 and worst <= run.tolerance(p) else 'WRONG '}{worst:.1e}/{odd}"
                calls[f"{folder}:{form}"] = call
            except Exception as error:
                print(number, folder, form, repr(error)[:200], flush=True)
        del want
        calls["eager"] = lambda: reference(*inputs.values())
        calls["benchmark mode"] = fastest_of_cudnn(calls["eager"])
        times = {name: statistics.median(t) for name, t in run.clock.interleaved(calls, 3).items()}
    for name, seconds in times.items():
        print(f"{number:3} {name:20} {seconds * 1e3:8.4f} ms {times['eager'] / seconds:6.2f} of eager {told.get(name, '')}", flush=True)
    for call in calls.values():
        if isinstance(call, Kernel):
            call.close()
    inputs = out = calls = call = None
    torch.cuda.empty_cache()
