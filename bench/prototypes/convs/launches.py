"""launches.py LIBSKETCHC FOLDER:ID:FORM[:B] ...: under ncu, each once between the marks; B: another batch. launches.py --show RAW.csv LOG prints the page."""
import csv
import io
import json
import os
import pathlib
import sys
import types


def show(page, log):
    text = pathlib.Path(page).read_text()
    rows = list(csv.reader(io.StringIO(text[text.index('"ID"'):])))
    found = iter(r for r in rows[2:] if len(r) == len(rows[0]))
    columns = [i for i, name in enumerate(rows[0]) if "__" in name]
    print("columns:", [rows[0][i].replace(".avg.pct_of_peak_sustained_elapsed", " %").replace(".sum", "") for i in columns])
    for line in pathlib.Path(log).read_text().splitlines():
        if not line.startswith('{"spec"'):
            continue
        entry = json.loads(line)
        print(*entry["spec"])
        for _, row in zip(entry["launches"], found):
            numbers = [float(row[i].replace(",", "")) for i in columns]
            print("   ", row[rows[0].index("Kernel Name")][:44].ljust(44), *[f"{n * 1e-3:9.1f}us" if "duration" in rows[0][i] else f"{n:.4g}" for n, i in zip(numbers, columns)])


def main():
    repo = pathlib.Path(os.environ["REPO"])
    sys.path[:0] = [str(repo / "bench" / "kernelbench"), str(repo / "bench")]
    import torch
    from kernel import Kernel
    from run import Run, result_of, scalars_of, torch_of
    options = types.SimpleNamespace(library=pathlib.Path(sys.argv[1]), artifacts=pathlib.Path("."), drawn=0, variant="f32", case="full", only="")
    run, cuda = Run(options), torch.cuda.cudart()
    for spec in (s.split(":") for s in sys.argv[2:]):
        folder, number, form = spec[:3]
        p = run.problems[int(number)]
        options.artifacts = pathlib.Path(folder)
        sizes = {**p["cases"]["full"], **({"B": int(spec[3])} if len(spec) > 3 else {})}
        make, reference = torch_of(p)
        with torch.no_grad():
            inputs = make(sizes, torch.float32)
            with torch.device("meta"):
                shape = reference(*[t.to("meta") for t in inputs.values()]).shape
        call = Kernel(run.library, run.artifact(p, form), sizes, {**inputs, result_of(p): torch.empty(shape, device="cuda")}, scalars_of(p))
        torch.cuda.synchronize()
        cuda.cudaProfilerStart()
        call()
        torch.cuda.synchronize()
        cuda.cudaProfilerStop()
        print(json.dumps({"spec": spec, "launches": [l["entry"] for l in call.info["launches"] if l["grid"][0]]}), flush=True)
        call.close()
        inputs = call = None
        torch.cuda.empty_cache()


show(*sys.argv[2:]) if sys.argv[1:2] == ["--show"] else main()
