#!/usr/bin/env python3
"""The index of the examples (examples/README.md) is what the files say: name, kind, first sentence.

    index.py EXAMPLES KNOWN...           fails when the index is stale, or when an example is none of
                                         the KNOWN, which meson made a test of
    index.py --update EXAMPLES"""
import pathlib
import sys

BEGIN, END = "<!-- generated: index -->\n", "<!-- end of generated: index -->\n"
# The kinds, in the order of the index; an example is of the first whose words its file's name has.
KINDS = [
    ("attention and transformer parts", ["attention", "rotary", "swiglu", "geglu"]),
    ("losses", ["loss", "cross_entropy", "mse", "huber", "kl_div", "triplet", "hinge", "cosine_embedding"]),
    ("convolution", ["conv", "im2col"]),
    ("pooling", ["pool"]),
    ("matrix products", ["matmul", "gemm", "bmm", "matvec", "linear", "mlp"]),
    ("normalisation", ["norm", "softmax", "scal", "logsumexp"]),
    ("scans, sorting, searching", ["cumsum", "cumprod", "cummax", "scan", "sort", "top_k", "topk",
                                   "argmax", "argmin", "histogram"]),
    ("gather, scatter, movement", ["gather", "scatter", "embedding", "transpose", "concat", "pad", "flip",
                                   "reshape", "triu", "tril", "mask", "roll"]),
    ("reductions", ["sum", "mean", "max_", "min_", "prod_", "variance", "var_", "similarity", "distance",
                    "dot", "any_", "all_"]),
    ("lane by lane", [""]),
]


def kind_of(name: str) -> str:
    return next(kind for kind, words in KINDS if any(word in f"{name}_" for word in words))


def sentence_of(file: pathlib.Path) -> str:
    lines = []
    for line in file.read_text().splitlines():
        if not line.startswith("# "):
            break
        lines.append(line[2:])
        if line.endswith("."):
            break
    return " ".join(lines).replace("|", "\\|")


def table(folder: pathlib.Path) -> str:
    rows = {}
    for file in sorted(folder.glob("*.sketch")):
        rows.setdefault(kind_of(file.stem), []).append(
            f"| [{file.stem}]({file.name}) | {sentence_of(file)} |\n")
    text = ""
    for kind, _ in KINDS:
        if kind in rows:
            text += f"\n**{kind[0].upper()}{kind[1:]}**\n\n| example | what it shows |\n| --- | --- |\n"
            text += "".join(rows[kind])
    return text + "\n"


def main() -> int:
    update = sys.argv[1] == "--update"
    folder = pathlib.Path(sys.argv[1 + update])
    readme = folder / "README.md"
    text = readme.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    fresh = text[:begin] + table(folder) + text[end:]
    if update:
        readme.write_text(fresh)
        return 0
    files = {file.stem for file in folder.glob("*.sketch")}
    missing = files - set(sys.argv[2:])
    if fresh != text:
        print("examples/README.md is stale; run tests/examples/index.py --update examples")
    if missing:
        print(f"not known to this build: {', '.join(sorted(missing))}; run meson setup --reconfigure")
    print(f"{len(files)} examples")
    return 1 if fresh != text or missing or not files else 0


if __name__ == "__main__":
    sys.exit(main())
