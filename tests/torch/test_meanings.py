"""Where a call means more than its operation's name: overloads, arguments, memory that results share, the order of random numbers."""
import common
import torch
import torch.nn.functional as F

from sketchc import importer
from sketchc.importer_text import NotTaken


def check(name, function, *inputs, **options):
    """Results as eager's, also in strides."""
    with torch.no_grad():
        ours, _ = common.compiled(function, *inputs, whole=False, loud=False, **options)
        eager = function(*inputs)
    common.hold(name, ours, eager, function(*common.wide(inputs)))
    for a, b in zip(common.tensors(ours), common.tensors(eager), strict=True):
        assert a.stride() == b.stride(), (name, a.stride(), b.stride())
    return ours


def check_equal(name, function, *inputs):
    with torch.no_grad():
        ours, _ = common.compiled(function, *inputs, whole=False, loud=False)
    for a, b in zip(common.tensors(ours), common.tensors(function(*inputs)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), (name, a, b)


def test_gradients_of_attention():
    mask = torch.randn(5, 5)
    mask[2] = -torch.inf
    for given in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):
        def gradient(q, k, v, given=given):
            if "attn_mask" in given:
                given = {"attn_mask": mask.to(q.dtype)}
            made = F.scaled_dot_product_attention(q, k, v, **given)
            return torch.autograd.grad((made * torch.linspace(-1, 1, 40, dtype=q.dtype).view(1, 2, 5, 4)).sum(), (q, k, v))
        inputs = [torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3)]
        torch._dynamo.reset()
        function = torch.compile(lambda q, k, v, given=given: F.scaled_dot_product_attention(q, k, v, **given), backend="sketchc")
        made = (function(*inputs) * torch.linspace(-1, 1, 40).view(1, 2, 5, 4)).sum()
        exact = [t.detach().double().requires_grad_() for t in inputs]
        common.hold(f"attention, {list(given)}", torch.autograd.grad(made, inputs), gradient(*inputs), gradient(*exact))


def test_bits_seen_as_another_type():
    check_equal("bits", lambda x: (x.view(torch.int32) & 0x7fffffff).view(torch.float32), torch.randn(4, 4))
    check_equal("halves", lambda x: x.view(torch.bfloat16) * 1, torch.ones(4, 4))


def test_bytes_are_truth_values():
    mask, x = torch.tensor([1, 0, 1, 0], dtype=torch.uint8), torch.arange(8.0).view(4, 2)
    for accumulate in (False, True):
        check_equal("bytes", lambda x, a=accumulate: torch.ops.aten.index_put(x, [mask], torch.full((2,), 9.0), a) + 1, x)


def test_logsumexp_of_infinities():
    inf, nan = torch.inf, torch.nan
    x = torch.tensor([[-inf, -inf], [inf, 1.0], [inf, inf], [-inf, 2.0], [nan, 1.0], [nan, inf]])
    made = common.compiled(lambda x: (x.logsumexp(1), x.logsumexp(1, keepdim=True)), x, whole=False, loud=False)[0]
    for a, b in zip(made, (x.logsumexp(1), x.logsumexp(1, keepdim=True)), strict=True):
        assert torch.equal(a.nan_to_num(nan=7.0, posinf=8.0, neginf=9.0), b.nan_to_num(nan=7.0, posinf=8.0, neginf=9.0)), (a, b)


def nearest_is_taken(size, *scales):
    """By a graph of this one call, which torch 2.13 takes apart before a backend sees it."""
    x, graph = torch.randn(1, 1, 4, 4), torch.fx.Graph()
    given = graph.placeholder("x")
    call = graph.call_function(torch.ops.aten.upsample_nearest2d.default, (given, size, *scales))
    graph.output((call,))
    given.meta["val"], call.meta["val"] = x, torch.ops.aten.upsample_nearest2d(x, size, *scales)
    try:
        return bool(importer.import_graph(torch.fx.GraphModule({}, graph)))
    except NotTaken:
        return False


def test_rows_of_prims():
    """Operations of torch's own layer below ATen, which its decompositions may leave."""
    x, graph = torch.randn(2, 5), torch.fx.Graph()
    given = graph.placeholder("x")
    counted = graph.call_function(torch.ops.prims.iota.default, (5,), {"start": 1, "step": 2, "dtype": torch.int64, "device": "cpu", "requires_grad": False})
    wide = graph.call_function(torch.ops.prims.convert_element_type.default, (counted, torch.float32))
    product = graph.call_function(torch.ops.aten.mul.Tensor, (given, wide))
    graph.output((product,))
    numbers = torch.arange(1, 11, 2)
    for node, value in ((given, x), (counted, numbers), (wide, numbers.float()), (product, x * numbers)):
        node.meta["val"] = value
    options, report = common.backend.Options({"cache": False}), common.backend.GraphReport("prims")
    made = common.backend.Compiler(options, report).compile(torch.fx.GraphModule({}, graph))(x)
    assert report.whole and torch.allclose(made[0], x * numbers), report.left


def test_the_scale_of_nearest():
    taken = [nearest_is_taken(*given) for given in (([8, 12],), ([8, 8], None, None), ([8, 12], 2.0, 3.0), ([8, 8], 2.1, 2.1), ([8, 12], 2.0, 3.2))]
    assert taken == [True, True, True, False, False], taken
    for scale in (3.1, 2.0, (2.0, 2.3)):
        check_equal(f"scale {scale}", lambda x, scale=scale: F.interpolate(x, scale_factor=scale) + 0, torch.randn(1, 1, 4, 4))


def test_where_the_largest_is():
    """Never in the padding; of equal elements the first, of NaN the last."""
    least, some = torch.full((1, 1, 4, 4), -torch.inf), torch.randn(1, 1, 4, 4)
    some[0, 0, 1, 1:3] = torch.nan
    for x in (least, some, torch.zeros(1, 2, 4, 4)):
        def pooled(x):
            return F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]
        check_equal("padded", pooled, x)
        check_equal("plain", lambda x: F.max_pool2d(x, 2, return_indices=True)[1], x)
    x = least.clone().requires_grad_()
    torch._dynamo.reset()
    ours = torch.autograd.grad(torch.compile(lambda x: F.max_pool2d(x, 3, 2, 1), backend="sketchc")(x).sum(), x)
    assert torch.equal(ours[0], torch.autograd.grad(F.max_pool2d(x, 3, 2, 1).sum(), x)[0]), ours


def test_memory_as_torch_lays_it():
    a = torch.randn(4, 5)
    check("gaps", lambda a: (a + 1)[:, ::2].as_strided((2, 2), (5, 1)), a)
    check("repeats", lambda a: a.sum(1, True).expand(4, 3).as_strided((4,), (1,)), a)
    check("views", lambda a: ((a + 1).t(), (a + 1)[1:, ::2], (a * 2).expand(2, 4, 5), (a * 2).t() * 3), a)
    check("parts", lambda a: [(a + 1).split(2)[0] * 2, *(a + 1).split(2), *(a * 3).unbind(1)], a)
    for sizes in ((2, 3, 4, 5), (3, 3, 6, 7)):
        x = torch.randn(sizes).to(memory_format=torch.channels_last)
        check("channels last", lambda x: (x * 2, (x + 1).transpose(1, 2)), x, dynamic=True)
    check("transposed", lambda a: a.t() + 1, a, dynamic=True)


def test_results_that_share_memory():
    def function(x):
        a = x.sin()
        return a.view(-1), a[1:], a, a.expand(2, 4, 4), a.t() * 2, a[1:].exp()
    x = torch.rand(4, 4) + 1
    ours, report = common.compiled(function, x)
    common.hold("shared", ours, function(x), function(x.double()))
    assert report.whole, str(report)
    ours[2].zero_()
    assert not any(bool(ours[k].any()) for k in (0, 1, 3)) and all(bool(ours[k].all()) for k in (4, 5)), ours


def test_folds_of_no_axis():
    x = torch.randn(4, 4)
    check_equal("none", lambda x: (torch.any(x > 0, dim=()), torch.all(x > 0, dim=()), (x > 0).any(), torch.any(x, dim=(0, 1))), x)


def test_random_operations_keep_their_order():
    def function(x):
        first = torch.rand_like(torch.tanh(x).sum(0)) * 2
        second = F.dropout(x, 0.5)
        return first, second, torch.rand_like(first.exp()) + 1, torch.randn(3) + x[0, 0]
    x = torch.randn(3, 4)
    results = []
    for name in ("aot_eager", "sketchc"):
        torch._dynamo.reset()
        torch.manual_seed(5)
        results.append(torch.compile(function, backend=name)(x))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b), (a, b)


if __name__ == "__main__":
    common.main(globals())
