"""What the tests of the Python package share: they set it up, and run."""
import os
import sys
import traceback


def use_package():
    """Takes the library and the package of the command line."""
    os.environ["SKETCHC_LIBRARY"] = sys.argv[1]
    sys.path.insert(0, sys.argv[2])


def refused(words, call, *arguments, kind=None, **named):
    """The call raises `kind` (InputError) with the words; the exception."""
    import sketchc
    try:
        call(*arguments, **named)
    except kind or sketchc.InputError as error:
        assert words in str(error), f"{words!r} is not in {error}"
        return error
    raise AssertionError(f"nothing was refused, expected: {words}")


def run(names):
    """Runs what is called test_*, and ends the program."""
    tests = {name: test for name, test in names.items() if name.startswith("test_")}
    failed = 0
    for name, test in tests.items():
        try:
            test()
            print(f"ok {name}")
        except Exception:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"not ok {name}")
    print(f"{len(tests) - failed} of {len(tests)} passed")
    sys.exit(failed > 0)
