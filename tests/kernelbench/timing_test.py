#!/usr/bin/env python3
"""bench/timing.py with a device whose time passes only in calls: timing_test.py BENCH."""
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(sys.argv[1])))
from timing import in_turn  # noqa: E402


class Device:
    """What timing.py asks of torch."""

    def __init__(self):
        self.now, self.called = 0, ""
        device = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = device.now

            def elapsed_time(self, end):
                return end.at - self.at

        self.cuda = types.SimpleNamespace(Event=Event, synchronize=lambda: None)

    def call(self, name, milliseconds):
        def run():
            self.now += milliseconds
            self.called += name
        return run


device = Device()
times = in_turn(device, {"a": device.call("a", 1), "b": device.call("b", 2)}, 4e-3, 2, first=3)
assert device.called == "aaaa" "bbbb" "aaaabb" "bbaaaa" "aaaabb", device.called
assert times == {"a": [1e-3, 1e-3], "b": [2e-3, 2e-3]}, times
long = in_turn(device, {"c": device.call("c", 50)}, 4e-3, 1, first=1)
assert long == {"c": [5e-2]}, long
