#!/usr/bin/env python3
"""Each relative link of a page leads to a file, and each anchor to a heading.

    links.py ROOT          the pages under version control (README.md, CONTRIBUTING.md, docs/ and all others)
    links.py --self-test   what must be found is found"""
import pathlib
import re
import subprocess
import sys
import tempfile

LINK = re.compile(r"(?<!\!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.M)
CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.S)


def anchors(text: str) -> set[str]:
    """As GitHub makes them: small letters, no punctuation, - for spaces."""
    plain = (re.sub(r"[`*]", "", h) for h in HEADING.findall(text))
    return {re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", h.lower())) for h in plain}


def broken(page: pathlib.Path) -> list[str]:
    found = []
    for link in LINK.findall(CODE.sub(lambda m: "" if m[0].startswith(("```", "~~~")) else m[0], page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            found.append(f"{page}: no file {path}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            found.append(f"{page}: no heading #{anchor} in {path or 'this page'}")
    return found


def self_test() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        page.write_text("# A `b` c, d\n[x](page.md) [y](#a-b-c-d) [z](http://nowhere) ```\n[no](code.md)\n```\n"
                        "[gone](gone.md) [q](page.md#b)\n")
        found = broken(page)
    return [] if len(found) == 2 and "gone.md" in found[0] and "#b" in found[1] else [f"found {found}"]


def main() -> int:
    if sys.argv[1] == "--self-test":
        problems = self_test()
    else:
        root = pathlib.Path(sys.argv[1])
        listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=False)
        pages = [root / line for line in listed.stdout.splitlines()] or sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md"))
        problems = [p for page in pages if page.is_file() for p in broken(page)]
    print("\n".join(problems) if problems else "all links lead somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
