"""Models written from torch.nn alone, each at full size and at one that a processor runs in a test.

`ENTRIES[name]` makes a model; `full` and `small` are its sizes. The model takes what `inputs` gives and returns a tensor: of an entry
whose `kind` is "training" one whose sum is differentiated, gradients of all parameters with it."""
import math

import torch
import torch.nn.functional as F
from torch import nn

# ---- ResNet-50 ----


class Bottleneck(nn.Module):
    def __init__(self, entering, width, stride):
        super().__init__()
        leaving = 4 * width
        self.a, self.na = nn.Conv2d(entering, width, 1, bias=False), nn.BatchNorm2d(width)
        self.b, self.nb = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c, self.nc = nn.Conv2d(width, leaving, 1, bias=False), nn.BatchNorm2d(leaving)
        self.short = nn.Identity()
        if stride != 1 or entering != leaving:
            self.short = nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))

    def forward(self, x):
        y = F.relu(self.na(self.a(x)))
        y = F.relu(self.nb(self.b(y)))
        return F.relu(self.nc(self.c(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        stages, entering = [], width
        for stage, count in enumerate(blocks):
            for k in range(count):
                stages.append(Bottleneck(entering, width << stage, 2 if stage and k == 0 else 1))
                entering = 4 * (width << stage)
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(entering, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.stages(x), 1).flatten(1))


# ---- Transformers ----

class Attention(nn.Module):
    """Heads over one projection of queries, keys and values."""

    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.three(x).split(w, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Layer(nn.Module):
    """Norms ahead of attention and the two products (ViT, GPT-2), or behind them (BERT)."""

    def __init__(self, width, heads, inner, causal=False, behind=False):
        super().__init__()
        self.attention, self.behind = Attention(width, heads, causal), behind
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        if self.behind:
            x = self.norm(x + self.attention(x))
            return self.norm2(x + self.down(F.gelu(self.up(x))))
        x = x + self.attention(self.norm(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class ViT(nn.Module):
    def __init__(self, image, patch, width, depth, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*[Layer(width, heads, 4 * width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class GPT2(nn.Module):
    """Logits of the next word and the loss; the head has the embedding's weight."""

    def __init__(self, words, length, width, depth, heads):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Layer(width, heads, 4 * width, causal=True) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, following):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.head(self.norm(self.layers(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), following.view(-1))


# ---- A Llama-style block ----

class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def angles(positions, size, base=10000.0):
    """Cosines and sines of rotary positions, [positions, size]."""
    inverse = base ** (-torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size)
    angle = positions.float()[:, None] * inverse
    return torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos.to(x.dtype) + torch.cat([-x[..., half:], x[..., :half]], -1) * sin.to(x.dtype)


class LlamaBlock(nn.Module):
    """RMSNorm, grouped queries, rotary positions, SwiGLU."""

    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, groups * self.size, bias=False)
        self.v, self.o = nn.Linear(width, groups * self.size, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.gate, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, inner), (width, inner), (inner, width)))

    def projected(self, x, positions):
        """Queries, keys and values, [batch, heads, length, size]; the first two are turned by their positions."""
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        cos, sin = angles(positions, self.size)
        return turned(q, cos, sin), turned(k, cos, sin), v

    def attended(self, q, k, v, mask):
        """Scores of all heads of a group at once."""
        b, _, t, _ = q.shape
        q = q.reshape(b, self.groups, -1, self.size)
        scores = (q @ k.transpose(2, 3) / math.sqrt(self.size)).view(b, self.groups, -1, t, k.shape[2])
        weights = scores.masked_fill(mask, float("-inf")).float().softmax(-1).to(q.dtype)
        y = weights.view(b, self.groups, -1, k.shape[2]) @ v
        return self.o(y.view(b, self.heads, t, self.size).transpose(1, 2).reshape(b, t, -1))

    def fed(self, x):
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def forward(self, x):
        t = x.shape[1]
        q, k, v = self.projected(self.norm(x), torch.arange(t, device=x.device))
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        return self.fed(x + self.attended(q, k, v, mask))


class LlamaDecode(LlamaBlock):
    """One step: a token a sequence; its key and value go into the cache, in place."""

    def __init__(self, width, heads, groups, inner, batch, length):
        super().__init__(width, heads, groups, inner)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(batch, groups, length, self.size))

    def forward(self, x, position):
        q, k, v = self.projected(self.norm(x), position)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        mask = torch.arange(self.keys.shape[2], device=x.device) > position
        return self.fed(x + self.attended(q, self.keys, self.values, mask))


# ---- Others ----

class UNetBlock(nn.Module):
    """A level of a diffusion model's U-Net: a residual block down, one below, one up, joined with what was before."""

    class Residual(nn.Module):
        def __init__(self, entering, leaving, groups):
            super().__init__()
            self.norm, self.first = nn.GroupNorm(groups, entering), nn.Conv2d(entering, leaving, 3, padding=1)
            self.norm2, self.second = nn.GroupNorm(groups, leaving), nn.Conv2d(leaving, leaving, 3, padding=1)
            self.short = nn.Identity() if entering == leaving else nn.Conv2d(entering, leaving, 1)

        def forward(self, x):
            y = self.first(F.silu(self.norm(x)))
            return self.short(x) + self.second(F.silu(self.norm2(y)))

    def __init__(self, channels, groups):
        super().__init__()
        self.before, self.down = self.Residual(channels, channels, groups), nn.Conv2d(channels, 2 * channels, 3, 2, 1)
        self.below, self.up = self.Residual(2 * channels, 2 * channels, groups), nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.behind = self.Residual(2 * channels, channels, groups)

    def forward(self, x):
        first = self.before(x)
        return self.behind(torch.cat([first, self.up(self.below(self.down(first)))], 1))


class LSTM(nn.Module):
    """Layers over a sequence, written out: nn.LSTM is one call of cuDNN's, which no graph shows."""

    def __init__(self, width, inner, layers):
        super().__init__()
        self.inner = inner
        self.cells = nn.ModuleList(nn.LSTMCell(width if k == 0 else inner, inner) for k in range(layers))

    def forward(self, x):
        for cell in self.cells:
            h = c = x.new_zeros(x.shape[1], self.inner)
            steps = []
            for step in x.unbind(0):
                h, c = cell(step, (h, c))
                steps.append(h)
            x = torch.stack(steps)
        return x


# ---- The table ----

class Entry:
    """`make(**sizes)` is a module; `inputs(sizes, device, dtype)` are its inputs. `dtype`: of weights and inputs at full size; `autocast`
    in its place leaves the weights in float32. `last`: channels_last."""

    def __init__(self, kind, make, inputs, full, small, dtype=torch.float32, autocast=False, last=False):
        self.kind, self.make, self.inputs, self.full, self.small = kind, make, inputs, full, small
        self.dtype, self.autocast, self.last = dtype, autocast, last

    def made(self, size, device="cpu", dtype=torch.float32, seed=7):
        """The model and its inputs."""
        sizes = dict(getattr(self, size))
        shape = sizes.pop("shape")
        torch.manual_seed(seed)
        with torch.device(device):
            model = self.make(**sizes).to(dtype)
            inputs = self.inputs(shape, dtype)
        if self.last and torch.device(device).type == "cuda":
            model = model.to(memory_format=torch.channels_last)
            inputs = tuple(x.to(memory_format=torch.channels_last) for x in inputs)
        return model, inputs


def numbers(shape, dtype):
    return (torch.randn(shape, dtype=dtype),)


def tokens(shape, dtype):
    words, *sizes = shape
    drawn = torch.randint(0, words, (sizes[0], sizes[1] + 1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def one_token(shape, dtype):
    *sizes, position = shape
    return torch.randn(sizes, dtype=dtype), torch.tensor([position])


_LLAMA = {"width": 4096, "heads": 32, "groups": 8, "inner": 14336}
_SMALL_LLAMA = {"width": 16, "heads": 4, "groups": 2, "inner": 24}
_RESNET = ({"width": 64, "blocks": (3, 4, 6, 3), "classes": 1000, "shape": (64, 3, 224, 224)},
           {"width": 4, "blocks": (1, 1), "classes": 5, "shape": (3, 3, 20, 18)})
ENTRIES = {
    "resnet50": Entry("inference", ResNet, numbers, *_RESNET, last=True),
    "resnet50-training": Entry("training", ResNet, numbers, *_RESNET, last=True),
    "vit-b": Entry("inference", ViT, numbers,
                   {"image": 224, "patch": 16, "width": 768, "depth": 12, "heads": 12, "classes": 1000, "shape": (64, 3, 224, 224)},
                   {"image": 8, "patch": 4, "width": 8, "depth": 1, "heads": 2, "classes": 5, "shape": (2, 3, 8, 8)}, torch.bfloat16),
    "llama-block": Entry("inference", LlamaBlock, numbers, {**_LLAMA, "shape": (1, 2048, 4096)}, {**_SMALL_LLAMA, "shape": (2, 5, 16)}, torch.bfloat16),
    "llama-decode": Entry("decode", LlamaDecode, one_token, {**_LLAMA, "batch": 1, "length": 4096, "shape": (1, 1, 4096, 3000)},
                          {**_SMALL_LLAMA, "batch": 2, "length": 7, "shape": (2, 1, 16, 4)}, torch.bfloat16),
    "gpt2-training": Entry("training", GPT2, tokens, {"words": 50257, "length": 1024, "width": 768, "depth": 12, "heads": 12, "shape": (50257, 8, 1024)},
                           {"words": 11, "length": 6, "width": 8, "depth": 1, "heads": 2, "shape": (11, 2, 6)}, torch.bfloat16, autocast=True),
    "u-net-block": Entry("inference", UNetBlock, numbers, {"channels": 320, "groups": 32, "shape": (2, 320, 64, 64)},
                         {"channels": 4, "groups": 2, "shape": (2, 4, 6, 8)}, torch.bfloat16, last=True),
    "bert-layer": Entry("training", Layer, numbers, {"width": 768, "heads": 12, "inner": 3072, "behind": True, "shape": (8, 512, 768)},
                        {"width": 8, "heads": 2, "inner": 12, "behind": True, "shape": (2, 5, 8)}, torch.bfloat16, autocast=True),
    "lstm": Entry("training", LSTM, numbers, {"width": 256, "inner": 512, "layers": 2, "shape": (32, 64, 256)},
                  {"width": 5, "inner": 6, "layers": 2, "shape": (3, 2, 5)}),
}
