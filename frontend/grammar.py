"""Writes grammar_text.h: the grammar of formatted sketches as GBNF and as EBNF (the W3C's notation), in C strings.

    grammar.py PARSE.xml PARSE.y SCAN.re OUTPUT

PARSE.xml is Bison's report. The grammar that is printed is the parser's, crossed with what the scanner and the
formatter do to lines: NEWLINE, INDENT and DEDENT become line ends and four spaces a level, at most LEVELS blocks deep; left
recursion becomes repetition; precedence becomes a right-linear chain whose states are the comparisons that may not be
chained; alternatives are factored by their beginnings, so that a decoder keeps few of them alive. Tokens are
the scanner's own expressions. A production that formatted text never holds is left out by NOT_FORMATTED."""
import itertools
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache

LEVELS, SPACES = 9, 4  # the deepest examples have nine loops
NOT_FORMATTED = {  # the formatter writes one statement a line, and a case as one logical line
    ("top", (";",)), ("item", (";",)), ("stmt", (";",)), ("item", ("simple", ";")), ("stmt", ("simple", ";")),
    ("suite", ("inline", "NEWLINE")), ("setting", ("NEWLINE",)), ("line_end", (";",)),
}
# A word that opens a declaration where a `:` follows is no name here, as a line that begins with it would have two
# meanings; but for one that is an argument of gemm.
NAMES_TOO = {"precision"}
START, MID = "start", "mid"  # at the start of a line, before its margin; within a line

# ---- Expressions: ("lit", text) ("class", negated, ranges) ("ref", name) ("seq", ...) ("alt", ...) ("opt"|"star"|"plus", x)


def seq(*parts):
    flat = []
    for p in parts:
        flat.extend(p[1:] if p[0] == "seq" else [p])
    return flat[0] if len(flat) == 1 else ("seq", *flat)


def alt(*parts):
    unique = list(dict.fromkeys(itertools.chain.from_iterable(p[1:] if p[0] == "alt" else [p] for p in parts)))
    return unique[0] if len(unique) == 1 else ("alt", *unique)


EMPTY = ("seq",)


def factored(sequences):
    """Alternatives of tuples of expressions as one expression, with what they begin with in common written once."""
    branches, empty = {}, False
    for s in sequences:
        if s:
            branches.setdefault(s[0], []).append(s[1:])
        else:
            empty = True
    if not branches:
        return EMPTY
    parts = [seq(head, rest) if (rest := factored(tails)) != EMPTY else head for head, tails in branches.items()]
    return ("opt", alt(*parts)) if empty else alt(*parts)


# ---- The scanner's expressions


class Re2c:
    """Just enough of re2c's syntax for scan.re."""

    def __init__(self, text, names):
        self.tokens = re.findall(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\w+|[()|*+?/]', text)
        self.at, self.names = 0, names

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def alternatives(self):
        parts = [self.sequence()]
        while self.peek() == "|":
            self.take()
            parts.append(self.sequence())
        return alt(*parts)

    def sequence(self):
        parts = []
        while self.peek() not in (None, "|", ")", "/"):
            parts.append(self.repeated())
        return seq(*parts)

    def repeated(self):
        x = self.atom()
        while self.peek() in ("*", "+", "?"):
            x = ({"*": "star", "+": "plus", "?": "opt"}[self.take()], x)
        return x

    def atom(self):
        t = self.take()
        if t == "(":
            x = self.alternatives()
            assert self.take() == ")"
            return x
        if t[0] == '"':
            return ("lit", unescape(t[1:-1]))
        if t[0] == "[":
            body = unescape(t[1:-1])
            negated = body[0] == "^"
            ranges = re.findall(r"(.)-(.)|(.)", body[negated:], re.S)
            return ("class", negated, tuple((a or c, b or c) for a, b, c in ranges))
        return self.names[t]


def unescape(text):
    return re.sub(r"\\x(..)|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else {"n": "\n", "r": "\r", "t": "\t"}.get(m[2], m[2]), text)


def read_scanner(text):
    """Per token its expression, and the words that are no names. What the scanner reports as a mistake is left out."""
    definitions, rules = re.findall(r"/\*!re2c(.*?)\*/", text, re.S)
    names = {}
    for name, expression in re.findall(r"^\s*(\w+)\s*=\s*(.*);$", definitions, re.M):
        names[name] = Re2c(expression, names).alternatives()
    tokens, reserved = {}, set()
    for pattern, action in re.findall(r"^    (\S[^\n]*?) \{\s*TAKE;(.*?)\}$", rules, re.M | re.S):
        kind = re.findall(r"TOK_(\w+)", action)
        if not kind or "diag_report" in action or kind[-1] == "LINE_END":
            continue
        x = Re2c(pattern, names).alternatives()
        tokens.setdefault(kind[-1], []).append(x)
        words = [p[1] for p in (x[1:] if x[0] == "alt" else [x]) if p[0] == "lit" and p[1].isalpha()]
        if " / " not in pattern or pattern.endswith('":"'):
            reserved.update(set(words) - NAMES_TOO)
    return {k: alt(*v) for k, v in tokens.items()}, reserved, names["name"]


def name_but(name, words):
    """`name` without the words: one choice for each beginning that they share."""
    _, first, (_, more) = name
    tree = {}
    for w in words:
        node = tree
        for c in w:
            node = node.setdefault(c, {})
        node[""] = True

    def others(ranges, taken):
        kept = []
        for a, b in ranges:
            low = a
            for c in sorted(x for x in taken if a <= x <= b):
                if low < c:
                    kept.append((low, chr(ord(c) - 1)))
                low = chr(ord(c) + 1)
            if low <= b:
                kept.append((low, b))
        return ("class", False, tuple(kept))

    def rest(node):
        letters = sorted(k for k in node if k)
        parts = [seq(("lit", c), r) if (r := rest(node[c])) != EMPTY else ("lit", c) for c in letters]
        parts.append(seq(others(more[2], letters), ("star", more)))
        return alt(*parts) if "" in node else ("opt", alt(*parts))

    parts = [seq(("lit", c), rest(tree[c])) for c in sorted(tree)]
    return alt(*parts, seq(others(first[2], tree), ("star", more)))


# ---- The parser's grammar


class Parser:
    def __init__(self, xml, source):
        root = ElementTree.parse(xml).getroot()
        alias = {a: n for n, a in re.findall(r'\b([A-Z_]+) "([^"]+)"', source.split("%%")[0])}
        self.precedence = {}

        def symbol(text):
            return alias.get(text[1:-1], text[1:-1]) if text[0] in "\"'" else text

        self.terminals = {symbol(t.get("name")) for t in root.iter("terminal")}
        for t in root.iter("terminal"):
            if t.get("prec"):
                self.precedence[symbol(t.get("name"))] = (int(t.get("prec")), t.get("assoc"))
        self.spelling = {n: a for a, n in alias.items()}
        self.rules, dropped = {}, set()
        for rule in root.find("grammar/rules"):
            lhs, rhs = rule.find("lhs").text, tuple(symbol(s.text) for s in rule.iter("symbol"))
            if lhs == "$accept" or "error" in rhs or rhs[:1] == ("INDENT",):
                continue
            if (lhs, rhs) in NOT_FORMATTED:
                dropped.add((lhs, rhs))
                continue
            self.rules.setdefault(lhs, []).append((rhs, rule.get("percent_prec")))
        assert dropped == NOT_FORMATTED, f"no such production: {NOT_FORMATTED - dropped}"
        self.start = next(iter(self.rules))
        self.nullable = self.closure(lambda rhs, s: all(x in s for x in rhs))
        self.layout = self.closure(lambda rhs, s: any(x in s or x in ("NEWLINE", "INDENT", "DEDENT") for x in rhs))
        self.first = self.edges(1)
        self.last = self.edges(-1)

    def closure(self, holds):
        found = set()
        while new := {a for a, ps in self.rules.items() if a not in found and any(holds(r, found) for r, _ in ps)}:
            found |= new
        return found

    def edges(self, step):
        """The tokens that a symbol may begin (1) or end (-1) with."""
        sets = {t: {t} for t in self.terminals} | {a: set() for a in self.rules}
        changed = True
        while changed:
            changed = False
            for a, ps in self.rules.items():
                for rhs, _ in ps:
                    for s in rhs[::step]:
                        if not sets[s] <= sets[a]:
                            sets[a] |= sets[s]
                            changed = True
                        if s not in self.nullable:
                            break
        return sets

    def lists(self, a):
        """(bases, tails) when `a` is left-recursive."""
        tails = [rhs[1:] for rhs, _ in self.rules[a] if rhs[:1] == (a,)]
        return [rhs for rhs, _ in self.rules[a] if rhs[:1] != (a,)], tails

    def is_chain(self, a):
        return any(len(rhs) > 2 and rhs[0] == rhs[-1] == a for rhs, _ in self.rules[a])


# ---- What is printed


class Grammar:
    def __init__(self, parser, tokens, reserved, name):
        self.p, self.rules, self.pending = parser, {}, []
        self.tokens = {t: x for t, x in tokens.items()}
        self.tokens["NAME"] = name_but(name, reserved)
        self.words = {"NAME", "CONST"} | {t for t in parser.terminals if parser.spelling.get(t, "").isalpha()}
        self.arithmetic = set("+-*/%@&|^") | {"POW", "FLOORDIV", "SHL", "SHR"}
        text = seq(("star", ("class", True, (("\n", "\n"),))), ("lit", "\n"))
        margin = ("lit", " " * SPACES)
        self.rules["root"] = seq(("ref", "gap"), self.use(("layout", parser.start, 0, START, START, None, False)))
        self.rules["eol"] = seq(alt(("lit", "\n"), seq(("lit", "  "), ("ref", "remark"))), ("ref", "gap"))
        self.rules["gap"] = seq(("opt", ("lit", "\n")), ("star", seq(("star", margin), ("ref", "remark"), ("opt", ("lit", "\n")))))
        self.rules["remark"] = seq(("lit", "#"), text)
        self.rules["break"] = seq(alt(("lit", "\n"), seq(("lit", "  "), ("ref", "remark"))),
                                  ("star", seq(("plus", margin), ("ref", "remark"))), ("plus", margin))
        while self.pending:
            key, name_ = self.pending.pop(0)
            self.rules[name_] = getattr(self, key[0])(*key[1:])
        self.prune()

    # -- names of rules

    @cache
    def use(self, key):
        kind, a, *more = key
        base = f"{kind if kind == 'operand' else a}".lower().replace("_", "-")
        if kind == "layout":
            level, entry = more[:2]
            base += f"-{level}" if level else ""
            base += "" if entry == START else "-then"
        elif kind == "tails":
            base += f"-more-{more[0]}" if more[0] else "-more"
        elif more and more[0]:
            base += "-in"
        name, n = base, 2
        while name in self.rules or name in [x for _, x in self.pending]:
            name, n = f"{base}-{n}", n + 1
        self.pending.append((key, name))
        self.rules[name] = EMPTY
        return ("ref", name)

    # -- between two tokens

    def space(self, prev, following, inside, exact=None):
        """What may stand between a token of `prev` and one of `following`; `inside` brackets or not."""
        wide = bool(prev & self.words and following & self.words)
        breaks = bool(prev & {",", ";", "ARROW"} or (inside and prev & self.arithmetic))
        closes = following <= {")", "]", ",", ";", ":"} or prev <= {"(", "["} or following <= {"DOTDOT"} or prev <= {"DOTDOT"}
        calls = following <= {"(", "["} and prev <= {"NAME", ")", "]"} or exact == "call"
        if closes or calls:
            return ()
        empty = not wide and not prev <= {",", ";"}
        x = alt(("lit", " "), ("ref", "break")) if breaks else ("lit", " ")
        return (("opt", x),) if empty else (x,)

    # -- symbols that stand within a line

    def symbol(self, s, inside):
        if s in self.p.terminals:
            if s in self.tokens and s in ("NAME", "CONST", "UPDATE"):
                return self.use(("token", s))
            return ("lit", self.p.spelling.get(s, s))
        if self.p.is_chain(s):
            return self.use(("chain", s, inside, frozenset()))
        return self.use(("inline", s, inside))

    def token(self, s):
        return self.tokens[s]

    def variants(self, rhs):
        """The right-hand side with and without each symbol that may be empty (and is no matter of lines)."""
        choices = [((s,), ()) if s in self.p.nullable and s not in self.p.layout else ((s,),) for s in rhs]
        return [tuple(itertools.chain.from_iterable(c)) for c in itertools.product(*choices)]

    def unfolded(self, a):
        """The alternatives of `a`, none empty, with what may stand first written out."""
        result = []
        for rhs, _ in self.p.rules[a]:
            for v in self.variants(rhs):
                s = v[0] if v else None
                plain = s in self.p.rules and s not in self.p.layout and not self.p.lists(s)[1]
                result.extend([head + v[1:] for head in self.unfolded(s)] if plain else [v] if v else [])
        return list(dict.fromkeys(result))

    def sequence(self, rhs, inside, prev=None):
        """The symbols with what stands between them, as a tuple."""
        parts, depth = [], 0
        for s in rhs:
            closing = s in (")", "]", "}")
            if prev is not None:
                last, call = prev
                parts.extend(self.space(last, self.p.first[s], inside or depth > 0,
                                        "call" if call and s in ("(", "[") else None))
            depth -= closing
            within = inside or depth > 0
            parts.append(self.symbol(s, within))
            depth += s in ("(", "[", "{")
            prev = (self.p.last[s], s == "NAME" or s in self.p.rules)
        return tuple(parts)

    def inline(self, a, inside):
        bases, tails = self.p.lists(a)
        if not tails:
            return factored([self.sequence(v, inside) for v in self.unfolded(a)])
        prev = (self.p.last[a], False)
        unfolded = []
        for t in tails:
            unfolded.extend(self.unfolded(t[0]) if len(t) == 1 and t[0] in self.p.rules else [t])
        tail = factored([self.sequence(t, inside, prev) for t in unfolded])
        begin = [v for b in bases for v in self.variants(b) if v] or unfolded
        return seq(factored([self.sequence(b, inside) for b in begin]), ("star", tail))

    # -- expressions: operands, and operators by precedence

    def operand(self, a, inside):
        atoms, posts = [], []
        for rhs, _ in self.p.rules[a]:
            if rhs[0] == a and rhs[-1] != a:
                posts.append(rhs[1:])
            elif rhs[0] != a and rhs[-1] != a:
                atoms.extend(v for v in self.variants(rhs))
        post = factored([self.sequence(v, inside, (self.p.last[a], True)) for rhs in posts for v in self.variants(rhs)])
        # The formatter keeps a blank between a constant and its subscript.
        others = factored([self.sequence(v, inside) for v in atoms if v != ("CONST",)])
        const = seq(self.symbol("CONST", inside), ("opt", seq(("lit", " "), post, ("star", post))))
        return alt(seq(others, ("star", post)), const)

    def chain(self, a, inside, used):
        """`used`: the levels of operators that do not associate and were met since an operator of a lower level."""
        highest = max(self.p.precedence[r[1]][0] for r, _ in self.p.rules[a] if len(r) > 1 and r[0] == a and r[-1] != a)
        parts = []
        rest = []
        for rhs, by in self.p.rules[a]:
            if len(rhs) < 2 or rhs[-1] != a:
                continue
            op = rhs[-2]
            level, assoc = self.p.precedence[by or op]
            assert level < highest, "a subscript binds closest"
            below = frozenset(k for k in used if k < level)
            if len(rhs) == 2:
                gap = (("lit", " "),) if op in self.words else ()
                parts.append((self.symbol(op, inside), *gap, self.use(("chain", a, inside, below))))
            elif assoc != "nonassoc" or level not in used:
                then = below | ({level} if assoc == "nonassoc" else set())
                rest.append((*self.space(self.p.last[a], {op}, inside), self.symbol(op, inside),
                             *self.space({op}, self.p.first[a], inside), self.use(("chain", a, inside, then))))
        return alt(factored(parts), seq(self.use(("operand", a, inside)), factored([*rest, ()])))

    # -- lines

    def layout(self, a, level, entry, leave, prev, some=False):
        """Texts of `a` from one state to another; a list has `some` elements where it makes up a block."""
        bases, tails = self.p.lists(a)
        if some and () in bases:
            bases = [b for b in bases if b] + tails
        found = []
        for rhs in bases:
            for v in self.variants(rhs):
                for parts, state in self.lines(v, level, entry, prev):
                    if tails:
                        found.append((*parts, self.use(("tails", a, level, state, leave, frozenset(self.p.last[a])))))
                    elif state == leave:
                        found.append(parts)
        return factored(found) if found else None

    def tails(self, a, level, entry, leave, prev):
        found = [()] if entry == leave else []
        for rhs in self.p.lists(a)[1]:
            for v in self.variants(rhs):
                for parts, state in self.lines(v, level, entry, prev):
                    found.append((*parts, self.use(("tails", a, level, state, leave, prev))))
        return factored(found) if found else None

    def is_block(self, rhs, at):
        return rhs[at] == "{" and at + 1 < len(rhs) and rhs[at + 1] in self.p.layout

    def lines(self, rhs, level, state, prev):
        """The ways to write the symbols from a state: (parts, the state behind them)."""
        ways = [((), state, level, prev, 0)]
        blocks = [i for i in range(len(rhs)) if self.is_block(rhs, i)]
        closes = [rhs.index("}", i) for i in blocks]
        for i, s in enumerate(rhs):
            then = []
            for parts, st, lv, last, depth in ways:
                if s == "NEWLINE":
                    if st == MID:
                        then.append(((*parts, ("ref", "eol")), START, lv, None, depth))
                elif s in ("INDENT", "DEDENT"):
                    lv += 1 if s == "INDENT" else -1
                    if st == START and lv <= 1 + LEVELS:
                        then.append((parts, START, lv, None, depth))
                elif i in blocks:
                    then.append(((*parts, ("lit", " {"), ("ref", "eol")), START, lv + 1, None, depth))
                elif i in closes:
                    if st == START:
                        then.append(((*parts, *self.margin(lv - 1), ("lit", "}")), MID, lv - 1, {"}"}, depth))
                elif s in self.p.layout:
                    for leave in (START, MID):
                        some = i > 0 and rhs[i - 1] == "INDENT"
                        key = ("layout", s, lv, st, leave, frozenset(last) if st == MID else None, some)
                        then.append(((*parts, self.use(key)), leave, lv, self.p.last[s], depth))
                else:
                    depth -= s in (")", "]", "}")
                    before = self.margin(lv) if st == START else self.space(set(last), self.p.first[s], depth > 0,
                                                                           "call" if s == "(" else None)
                    then.append(((*parts, *before, self.symbol(s, depth > 0)), MID, lv, self.p.last[s],
                                 depth + (s in ("(", "[", "{"))))
            ways = then
        return [(parts, st) for parts, st, _, _, _ in ways]

    def margin(self, level):
        return (("lit", " " * (SPACES * level)),) if level else ()

    # -- tidying

    def prune(self):
        """Drops what derives nothing, then what nothing refers to; a rule that is another's name is replaced by it."""
        def cleaned(x, dead):
            kind = x[0]
            if kind == "ref":
                return None if x[1] in dead else x
            if kind in ("lit", "class"):
                return x
            parts = [cleaned(p, dead) for p in x[1:]]
            if kind == "alt":
                parts = [p for p in parts if p]
                return alt(*parts) if parts else None
            if kind == "seq":
                return None if None in parts else seq(*parts) if parts else EMPTY
            return (kind, parts[0]) if parts[0] else EMPTY

        dead = {n for n, x in self.rules.items() if x is None}
        while True:
            self.rules = {n: cleaned(x, dead) for n, x in self.rules.items() if n not in dead}
            new = {n for n, x in self.rules.items() if x is None} | self.endless()
            if not new:
                break
            dead |= new
        empty = {n for n, x in self.rules.items() if x == EMPTY}
        self.rules = {n: without(x, empty) for n, x in self.rules.items()}
        self.merge()
        seen, todo = {"root": None}, ["root"]
        while todo:
            for r in references(self.rules[todo.pop(0)]):
                if r not in seen:
                    seen[r] = None
                    todo.append(r)
        self.rules = {n: self.rules[n] for n in seen}

    def merge(self):
        """One rule for all that say the same, and none that only names another."""
        while True:
            by_body, same = {}, {}
            for n, x in self.rules.items():
                if x[0] == "ref":
                    same[n] = x[1]
                elif by_body.setdefault(x, n) != n:
                    same[n] = by_body[x]
            if not same:
                return
            self.rules = {n: renamed(x, same) for n, x in self.rules.items() if n not in same}

    def endless(self):
        """Rules from which no text comes to an end."""
        good = set()

        def ends(x):
            if x is None:
                return False
            if x[0] == "ref":
                return x[1] in good
            if x[0] == "alt":
                return any(ends(p) for p in x[1:])
            return x[0] in ("lit", "class", "opt", "star") or all(ends(p) for p in x[1:])

        while new := {n for n, x in self.rules.items() if n not in good and ends(x)}:
            good |= new
        return set(self.rules) - good


def without(x, empty):
    if x[0] == "ref":
        return EMPTY if x[1] in empty else x
    if x[0] in ("lit", "class"):
        return x
    parts = [without(p, empty) for p in x[1:]]
    return seq(*parts) if x[0] == "seq" else alt(*parts) if x[0] == "alt" else (x[0], parts[0])


def renamed(x, same):
    if x[0] == "ref":
        name = x[1]
        while name in same:
            name = same[name]
        return ("ref", name)
    return x if x[0] in ("lit", "class") else (x[0], *(renamed(p, same) for p in x[1:]))


def references(x):
    if x[0] == "ref":
        yield x[1]
    elif x[0] not in ("lit", "class"):
        for p in x[1:]:
            yield from references(p)


# ---- The two notations


def in_class(c, form):
    if form == "ebnf":
        return f"#x{ord(c):X}" if ord(c) < 33 or c in "]#^-" else c
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "]": "\\]", "[": "\\["}
    return named.get(c) or (f"\\x{ord(c):02X}" if ord(c) < 32 else c)


def literal(text, form):
    if form == "gbnf":
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    pieces = [p for p in re.split(r"(\n)", text) if p]
    return " ".join("#xA" if p == "\n" else f"'{p}'" if '"' in p else f'"{p}"' for p in pieces)


def printed(x, form, tight=False):
    kind = x[0]
    if kind == "lit":
        return literal(x[1], form)
    if kind == "class":
        parts = sorted(x[2], key=lambda r: r == ("-", "-"))  # a dash that is no range stands last
        ranges = "".join(in_class(a, form) if a == b else f"{in_class(a, form)}-{in_class(b, form)}" for a, b in parts)
        return f"[{'^' if x[1] else ''}{ranges}]"
    if kind == "ref":
        return x[1]
    if kind == "seq":
        text = " ".join(printed(p, form, p[0] == "alt") for p in x[1:]) or '""'
        return f"({text})" if tight and len(x) != 2 else text
    if kind == "alt":
        text = " | ".join(printed(p, form) for p in x[1:])
        return f"({text})" if tight else text
    sign = {"opt": "?", "star": "*", "plus": "+"}[kind]
    inner = printed(x[1], form, True)
    return (f"({inner})" if x[1][0] in ("opt", "star", "plus") else inner) + sign


def document(grammar, form):
    note = f"Formatted .sketch files: {SPACES} spaces a level, at most {LEVELS} blocks one in another. From the parser's grammar."
    head = f"# {note}\n" if form == "gbnf" else f"/* {note} */\n"
    return head + "".join(f"{n} ::= {printed(x, form)}\n" for n, x in grammar.rules.items())


def c_string(text):
    def escaped(line):
        return "".join(c if " " <= c < "\x7f" and c not in '"\\?' else f"\\{ord(c):03o}" for c in line)

    return "\n".join(f'    "{escaped(line)}"' for line in text.splitlines(keepends=True))


def main():
    xml, source, scanner, output = map(pathlib.Path, sys.argv[1:])
    grammar = Grammar(Parser(xml, source.read_text()), *read_scanner(scanner.read_text()))
    lines = ["/* Made by grammar.py. */"]
    for form in ("gbnf", "ebnf"):
        lines.append(f"static const char {form}_text[] =\n{c_string(document(grammar, form))};")
    output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
