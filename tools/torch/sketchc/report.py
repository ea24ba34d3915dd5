"""What the backend did with a model: regions and their kernels, what was left to the nested backend and why."""

from .checking import predictions
from .errors import Error


class Region:
    """One operator: `name`, its text, the operations of its graph. `kernel` is None if it was refused, for which `diagnostic` stands.
    `target` and `arch` are what it was compiled for. `measured`: seconds of each way by name, where ways were measured, and `chosen`."""

    def __init__(self, name, operations, text="", target=None, arch=None):
        self.name, self.operations, self.text = name, operations, text
        self.kernel, self.diagnostic, self.target, self.arch = None, None, target, arch
        self.measured, self.chosen = {}, None

    def prediction(self):
        """What `explain` tells of the text; None where the machine has no model (processors), or the text is refused."""
        if self.target in (None, "cpu", "openmp"):
            return None
        try:
            return predictions(self.text, target=self.target, arch=self.arch)
        except Error:
            return None

    def predicted(self):
        """Seconds that the region should take and those of each kernel by name, at the sizes of its text; None where the machine has
        no model, or sizes are symbols."""
        found = self.prediction()
        cases = found["cases"] if found else []
        if not cases or not cases[0]["known"]:
            return None
        return cases[0]["seconds"], [(launch["entry"], launch["seconds"]) for launch in cases[0]["launches"]]

    def lines(self):
        found = self.predicted()
        time = "" if found is None else f", {found[0] * 1e3:.4g} ms predicted"
        yield f"{self.name}: {len(self.operations)} operations{time}: {summary(self.operations)}"
        for kernel, seconds in found[1] if found else []:
            yield f"  {kernel}: {seconds * 1e3:.4g} ms"
        if self.measured:
            yield "  measured: " + ", ".join(f"{way} {seconds * 1e3:.4g} ms" for way, seconds in self.measured.items()) + f"; {self.chosen} stays"


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
