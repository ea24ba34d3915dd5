"""Modules drawn by a seed: chains of layers and operations with residuals, forward and backward, static and dynamic batches.

Module k is the same on every machine. The short run draws a sixteenth of them a day, --long runs all; names of the form 12 on the command
line run single ones."""
import copy
import random
import sys

import common
import torch
import torch.nn.functional as F
from common import backend, daily
from torch import nn

COUNT = 64

MAPS = [torch.relu, torch.tanh, torch.sigmoid, F.gelu, F.silu, F.mish, F.softplus, F.elu, F.hardswish, F.leaky_relu, torch.sin, torch.atan,
        lambda x: torch.exp(-x.abs()), lambda x: torch.log1p(x * x), lambda x: x.clamp(-1, 1) * 2, lambda x: x / (1 + x.abs()),
        lambda x: torch.where(x > 0, x, 0.3 * x), lambda x: torch.rsqrt(x * x + 1), lambda x: x - x.mean(), lambda x: x * x.sum(0, keepdim=True)]
ROWS = [lambda x: x.softmax(-1), lambda x: x.log_softmax(-1), lambda x: x - x.amax(-1, keepdim=True), lambda x: x.cumsum(-1), lambda x: x.flip(-1),
        lambda x: torch.cat([x[..., 1:], x[..., :1]], -1), lambda x: x / (1 + torch.linalg.vector_norm(x, dim=-1, keepdim=True)),
        lambda x: x.roll(1, -1) + x, lambda x: torch.stack([x, -x], -1).amax(-1), lambda x: x.view(x.shape[0], -1).view(x.shape)]


class Step(nn.Module):
    """A layer or a function, whose result may be added to what came in."""

    def __init__(self, what, residual=False):
        super().__init__()
        self.what, self.residual = what, residual

    def forward(self, x):
        y = self.what(x)
        return y + x if self.residual and y.shape == x.shape else y


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.three, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.three(x).split(w, -1))
        return self.out(((q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v).transpose(1, 2).reshape(b, t, w))


def image_layers(draw, channels):
    """A layer for [batch, channels, height, width] and the channels behind it."""
    out = draw.choice([2, 4, 6])
    kernel = draw.choice([1, 3])
    groups = draw.choice([1, 2])
    return draw.choice([
        (nn.Conv2d(channels, out, kernel, padding=kernel // 2, groups=groups), out),
        (nn.Conv2d(channels, out, 3, 2, 1, bias=False), out),
        (nn.Conv2d(channels, channels, 3, padding=2, dilation=2, groups=channels), channels),
        (nn.ConvTranspose2d(channels, out, 2, 2), out),
        (nn.BatchNorm2d(channels), channels), (nn.GroupNorm(2, channels), channels), (nn.InstanceNorm2d(channels, affine=True), channels),
        (nn.MaxPool2d(3, 1, 1), channels), (nn.AvgPool2d(2, 1), channels), (nn.MaxPool2d(2), channels)])


def row_layers(draw, width, rank):
    out = draw.choice([4, 6, 8])
    choices = [(nn.Linear(width, out), out), (nn.LayerNorm(width), width), (nn.RMSNorm(width), width)]
    return draw.choice([*choices, (Attend(width, 2), width)] if rank == 3 else [*choices, (nn.BatchNorm1d(width), width)])


def drawn(number):
    """Module `number` and its input."""
    draw = random.Random(number)
    torch.manual_seed(number)
    form = draw.choice(["image", "rows", "sequence"])
    shape = {"image": [3, 4, 9, 8], "rows": [5, 6], "sequence": [3, 5, 6]}[form]
    steps, width = [], shape[1] if form == "image" else shape[-1]
    for _ in range(draw.randint(3, 6)):
        if draw.random() < 0.5:
            steps.append(Step(draw.choice(MAPS if draw.random() < 0.7 else ROWS), draw.random() < 0.4))
            continue
        layer, width = image_layers(draw, width) if form == "image" else row_layers(draw, width, len(shape))
        steps.append(Step(layer, draw.random() < 0.4))
    return nn.Sequential(*steps), torch.randn(shape)


def step(model, x):
    x = x.requires_grad_()
    x.grad = None
    result = model(x)
    (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum().backward()
    return [result.detach(), x.grad] + [p.grad for p in model.parameters()] + list(model.buffers())


def rounded_steps(model, x):
    """The step in double precision, with the roundings of float32; the model stays as it is."""
    def run(x, *state):
        own = copy.deepcopy(model)
        own.load_state_dict(dict(zip(own.state_dict(), state, strict=True)))
        return step(own, x)
    return common.rounded(run, [x, *model.state_dict().values()], torch.finfo(torch.float32).eps)


def check(number):
    """Two training steps, the second one with another batch where that is a symbol."""
    model, x = drawn(number)
    exact_model, eager_model = copy.deepcopy(model).double(), copy.deepcopy(model)
    dynamic = number % 3 == 0
    torch._dynamo.reset()
    with backend.reporting() as report:
        fast = torch.compile(model, backend="sketchc", fullgraph=True, options={"loud": False})
        for batch in ([x, torch.cat([x, x.flip(0) * 0.5])] if dynamic else [x]):
            if dynamic:
                torch._dynamo.mark_dynamic(batch, 0)
            for m in (model, eager_model, exact_model):
                m.zero_grad()
            moved = rounded_steps(exact_model, batch)
            common.hold(f"module {number}, batch {len(batch)}", step(fast, batch), step(eager_model, batch.detach().clone()), step(exact_model, batch.detach().double()), moved)
    assert report.whole, f"module {number}: {model}\n{report}"


def main():
    numbers = [int(n) for n in sys.argv[3:]] or daily.drawn(range(COUNT), 16)
    failed = []
    for number in numbers:
        try:
            check(number)
        except Exception as error:
            failed.append(number)
            print(f"FAIL {number}: {type(error).__name__} {str(error)[:1500]}")
    print(f"{len(numbers) - len(failed)} of {len(numbers)} modules agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
