"""The Python of docs/pytorch.md under the heading "torch.compile" runs, and its report is the one that stands there."""
import contextlib
import io
import pathlib
import re

import common


def test_blocks():
    path = pathlib.Path(__file__).resolve().parents[2] / "docs/pytorch.md"
    section = path.read_text().split("\n## torch.compile\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, str(path), "exec"), names)
    assert len(blocks) >= 2 and re.search(r"^forward: 1 regions, 0 operations left", printed.getvalue(), re.M), printed.getvalue()
    assert "backward: " in printed.getvalue(), printed.getvalue()


if __name__ == "__main__":
    common.main(globals())
