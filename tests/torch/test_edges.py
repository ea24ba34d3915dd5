"""Inputs at the edges of their types, and what results share: as eager, whether a row or the nested backend computed it."""
import common
import torch

nan, inf = float("nan"), float("inf")
f16, f32, f64, i32, i64, u8 = torch.float16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8


def t(*numbers, dtype=f32):
    return torch.tensor(numbers, dtype=dtype)


BIG = t(1e8, 1, -1e8)
EDGES = {
    # dtype= of folds
    "sum in double": (lambda x: (x.sum(dtype=f64), x.mean(dtype=f64), x.cumsum(0, dtype=f64), x[0].cumsum(0, dtype=f64)), BIG),
    "norm in double": (lambda x: (torch.linalg.vector_norm(x, dtype=f64), torch.linalg.vector_norm(x, 1, dtype=f64)), torch.full((4,), 1e30)),
    "sum in single": (lambda x: x.sum(dtype=f32), t(1e300, 1, 2, dtype=f64)),
    # numbers in the type of their tensor
    "full": (lambda x: (torch.full((2,), -1, dtype=u8) + x, torch.full((2,), 2.7, dtype=i64) + x, torch.full((2,), 0.1, dtype=f16).double() + x), t(0.5, 2)),
    "full_like": (lambda x: torch.full_like(x, 2.7) * 2 + x, t(1, 2, dtype=i64)),
    "doubles": (lambda x: torch.full((2,), 0.1, dtype=f64).to(f64) + x, t(1, 2, dtype=f64)),
    # operands in the type of the operation
    "equal to a double": (lambda x, y: (x == y, x != y, x < y, x * y), t(0.1, 0.2), torch.tensor(0.1, dtype=f64)),
    "equal to a constant": (lambda x: x == torch.tensor(0.1, dtype=f64), t(0.1, 0.2)),
    "equal in half": (lambda x: (x == 0.1, x >= 0.1, x * 1), t(0.1, 0.2, dtype=f16)),
    "equal to a single, in half": (lambda x, y: (x == y, x > y), t(0.1, 0.2, dtype=f16), torch.tensor(0.1)),
    "wrapped": (lambda x, y: (x * y).long(), t(2, 3, dtype=i32), torch.tensor(2**32 - 2)),
    "a large factor of halves": (lambda x, y: x * y, t(0.001, 0.0005, dtype=f16), torch.tensor(100000)),
    # folds
    "fewer than no degrees": (lambda x: (x.var(1, correction=3), x.var(0, correction=3), x.std(0, correction=5)), torch.randn(3, 2)),
    "places of no axes": (lambda x: (x.sum().argmax(0), x[0].argmin(-1), x[1].argmax(), *x[0].max(0), *x[1].min(-1)), t(-3, 7)),
    "topk of NaN": (lambda x: x.topk(3), t(1, nan, inf, 3, -inf)),
    "topk of whole numbers": (lambda x: x.topk(2), t(2**53, 2**53 + 1, 5, dtype=i64)),
    # maps
    "remainder": (lambda a, b: (a % b, a % 3.0, a // b), t(1e10, -1e10, 5.5, -5.5, inf, 1), t(3, 3, -2, 2, 2, inf)),
    "lerp": (lambda a, b, w: (torch.lerp(a, b, 1.0), torch.lerp(a, b, w), torch.lerp(a, b, 0.25)), t(1e8, 1e8), t(1, 1), t(1, 0.25)),
    "sign": (lambda x: (x.sign(), x.sgn()), t(nan, -2, 0, 3)),
    "8 bits": (lambda x: (x * 2).to(torch.float8_e4m3fn).float(), t(1000, 1, -1000, 0.3)),
    # the layout of results
    "strides of a part": (lambda a: (a + 1)[:, ::2].as_strided((2, 2), (5, 1)), torch.arange(20.0).view(4, 5)),
    "powers of integers": (lambda i, j: i ** j, torch.tensor([3, 3, -2]), torch.tensor([20, 39, 62])),
    "strides of an expansion": (lambda a: a.sum(1, True).expand(4, 3).as_strided((4,), (1,)), torch.arange(20.0).view(4, 5)),
}


LEFT = ("remainder", "powers of integers", "8 bits", "strides of a part", "strides of an expansion")  # to the nested backend, in part


def equal(a, b):
    return a.dtype == b.dtype and a.stride() == b.stride() and torch.allclose(a.double(), b.double(), rtol=1e-6, atol=0, equal_nan=True)


def check(name, function, *given):
    ours, _ = common.compiled(function, *given, whole=name not in LEFT, loud=False)
    for a, b in zip(common.tensors(ours), common.tensors(function(*given)), strict=True):
        if not equal(a, b):
            raise common.Doubtful(f"{a} in place of {b}, strides {a.stride()} and {b.stride()}")


def test_edges():
    failed = []
    for name, row in EDGES.items():
        try:
            check(name, *row)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__} {str(error)[:300]}")
    assert not failed, "\n".join(failed)


def shared(x):
    a = x.sin()
    return a.view(-1), a[1:], a, a.expand(2, 4, 4), a.split(2)[1]


def test_views_of_results_share_memory():
    parts = common.compiled(shared, torch.randn(4, 4) + 9, whole=False)[0]
    parts[2].zero_()
    assert all(not p.any() for p in parts), parts


def test_strides_of_symbolic_sizes():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

    def function(x):
        return x.relu() + 1, x.sin().transpose(1, 2)
    ours, _ = common.compiled(function, x, dynamic=True, whole=False)
    for a, b in zip(ours, function(x), strict=True):
        assert torch.allclose(a, b) and a.stride() == b.stride(), (a.stride(), b.stride())


if __name__ == "__main__":
    common.main(globals())
