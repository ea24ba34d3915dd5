"""Calls timed on a GPU in turn: a sample is a burst of launches in a row, between two events."""


def burst(torch, call, count):
    """The events around `count` calls; their time is known once the device has passed both."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    return begin, end


def in_turn(torch, calls, seconds, rounds, first):
    """Seconds of one call by name, a sample a round; a burst takes about `seconds`, by the time of the `first` calls. The order is turned each
    round; a round before all is not counted."""
    names, counts = list(calls), {}
    for name, call in calls.items():
        call()
        begin, end = burst(torch, call, first)
        torch.cuda.synchronize()
        counts[name] = max(1, round(seconds * first / (begin.elapsed_time(end) * 1e-3)))
    samples = []
    for turn in range(rounds + 1):
        order = names[turn % len(names):] + names[:turn % len(names)]
        samples.append({name: burst(torch, calls[name], counts[name]) for name in order})
    torch.cuda.synchronize()
    return {name: [s[name][0].elapsed_time(s[name][1]) * 1e-3 / counts[name] for s in samples[1:]] for name in names}
