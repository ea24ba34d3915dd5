"""What torch.compile's modes add: regions that are measured (max-autotune), graphs that are replayed (reduce-overhead)."""
import logging
import statistics
import time

import torch

log = logging.getLogger("sketchc.torch")
WARM, RUNS = 2, 7


# ---- Measuring ----

def _on_gpu(args):
    return any(isinstance(a, torch.Tensor) and a.is_cuda for a in args)


def _elapsed(function, args, gpu):
    if not gpu:
        start = time.perf_counter()
        function(*args)
        return time.perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    function(*args)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1e3


def measured(ways, args):
    """Seconds of each way by name, in turns; a way that fails is not there."""
    gpu, times = _on_gpu(args), {}
    for name, way in ways.items():
        try:
            for _ in range(WARM):
                way(*args)
            times[name] = []
        except (RuntimeError, ValueError) as error:
            log.info("sketchc: %s fails and is left out: %s", name, error)
    for _ in range(RUNS):
        for name in times:
            times[name].append(_elapsed(ways[name], args, gpu))
    return {name: statistics.median(t) for name, t in times.items()}


class Tuned(torch.nn.Module):
    """Several ways to compute a region, by name, the one that is predicted to be the fastest first. The first call measures them on its tensors
    and keeps the fastest; within the capture of a CUDA graph nothing can be measured, and the first one runs."""

    def __init__(self, ways, region):
        super().__init__()
        self.ways, self.region, self.chosen = ways, region, None

    def forward(self, *args):
        if self.chosen is None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return next(iter(self.ways.values()))(*args)
        if self.chosen is None:
            self._choose(args)
        return self.chosen(*args)

    def _choose(self, args):
        with torch.no_grad():
            self.region.measured = measured(self.ways, args)
        fastest = min(self.region.measured, key=self.region.measured.get)
        self.region.chosen, self.chosen = fastest, self.ways[fastest]
        self.ways = {fastest: self.chosen}


# ---- Replaying ----

def _key(args):
    return tuple((a.shape, a.stride(), a.dtype, a.device) if isinstance(a, torch.Tensor) else a for a in args)


def _all_on_gpu(args):
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return bool(tensors) and all(a.is_cuda for a in tensors)


class _Capture:
    """One CUDA graph: of these arguments those that lie where they lay in the call before are read in place, the others from copies."""

    def __init__(self, function, args, kept):
        self.places = [a.data_ptr() if isinstance(a, torch.Tensor) and k in kept else None for k, a in enumerate(args)]
        self.held = [a if self.places[k] is not None or not isinstance(a, torch.Tensor) else a.clone(memory_format=torch.preserve_format)
                     for k, a in enumerate(args)]
        if any(isinstance(a, torch.Tensor) and a.stride() != held.stride() for a, held in zip(args, self.held, strict=True)):
            raise RuntimeError("a copy of an input with gaps lies otherwise than the input")
        self._record(function)

    def _record(self, function):
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = function(list(self.held))

    def fits(self, args):
        return all(place is None or args[k].data_ptr() == place for k, place in enumerate(self.places))

    def replay(self, args):
        for k, place in enumerate(self.places):
            if place is None and isinstance(args[k], torch.Tensor):
                self.held[k].copy_(args[k])
        self.graph.replay()
        return [r.clone() if isinstance(r, torch.Tensor) else r for r in self.results]


class Replayed:
    """A graph's callable of a list, replayed as one CUDA graph from the third call of each set of shapes on: the first compiles and warms up, by the second
    it shows which tensors (weights) stay where they are. A graph that cannot be captured, as one that waits for the GPU, runs as it is."""

    def __init__(self, function, most=16):
        self.function, self.most = function, most
        self.seen, self.captures, self.refused = {}, {}, set()
        self._boxed_call = True

    def __call__(self, args):
        key = _key(args)
        if key in self.refused or not _all_on_gpu(args):
            return self.function(args)
        capture = self.captures.get(key)
        if capture is not None and capture.fits(args):
            return capture.replay(args)
        return self._first_calls(key, args)

    def _first_calls(self, key, args):
        places = [a.data_ptr() if isinstance(a, torch.Tensor) else None for a in args]
        before = self.seen.get(key)
        self.seen[key] = places
        if before is None or len(self.captures) >= self.most:
            return self.function(args)
        kept = {k for k, place in enumerate(places) if place is not None and place == before[k]}
        try:
            self.captures[key] = _Capture(self.function, args, kept)
        except RuntimeError as error:
            log.warning("sketchc: no CUDA graph: %s", str(error).splitlines()[0])
            self.refused.add(key)
            return self.function(args)
        return self.captures[key].replay(args)
