"""Attention of KernelBench level 1 (problem 97), for level1.py.

Both products are split as those of matrix.py. The scores go through memory: a row of them and a row of results do not fit a block's registers. One launch
reads each row of scores once and writes its exponentials in parts. V is split by rows, along which nothing is summed, so that all
launches that split read and write whole rows once: the scale of a row of V goes into the exponentials that it is multiplied by. It is infinite where f16
does not hold the row, which marks every row of exponentials; those of a marked row are made again from its scores, in f32."""
from matrix import Factor, lines, nest, products

LEAD = ("p", "B*H")
EVEN = "ceil({}, 8) * 8".format


class Exponentials(Factor):
    """exp(score - the largest of its row) times the scale of the row of V."""

    in_parts = False
    before_f32 = "peak = alloc([{tile}])\nload(peaks[p, {i}*{tile}:({i}+1)*{tile}] -> peak)"
    after_f32 = "total = alloc([{tile}])\nload(totals[p, {i}*{tile}:({i}+1)*{tile}] -> total)\nacc = acc / reshape(total, [{tile}, 1])\n"

    def cut(self, part, tile, depth):
        return super().cut(part, tile, depth).replace("P[", "scores[")

    def made_f32(self, variable, tile):
        return f"{variable} = exp({variable} - reshape(peak, [{tile}, 1]))\n"

    def workspaces(self):
        kept = "".join(f"{name} = alloc([{self.extents}{EVEN(self.rows)}])\n" for name in ("peaks", "totals"))
        return super().workspaces() + f"scores = alloc([{self.extents}{self.rows}, {EVEN(self.k)}])\n" + kept

    def split(self):
        width = EVEN(self.k)
        return nest(self.loops + [f"m in range({self.rows})"], f"""x = alloc([{width}], llm_hint=["fast", "input_cache"])
load(scores[p, m, :] -> x)
v = alloc([{width}], llm_hint=["fast", "input_cache"])
load(SV[p, :] -> v)
x = where(iota([{width}]) < {self.k}, x, -inf)
peak = max(x, axis=0)
x = exp(x - peak)
total = sum(x, axis=0)
store(peak -> peaks[p, m])
store(total -> totals[p, m])
x *= v
most = max(x, axis=0)
least = min(where(x == 0, inf, x), axis=0)
{self.scale()}s = s / total
store(s -> SP[p, m])
store(wide -> WP[p, m])
x *= exp2(14 - e)
{self.parts("m, :")}""")


class Values(Factor):
    scaled = in_parts = False

    def workspaces(self):
        rows = f"{self.extents}{EVEN(self.k)}"
        return "".join(f"V{part} = alloc([{rows}, {EVEN(self.rows)}], dtype=f16)\n" for part in "HL") + f"SV = alloc([{rows}])\n"

    def split(self):
        width = EVEN(self.rows)
        return nest(self.loops + [f"m in range({EVEN(self.k)})"], f"""x = alloc([{width}], llm_hint=["fast", "input_cache"])
load(V[p, m, 0:{width}] -> x, pad=0)
most = max(abs(x), axis=0)
least = min(where(x == 0, inf, abs(x)), axis=0)
{self.scale()}s = where(fine, s, inf)
store(s -> SV[p, m])
x *= exp2(14 - e)
{self.parts("m, :")}""")


def sketch(name):
    q, k = Factor("Q", "L", "BM", "i", True, LEAD, k="D"), Factor("K", "L", "BN", "j", True, LEAD, k="D")
    q.in_parts = k.in_parts = False
    e, v = Exponentials("P", "L", "BM", "i", True, LEAD, k="L"), Values("V", "D", "BN", "j", False, LEAD, k="L")
    scores = products(q, k, q.loops, "scores", ("0", "ceil(D, {})"), done="acc = acc / sqrt(D)\n")
    results = products(e, v, q.loops, "O", ("0", "ceil(L, {})"))
    return f"""
sketch {name}_split implements {name} {{
    symbols: B, H, L, D;
    tensors: {" ".join(f"{t}[B*H, L, D]: f32;" for t in "QKVO")}
    constexpr: BM = 128, BN = 128, BK = 64, ST = 3, F = 128, FN = 64, FR = 128, G = 16, GB = 8, FB = 8, PM = 1024;

{lines("".join(f.workspaces() for f in (q, k, e, v)), 1)}{q.split()}{k.split()}{v.split()}{"".join(scores)}{e.split()}{"".join(results)}}}
"""


def fill(add, dims):
    add(97, "attention", "split", "attention", f"    symbols: B, H, L, D;\n    tensors: {' '.join(f'{t}[B, H, L, D]: f32;' for t in 'QKVO')}",
        "    P = softmax(matmul(Q, K, trans_b=true) / sqrt(D))\n    O = matmul(P, V)", sketch("attention"),
        dims("B H L D", (32, 32, 512, 1024), (4, 4, 512, 1024), (2, 3, 131, 261), (1, 2, 69, 75)), "; ".join(f"{t}: uniform(0, 1)" for t in "QKV"))
