#!/usr/bin/env python3
"""Problems of bench/kernelbench/drawn.py and drawn_matrix.py, and the variants of level1.py in f16 and bf16: what is drawn is
what they promise, every file compiles, and the small cases of the operators and of the variants are
verified on the processor.

    drawn_test.py SKETCHC KERNELBENCH_FOLDER"""
import pathlib
import sys
import tempfile

import level1_test

TRIED = 7  # the seed whose files are compiled; the reported one is not looked at before it is timed


def promises(drawn, level1):
    bad = []
    for seed in range(1, 41):
        problems = drawn.draw(seed)
        if [p["text"] for p in problems.values()] != [p["text"] for p in drawn.draw(seed).values()]:
            bad.append(f"seed {seed} draws differently the second time")
        shapes, operators = ([p for p in problems.values() if ("base" in p) == based] for based in (True, False))
        if (len(shapes), len(operators), len({p["base"] for p in shapes}), len({p["name"].split("_")[0] for p in operators})) != (12, 4, 12, 4):
            bad.append(f"seed {seed}: {[p['name'] for p in problems.values()]}")
        if {p["group"] for p in shapes} != set(level1.GROUPS) - set(level1.UNBOUND):
            bad.append(f"seed {seed}: groups {[p['group'] for p in shapes]}")
        for p in problems.values():
            size = drawn.tensor_bytes(p["text"], p["cases"]["full"])[0]
            if not drawn.LEAST <= size <= drawn.MOST:
                bad.append(f"seed {seed}: {p['name']} {p['cases']['full']} has {size} bytes")
    full = level1.PROBLEMS[45]
    if drawn.tensor_bytes(full["text"], full["cases"]["full"]) != (4 * 16 * 64 * (2048 ** 2 + 186 ** 2), 4 * 16 * 64 * 186 ** 2):
        bad.append("tensor_bytes counts avg_pool2d wrong")
    return bad


def matrix_promises(drawn_matrix):
    bad = []
    for seed in range(1, 41):
        problems = drawn_matrix.draw(seed)
        if [p["text"] for p in problems.values()] != [p["text"] for p in drawn_matrix.draw(seed).values()]:
            bad.append(f"seed {seed} draws other products the second time")
        bases, forms = {p["base"] for p in problems.values() if "base" in p}, {p["name"].split("_")[1] for p in problems.values() if "base" not in p}
        if (len(problems), len(bases), forms) != (16, 12, {"tail", "gated", "fold", "twin"}):
            bad.append(f"seed {seed}: {[p['name'] for p in problems.values()]}")
        for p in problems.values():
            full = p["cases"]["full"]
            adds = drawn_matrix.multiply_adds(p["text"], full)
            if not drawn_matrix.LEAST_ADDS / 2 <= adds <= 2 * drawn_matrix.MOST_ADDS or drawn_matrix.tensor_bytes(p["text"], full)[0] > drawn_matrix.MOST:
                bad.append(f"seed {seed}: {p['name']} {full} has {adds} products")
    return bad


def varied(level1):
    bad = []
    for number in level1.VARIED:
        text = level1.in_type(level1.PROBLEMS[number]["text"], "bf16")
        if "]: f32" in text or text.count("]: bf16") < 4:
            bad.append(f"problem {number} in bf16:\n{text}")
    return bad


def main():
    sketchc, folder = sys.argv[1:3]
    sys.path.insert(0, folder)
    import drawn
    import drawn_matrix
    import level1
    bad = promises(drawn, level1) + matrix_promises(drawn_matrix) + varied(level1)
    with tempfile.TemporaryDirectory() as name:
        files, verified = [], []
        for p in [*drawn.draw(TRIED).values(), *drawn_matrix.draw(TRIED).values()]:
            files.append(pathlib.Path(name) / p["file"])
            files[-1].write_text(p["text"])
            if "base" not in p:
                verified.append(files[-1])
        for number, dtype in zip(level1.VARIED, ("f16", "bf16") * 5):
            verified.append(pathlib.Path(name) / f"{dtype}_{level1.PROBLEMS[number]['file']}")
            verified[-1].write_text(level1.in_type(level1.PROBLEMS[number]["text"], dtype))
        bad += level1_test.compile_all("cuda", sketchc, files + verified[8:]) + level1_test.verify_all(sketchc, verified, weak=True)
    print("\n".join(bad) or f"{len(files)} drawn problems, {len(verified) - 8} variants")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
