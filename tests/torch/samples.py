"""Calls of every row of the table of operations, by name: functions of tensors that `inputs` makes.

x is [3, 5] in [-2, 2), y likewise and away from 0, p positive, i whole numbers below 5, c truth values; v is a vector of 5, w a matrix
[5, 4]; m an image [2, 4, 7, 6], f its filters [6, 4, 3, 2], and so on: `inputs` says them."""
import torch

aten = torch.ops.aten
nn = torch.nn.functional


def inputs(dtype, seed=0):
    g = torch.Generator().manual_seed(seed)

    def rand(*shape, low=-2.0, high=2.0):
        return torch.rand(*shape, generator=g, dtype=torch.float64).mul(high - low).add(low).to(dtype)

    def whole(*shape, high=5):
        return torch.randint(0, high, shape, generator=g)
    y = rand(3, 5)
    return {
        "x": rand(3, 5), "y": torch.where(y.abs() < 0.1, torch.ones_like(y), y), "p": rand(3, 5, low=0.1), "i": whole(3, 5),
        "j": whole(3, 5, high=3), "c": whole(3, 5, high=2) == 1, "v": rand(5), "w": rand(5, 4), "b": rand(2, 3, 5), "d": rand(2, 5, 4),
        "m": rand(2, 4, 7, 6), "f": rand(6, 4, 3, 2), "ft": rand(4, 3, 3, 2), "fg": rand(6, 2, 3, 3), "fd": rand(4, 1, 3, 3), "fb": rand(6),
        "l": rand(2, 3, 11), "fl": rand(4, 3, 4), "n": rand(1, 2, 4, 5, 4), "fn": rand(3, 2, 2, 3, 2), "s": rand(4), "u": rand(4, low=0.5),
        "k": whole(4, high=3), "e": rand(1, 5),
    }


MAPS = {
    "add": lambda x, y: aten.add.Tensor(x, y, alpha=2) + 1,
    "sub": lambda x, y: aten.sub.Tensor(x, y, alpha=3) - y,
    "rsub": lambda x: aten.rsub.Scalar(x, 2.0),
    "mul": lambda x, i: x * i * 2,
    "div": lambda x, y, i: (x / y) + (i / 3),
    "div floor": lambda i, j: aten.div.Tensor_mode(i, j + 1, rounding_mode="floor"),
    "div trunc": lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="trunc"),
    "floor_divide": lambda i, j: i // (j + 1),
    "remainder": lambda i, j: (i % 3, -i % (j + 1)),
    "pow": lambda x, p: (x ** 2, x ** 3, p ** 0.5, p ** -0.5, p ** 1.7, p ** x, 2.0 ** x),
    "maximum": lambda x, y, i, j: (torch.maximum(x, y), torch.minimum(x, y), torch.maximum(i, j), torch.fmax(x, y), torch.fmin(x, y)),
    "clamp": lambda x, i: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=0.5), i.clamp(1, 3), aten.clamp_min(x, 0.1), aten.clamp_max(x, 0.1)),
    "clamp of tensors": lambda x, y: torch.clamp(x, y - 1, y + 1),
    "addcmul": lambda x, y, p: (torch.addcmul(x, y, p, value=0.5), torch.addcdiv(x, y, p, value=2)),
    "lerp": lambda x, y, p: (torch.lerp(x, y, 0.3), torch.lerp(x, y, p)),
    "signs": lambda x, i: (x.abs(), -x, x.sign(), i.sign(), -i, aten.sgn(x)),
    "powers": lambda x, p: (x.exp(), torch.exp2(x), torch.expm1(x), p.log(), p.log2(), p.log10(), torch.log1p(p), p.sqrt(), p.rsqrt(),
                            x.square(), p.reciprocal()),
    "circle": lambda x: (x.sin(), x.cos(), x.tan(), x.atan(), x.sinh(), x.cosh(), x.tanh(), x.erf()),
    "rounding": lambda x: (x.floor(), x.ceil(), x.round(), x.trunc(), x.frac()),
    "activations": lambda x: (x.sigmoid(), x.relu(), torch.nn.functional.leaky_relu(x, 0.2), torch.nn.functional.elu(x, 0.7),
                              torch.nn.functional.selu(x), torch.nn.functional.gelu(x), torch.nn.functional.gelu(x, approximate="tanh"),
                              torch.nn.functional.silu(x), torch.nn.functional.mish(x)),
    "activations 2": lambda x: (torch.nn.functional.softplus(x), torch.nn.functional.softplus(x, 2.0, 1.0), torch.nn.functional.hardsigmoid(x),
                                torch.nn.functional.hardswish(x), torch.nn.functional.hardtanh(x, -0.5, 1), torch.nn.functional.softsign(x),
                                torch.nn.functional.threshold(x, 0.5, 0.1), torch.nn.functional.logsigmoid(x), torch.nn.functional.relu6(x)),
    "backward": lambda x, y: (aten.threshold_backward(x, y, 0.1), aten.sigmoid_backward(x, y), aten.tanh_backward(x, y)),
    "logaddexp": lambda x, y: torch.logaddexp(x, y),
    "comparisons": lambda x, y, i, j: (x == y, x != y, x < y, x <= 0.5, x > y, x >= 1, i == j, i > 2.5, i <= x, x.isnan(), (x / 0).isinf()),
    "logic": lambda x, c, i, j: (torch.logical_and(c, x > 0), torch.logical_or(c, x > 0), ~c, torch.logical_not(c), c & (x > 0), c | (x > 0),
                                 torch.logical_xor(c, x > 0), i & j, i | j, i ^ j, ~i, c ^ (x > 0)),
    "where": lambda x, y, c: (torch.where(c, x, y), torch.where(c, x, 0.5), torch.where(x > 0, 1.0, 2.0), x.masked_fill(c, -1e4)),
    "nan_to_num": lambda x, c: torch.where(c, x / 0, x).nan_to_num(0.5, 7.0, -7.0),
    "types": lambda x, i, c: (x.to(torch.float16).to(x.dtype) if x.dtype == torch.float32 else x.float(), i.to(torch.int32), c.to(x.dtype),
                              x.to(torch.int64), c.long(), i + c, x.bool(), x.clone().detach()),
    "broadcasts": lambda x, v, e: (x + v, x * e, v + e, x + v[0]),
    "losses": lambda x, y: (torch.nn.functional.mse_loss(x, y), torch.nn.functional.huber_loss(x, y), torch.nn.functional.l1_loss(x, y)),
}

VIEWS = {
    "view": lambda x: (x.view(5, 3) + 1, x.reshape(15) * 2, x.unsqueeze(1) + 1, (x[:1].squeeze(0)) + 1, x.flatten() + 1, x[0, 0].view(1) + 1),
    "permute": lambda b: (b.permute(2, 0, 1) + 1, b.transpose(0, 2) * 2, b[0].t() + 1),
    "expand": lambda v, x: (v.expand(4, 5) + 1, x[:, None].expand(3, 2, 5) * 2, x.sum().expand(2, 2) + 1),
    "slice": lambda x, m: (x[1:, 2:4] + 1, x[:, ::2] * 2, x[-2:, :-1] + 1, m[..., 1:-1, ::3] + 1),
    "select": lambda x, m: (x[1] + 1, x[:, -1] * 2, m[0, 1] + 1),
    "cat": lambda x, y, e, i: (torch.cat([x, y], 0) + 1, torch.cat([x, e, y]) + 1, torch.stack([x, y], 1) * 2, torch.cat([i, i], 1) + 1),
    "split": lambda x, b: ([p + 1 for p in x.split(2, 1)], [p * 2 for p in x.split([1, 4], 1)], [p + 1 for p in b.unbind(1)],
                           [p + 1 for p in x.chunk(2, 0)]),
    "flip": lambda x, b: (x.flip(0) + 1, b.flip([0, 2]) * 2, x.roll(2, 1) + 1, x.roll(-1, 0) + 1),
    "repeat": lambda x: (x.repeat(2, 2) + 1, x.repeat(2, 1, 1) + 1, x.repeat_interleave(2, 1) + 1),
    "pad": lambda x: (torch.nn.functional.pad(x, (1, 2)), torch.nn.functional.pad(x, (0, 1, 2, 0), value=3.0), torch.nn.functional.pad(x, (-1, 2))),
    "reflect": lambda m, l, n: (torch.nn.functional.pad(n, (1, 0, 2, 1, 1, 1), mode="reflect"), torch.nn.functional.pad(m, (2, 1, 1, 3), mode="reflect"), torch.nn.functional.pad(l, (3, 2), mode="reflect")),
    "scatter": lambda x, v, e: (aten.slice_scatter(x, e, 0, 1, 2), aten.select_scatter(x, v, 0, 1), aten.select_scatter(x, v[:3], 1, -1), aten.slice_scatter(x, x[:, :2], 1, 2, 4)),
    "triangle": lambda x, b: (x.tril(), x.triu(1), b.tril(-1), x.new_ones(4, 4).triu(1)),
    "diagonal": lambda x, b: (x.diagonal() + 1, x.diagonal(1) * 2, b.diagonal(-1, 1, 2) + 1),
    "gather": lambda x, j, i, k: (torch.gather(x, 1, i), torch.gather(x, 0, j), x.index_select(0, k), x[k], x[:, k], x[k, k]),
    "embedding": lambda x, j: torch.nn.functional.embedding(j, x),
    "numbers": lambda x: (torch.arange(5, device=x.device) + x, torch.arange(1, 10, 2) * 2, torch.full((3, 5), 2.0, dtype=x.dtype) * x,
                          torch.zeros_like(x) + x, torch.ones_like(x) * 2 + x, x.new_zeros(5) + x, x.new_full((5,), 3.0) + x,
                          torch.arange(0.0, 1.0, 0.25, dtype=x.dtype) + 1, aten.full_like(x, 3.0) + x),
    "upsample": lambda m, l: (torch.nn.functional.interpolate(m, scale_factor=2), torch.nn.functional.interpolate(l, scale_factor=3)),
    "pixel_shuffle": lambda m: torch.nn.functional.pixel_shuffle(m, 2),
}

FOLDS = {
    "sum": lambda x, b, i, c: (x.sum(), x.sum(1), b.sum((0, 2)), b.sum(1, keepdim=True), i.sum(), c.sum(1)),
    "mean": lambda x, b: (x.mean(), x.mean(0), b.mean((1, 2), keepdim=True)),
    "prod": lambda x, p: (x.prod(), p.prod(1)),
    "extremes": lambda x, b, i: (x.amax(1), x.amin((0, 1)), x.max(), x.min(), i.max(), b.amax((0, 2), keepdim=True)),
    "extremes with places": lambda x, b: (x.max(1), x.min(0), b.max(2, keepdim=True).values, x.argmax(1), x.argmin(0), x.argmax(), b.argmax(1, keepdim=True)),
    "folds of one number": lambda x: (x.new_full((3, 5), 2.0).logsumexp(1) + x[:, 0], nn.avg_pool2d(x.new_full((1, 3, 5), 2.0), 2) + x[0, 0]),
    "no axes": lambda x: ((x[0, 0] * 2).argmax(0), (x[0, 0] * 2).argmin(), *(x[0, 0] * 2).max(0), *(x[0, 0] * 2).topk(1),
                             (x[0, 0] * 2).cumsum(0), (x[0, 0] * 2).sum(0), (x[0, 0] * 2).softmax(0), (x[0, 0] * 2).log_softmax(0), (x[0, 0] * 2).norm(), (x[0, 0] * 2).var(correction=0)),
    "truth": lambda x, c: (c.any(), c.all(), c.any(1), (x > -3).all(0), x.any(1)),
    "moments": lambda x, b: (x.var(1), x.std(0), x.var((0, 1), correction=0), torch.var_mean(b, (1, 2), keepdim=True), b.std()),
    "scans": lambda x, p, i: (x.cumsum(1), x.cumsum(0), p.cumprod(1), i.cumsum(1)),
    "norms": lambda x, b: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, dim=1), torch.linalg.vector_norm(b, 1, (0, 1)),
                           torch.linalg.vector_norm(x, float("inf"), 1), x.norm(dim=1, keepdim=True)),
    "softmax": lambda x, b: (x.softmax(1), b.softmax(1), x.log_softmax(0), x.logsumexp(1), b.logsumexp(1, keepdim=True)),
    "topk": lambda x: x.float().topk(2, 1),
    "layer norm": lambda x, b, v: (torch.nn.functional.layer_norm(x, (5,), v, v), torch.nn.functional.layer_norm(b, (3, 5))),
    "training batch norm": lambda m, s, u: aten._native_batch_norm_legit_functional(m, s, u, s, u, True, 0.1, 1e-5),
    "group norm": lambda m, s: (torch.nn.functional.group_norm(m, 2, s, s), torch.nn.functional.instance_norm(m)),
    "batch norm": lambda m, s, u: (torch.nn.functional.batch_norm(m, s, u, s, u), torch.nn.functional.batch_norm(m, None, None, u, s, True)),
    "rms norm": lambda x, v: torch.nn.functional.rms_norm(x, (5,), v, 1e-5),
    "products": lambda x, w, b, d, v, s: (x @ w, torch.bmm(b, d), torch.addmm(s, x, w), torch.addmm(s, x, w, beta=0.5, alpha=2), x @ v, v @ v,
                                          torch.baddbmm(s, b, d), b @ w),
    "attention": lambda b: torch.nn.functional.scaled_dot_product_attention(b[:, None], b[:, None] * 0.5, b[:, None]),
    "causal attention": lambda b: torch.nn.functional.scaled_dot_product_attention(b[:, None], b[:, None] * 0.5, b[:, None], is_causal=True),
}

# Writes where numbers say. Without accumulation no element is written twice.
WRITES = {
    "scatter": lambda x, y, k, i: (x.scatter(1, i[:, :1], y), x.scatter(1, i[:, :1], 2.0), x.scatter(0, i[:1] % 3, y), torch.zeros_like(x).scatter(1, i[:, :1], -1.0)),
    "scatter_add": lambda x, y, i: (x.scatter_add(1, i, y), x.scatter_add(0, i % 3, y), x.scatter_add(1, i[:, :1], y)),
    "index_put": lambda x, y, k, v: (x.index_copy(0, k[:1], y[:1]), x.index_put((torch.tensor([2, 0, -2]),), y), torch.index_put(x, (k,), v[0], accumulate=True),
                                     aten.index_put(x, [None, k[:2]], y[:, :2] * 2, True), x.index_copy(1, k[:1], y[:, :1])),
    "embedding gradient": lambda y, j: (aten.embedding_dense_backward(y, j[:, 0], 4, -1, False), aten.embedding_dense_backward(y[None], j[:, 0][None], 4, 1, False)),
    "sort": lambda x, i, m: (x.sort(1), x.sort(0, descending=True), i.sort(dim=1, stable=True), i.sort(dim=1, descending=True, stable=True), m.sort(2)[0], x.argsort(1)),
}

WINDOWS = {
    "convolution": lambda m, f, fb: nn.conv2d(m, f, fb),
    "convolution, strides": lambda m, f: nn.conv2d(m, f, stride=(2, 1), padding=(1, 2), dilation=(2, 1)),
    "convolution, groups": lambda m, fg, fb: nn.conv2d(m, fg, fb, stride=2, padding=1, groups=2),
    "convolution, depthwise": lambda m, fd, s: nn.conv2d(m, fd, s, padding=1, groups=4),
    "convolution, 1d": lambda l, fl: nn.conv1d(l, fl, stride=2, padding=1, dilation=2),
    "convolution, 3d": lambda n, fn: nn.conv3d(n, fn, padding=1),
    "transposed": lambda m, ft: nn.conv_transpose2d(m, ft),
    "transposed, strides": lambda m, ft: nn.conv_transpose2d(m, ft, stride=(2, 3), padding=1, output_padding=(1, 0), dilation=(1, 2)),
    "transposed, groups": lambda m, ft: nn.conv_transpose2d(m, ft, padding=1, groups=2),
    "transposed, 1d": lambda l, fl: nn.conv_transpose1d(l, fl.transpose(0, 1)[:, :2].contiguous(), stride=2),
    "max pool": lambda m: (nn.max_pool2d(m, 2), nn.max_pool2d(m, 3, 2, 1), nn.max_pool2d(m, 2, 1, 0, 2), nn.max_pool2d(m, 3, 2, ceil_mode=True)),
    "max pool, places": lambda m, n: (nn.max_pool2d(m, 3, 2, 1, return_indices=True), nn.max_pool3d(n, (2, 3, 2), 1, (0, 1, 1), return_indices=True)),
    "max pool, 1d 3d": lambda l, n: (nn.max_pool1d(l, 3, 2, 1), nn.max_pool3d(n, 2)),
    "avg pool": lambda m: (nn.avg_pool2d(m, 2), nn.avg_pool2d(m, 3, 2, 1), nn.avg_pool2d(m, 3, 2, 1, count_include_pad=False),
                           nn.avg_pool2d(m, (3, 2), 2, ceil_mode=True), nn.avg_pool2d(m, 2, divisor_override=3)),
    "avg pool, 1d 3d": lambda l, n: (nn.avg_pool1d(l, 3, 2, 1), nn.avg_pool3d(n, 2)),
    "adaptive": lambda m, l: (nn.adaptive_avg_pool2d(m, 1), nn.adaptive_avg_pool2d(m, (3, 4)), nn.adaptive_avg_pool2d(m, (7, 3)), nn.adaptive_avg_pool1d(l, 4)),
}


def gradient(function, *names):
    """A sample that differentiates: the gradients of a weighted sum of the function's results."""
    def row(*tensors):
        result = function(*tensors)
        results = result if isinstance(result, tuple | list) else [result]
        return sum((r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results if r.is_floating_point())
    return row, names


WINDOWS["even windows"] = lambda m: nn.adaptive_avg_pool2d(m, (7, 2))
GRADIENTS = [name for name in WINDOWS if name not in ("max pool, places", "adaptive", "avg pool")]
