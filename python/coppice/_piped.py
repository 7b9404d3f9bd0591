"""Trees scored by the wheel's program, from which numpy's scores differ in no bit and take several times as long.

A process lives for one call. It gets the model's text and the rows through a pipe; python/program/trees.go is its
side."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable

import numpy as np

# Rows times leaves of the model from which it pays to start a process: they take numpy about an eighth of a second, and
# the process about half of that until it has read the model.
WORTH = 1 << 29
_CHECKED = 64  # rows that numpy scores, too
_SAID = 500  # bytes of stderr's end, whose last line says why


class Failed(Exception):
    """The program has not scored the rows."""


def score(
    command: list[str], model: bytes, batches: Iterable[np.ndarray], out: np.ndarray, check: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Writes the raw scores of rows to out.

    Args:
        command: the program, with arguments. model: model.txt. batches: rows, float64 of shape (rows, features).
        out: float64, of shape (rows,) or (rows, outputs). check: scores the first rows, too.

    Raises:
        Failed: the program does not run, ends early, or scores otherwise than check.
    """
    first: list[np.ndarray] = []
    read, said = [0], [b""]

    def failed(what: object) -> Failed:
        why = said[0].decode(errors="replace").strip().splitlines()[-1:]
        return Failed(": ".join([command[0], str(what), *why]))

    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            assert p.stdin is not None and p.stdout is not None and p.stderr is not None

            def fill(source=p.stdout) -> None:
                read[0] = source.readinto(memoryview(out).cast("B"))
                while more := source.read(1 << 16):
                    read[0] += len(more)

            def listen(source=p.stderr) -> None:
                while more := source.read1(1 << 16):
                    said[0] = (said[0] + more)[-_SAID:]

            readers = [threading.Thread(target=target, daemon=True) for target in (fill, listen)]
            for reader in readers:
                reader.start()  # beside the writing, and until the end, so that no pipe fills up
            try:
                p.stdin.write(struct.pack("<Q", len(model)))
                p.stdin.write(model)
                for batch in batches:
                    if not first:
                        first.append(batch[:_CHECKED].copy())
                    p.stdin.write(memoryview(np.ascontiguousarray(batch, dtype="<f8")).cast("B"))
                p.stdin.close()
                for reader in readers:
                    reader.join()
            except BaseException:
                p.kill()
                with contextlib.suppress(OSError):  # of what is still to be written
                    p.stdin.close()
                for reader in readers:
                    reader.join()
                raise
    except OSError as e:
        raise failed(e) from e
    if p.returncode != 0 or read[0] != out.nbytes:
        raise failed(f"it ended with status {p.returncode} and {read[0]} of {out.nbytes} bytes")
    if first and out[: len(first[0])].tobytes() != check(first[0]).tobytes():
        raise Failed(f"{command[0]}: its scores are not those of numpy")
