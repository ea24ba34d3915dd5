#!/usr/bin/env python3
"""The grammar of docs/language.md has the words of the parser's: every keyword and mark of
frontend/parse.y, and no other; the operators of expressions are the rows of frontend/opers.def.

    grammar.py SOURCE_ROOT"""
import pathlib
import re
import sys


def parser_words(text: str, operators: set[str]) -> set[str]:
    alias = dict(re.findall(r'\b([A-Z]+) "([^"]+)"', text.split("%%")[0]))
    rules = re.sub(r"\{[^{}]*\}", " ", text.split("%%")[1])  # actions
    words = {alias.get(name, name) for name in re.findall(r"\b[A-Z]{2,}\b", rules)}
    words |= set(re.findall(r"'([^' ])'", text.split("%%")[1]))
    named = {alias[name] for name in ("NEWLINE", "INDENT", "DEDENT", "NAME", "CONST", "UPDATE") if name in alias}
    return words - operators - named - {"UNARY", "LINE_END"}


def document_words(text: str) -> set[str]:
    block = re.search(r"<!-- grammar -->\n```text\n(.*?)```", text, re.S)
    return set(re.findall(r'"([^"]+)"', re.sub(r"\(\*.*?\*\)", "", block[1])))


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    operators = set(re.findall(r'OPER\(\w+, "([^"]+)"', (root / "frontend/opers.def").read_text()))
    parser = parser_words((root / "frontend/parse.y").read_text(), operators)
    document = document_words((root / "docs/language.md").read_text())
    marks = {"-", "+", "~", "not", "@"}  # signs, which are operators too, and the mark of a hint
    for word in sorted(parser - document):
        print(f"the document's grammar lacks {word}")
    for word in sorted(document - parser - marks):
        print(f"the parser has no {word}")
    print(f"{len(parser)} words")
    return 1 if parser - document or document - parser - marks or not parser else 0


if __name__ == "__main__":
    sys.exit(main())
