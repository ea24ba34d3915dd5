"""What the backend did with a model: regions and their kernels, what was left to the nested backend and why."""


class Region:
    """One operator: `name`, its text, the operations of its graph, and where they came from. `kernel` is None if it was refused, for
    which `diagnostic` stands; `millis` is the predicted time, where the target has a model."""

    def __init__(self, name, operations, text="", kernel=None, diagnostic=None, millis=None):
        self.name, self.operations, self.text = name, operations, text
        self.kernel, self.diagnostic, self.millis = kernel, diagnostic, millis

    def lines(self):
        time = "" if self.millis is None else f", {self.millis:.4g} ms predicted"
        yield f"{self.name}: {len(self.operations)} operations{time}: {summary(self.operations)}"


class GraphReport:
    """One graph, forward or backward: `regions`, `left` (node name to operation and reason), `refusals` (texts that the compiler
    refused, with its diagnostic: these were cut smaller, or left)."""

    def __init__(self, name):
        self.name, self.regions, self.left, self.refusals, self.copies = name, [], {}, [], []

    @property
    def whole(self):
        """Whether no operation was left but those that only name tensors anew."""
        return not self.left

    def lines(self):
        yield f"{self.name}: {len(self.regions)} regions, {len(self.left)} operations left to the nested backend"
        for region in self.regions:
            for line in region.lines():
                yield "  " + line
        for name, (operation, why) in self.left.items():
            yield f"  left: {operation} ({name}): {why}"
        for region in self.refusals:
            yield f"  refused: {region.name} ({summary(region.operations)}): {first_line(region.diagnostic)}"


class Report:
    """All graphs that were compiled while it was open; `str(report)` is the text for people."""

    def __init__(self):
        self.graphs = []

    def __str__(self):
        return "\n".join(line for graph in self.graphs for line in graph.lines()) or "nothing was compiled"

    @property
    def whole(self):
        return bool(self.graphs) and all(graph.whole for graph in self.graphs)


def first_line(text):
    lines = [line for line in str(text).splitlines() if "error" in line] or str(text).splitlines() or [""]
    return lines[0]


def summary(operations):
    """`convolution, relu x 2, add`: names in the order of their first call."""
    counts = {}
    for name in operations:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(n if c == 1 else f"{n} x {c}" for n, c in counts.items())
