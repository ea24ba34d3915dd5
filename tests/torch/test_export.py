"""Programs of torch.export: a block of a ResNet that a program in C runs with its weights, without Python; what cannot be exported says why."""
import json
import pathlib
import subprocess
import tempfile

import common
import torch
import torch.nn.functional as F
from common import backend
from torch import nn

from sketchc import export
from sketchc.errors import Error


class Residual(nn.Module):
    """A block of ResNet with batch norm, in halves of the size."""

    def __init__(self, channels=4):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.short = nn.Conv2d(3, channels, 1, 2)

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.short(x))


def made():
    torch.manual_seed(5)
    model = Residual().eval()
    for norm in (model.na, model.nb):
        norm.running_mean.uniform_(-0.5, 0.5)
        norm.running_var.uniform_(0.5, 2)
    return model, torch.randn(2, 3, 9, 8)


def call_of(told):
    """The macro by which the program in C calls the kernel: arguments in the order of the operator's tensors."""
    held = {w["tensor"]: f"W(RESIDUAL_{w['tensor']})" for w in told["weights"]}
    held.update({told["inputs"][0]["tensor"]: "x", told["results"][0]["tensor"]: "y"})
    names = sorted((n for n in held if n.startswith("I")), key=lambda n: int(n[1:])) + [n for n in held if n.startswith("O")]
    return f"-DCALL(W,x,y,workspace)=residual({', '.join(held[n] for n in names)}, workspace)"


def test_a_program_in_c():
    model, x = made()
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = pathlib.Path(name)
        written = export(torch.export.export(model, (x,)), folder / "residual.so")
        assert {"residual.so", "residual.h", "residual.weights", "residual.json", "residual_weights.h"} <= {p.name for p in written}, written
        told = json.loads((folder / "residual.json").read_text())
        (folder / "input.bin").write_bytes(x.numpy().tobytes())
        program = pathlib.Path(__file__).with_name("export_main.c")
        subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", call_of(told), f"-I{folder}", program, folder / "residual.so", "-lm",
                        f"-Wl,-rpath,{folder}", "-o", folder / "program"], check=True)
        subprocess.run([folder / "program"], cwd=folder, check=True)
        result = torch.frombuffer(bytearray((folder / "output.bin").read_bytes()), dtype=torch.float32)
        eager = model(x)
        common.hold("a block of a ResNet", result.view(eager.shape), eager, model.double()(x.double()))


def refused(program, words):
    with tempfile.TemporaryDirectory() as folder:
        try:
            export(program, pathlib.Path(folder) / "no.so")
        except Error as error:
            assert words in str(error), error
            return
    raise AssertionError(f"nothing was refused, expected: {words}")


def test_what_cannot_be_exported():
    class Det(nn.Module):
        def forward(self, x):
            return torch.linalg.det(x) + 1
    refused(torch.export.export(Det(), (torch.eye(3),)), "no row")
    model, x = made()
    refused(torch.export.export(model.train(), (x,)), "export it in eval()")


def test_sizes_and_results_that_are_told():
    class Rows(nn.Module):
        def forward(self, x):
            return torch.cat([x, x]) * 2, x.exp()

    class Number(nn.Module):
        def forward(self, x):
            return x * 2, 3
    program = torch.export.export(Rows(), (torch.randn(4, 3),), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2)}})
    with tempfile.TemporaryDirectory() as name:
        export(program, pathlib.Path(name) / "rows.so")
        told = json.loads((pathlib.Path(name) / "rows.json").read_text())
        assert "int64_t s_S0" in (pathlib.Path(name) / "rows.h").read_text()
    assert told["inputs"][0]["shape"] == ["S0", 3] and [r["shape"] for r in told["results"]] == [["2*S0", 3], ["S0", 3]], told
    refused(torch.export.export(Number(), (torch.randn(3),)), "no tensor")


def test_a_module_of_a_program_is_compiled():
    model, x = made()
    module = torch.export.export(model, (x,)).module()
    with torch.no_grad():
        ours, _ = common.compiled(module, x)
        common.hold("a program's module", ours, model(x), model.double()(x.double()))
    assert backend


if __name__ == "__main__":
    common.main(globals())
