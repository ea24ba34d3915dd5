"""The Python of docs/pytorch.md under the heading "Kernels" runs.

    test_document.py LIBSKETCHC PACKAGE_FOLDER"""
import pathlib
import re

import checks

checks.use_package()


def test_blocks():
    path = pathlib.Path(__file__).resolve().parents[2] / "docs/pytorch.md"
    section = path.read_text().split("\n## Kernels\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)
    assert len(blocks) >= 4


checks.run(globals())
