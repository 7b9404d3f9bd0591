"""What the scripts beside this one share: calls in order, each with its name and its time, and
refusals that are counted as right only if they say what they refuse."""

import contextlib
import re
import sys
import time

from google.api_core import exceptions

SLOWEST = 20  # seconds: a client that retries for longer has been given the wrong code


@contextlib.contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}, and nothing was raised")


def refused(call, pattern, *kinds):
    """call is refused with words that match, and with a code that says it will be refused again."""
    kinds = kinds or (exceptions.MethodNotImplemented, exceptions.BadRequest)
    try:
        call()
    except kinds as e:
        if not re.search(pattern, str(e)):
            raise AssertionError(f"refused with {e!s}, expected words that match {pattern!r}") from e
        return
    raise AssertionError(f"expected a refusal that matches {pattern!r}, and it was done")


def client_main(names):
    """Run every test_* in the order in which it is written, and end with 1 if one fails."""
    failed = 0
    tests = [(name, f) for name, f in names.items() if name.startswith("test_")]
    for name, f in tests:
        began = time.monotonic()
        try:
            f()
            took = time.monotonic() - began
            if took > SLOWEST:
                raise AssertionError(f"it took {took:.0f} s")
            print(f"ok   {name}")
        except Exception as e:  # noqa: BLE001 - whatever a client raises is the finding
            failed += 1
            print(f"FAIL {name}: {type(e).__name__}: {e}")
    print(f"{len(tests) - failed} of {len(tests)}")
    sys.exit(failed > 0)
