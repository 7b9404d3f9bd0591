"""The program that the wheel carries: it trains. The package itself only reads what the program writes."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, NoReturn

from .errors import Error, InputError, NotFoundError

_HERE = Path(__file__).parent / "bin"
_SCRATCH = "coppice-python-"  # begins the names of temporary folders
_MOST_LINES = 200  # of an error, the last ones
_CTRL_BREAK, _NEW_GROUP = 1, 0x200  # signal.CTRL_BREAK_EVENT, subprocess.CREATE_NEW_PROCESS_GROUP
_EXIT_INPUT, _EXIT_NOT_FOUND, _EXIT_INTERRUPTED = (2, 3), 4, 130


class TrainingError(Error):
    """The program could not train a model. The message is what it says on the command line."""


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """A temporary folder, for tables too. A process that is killed leaves its own, which the next one removes: nobody
    has it locked."""
    if os.name == "nt":
        with tempfile.TemporaryDirectory(prefix=_SCRATCH) as folder:
            yield folder
        return
    import fcntl

    for lock in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/lock"):
        with contextlib.suppress(OSError), lock.open("r+") as left:  # another user's, or one that is in use
            fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as folder, open(f"{folder}/new", "w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        os.rename(mine.name, f"{folder}/lock")  # others see it from here on, and it is locked
        yield folder


def own() -> Path | None:
    """The wheel's program, None if the package is used without."""
    program = _HERE / ("coppice.exe" if os.name == "nt" else "coppice")
    return program if program.is_file() else None


def path() -> str:
    """The program: the wheel's, or else launcher on the PATH.

    Raises:
        NotFoundError: there is none.
    """
    wheels = own()
    found = str(wheels) if wheels is not None else shutil.which("launcher")
    if not found:
        raise NotFoundError(
            "this installation of coppice has no program to train with: install the wheel coppice-ml for this "
            "platform, or build the programs (make build) and put them on the PATH"
        )
    return found


def run(
    args: list[str], on_line: Callable[[dict[str, Any]], None] | None = None, names: dict[str, str] | None = None
) -> dict[str, Any]:
    """Runs a command with --json and returns its last object; on_line gets each as it comes. In what an error says,
    names replaces texts that mean nothing to the caller, such as a temporary file's name.

    Raises:
        InputError: the table or a setting is wrong. NotFoundError: something is missing.
        TrainingError: anything else.
        KeyboardInterrupt: once the program has ended, too.
    """
    command = [path(), *args, "--json"]
    last: dict[str, Any] = {}
    pipe = subprocess.PIPE
    # On Windows only a process that leads a group can be asked to end, by Ctrl-Break instead of Ctrl-C.
    group: dict[str, Any] = {"creationflags": _NEW_GROUP} if os.name == "nt" else {}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", errors="replace", **group) as p:
        said_lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        reader = threading.Thread(target=lambda: said_lines.extend(p.stderr or ()), daemon=True)
        reader.start()  # beside the output, so that neither fills up
        try:
            for line in p.stdout or ():
                try:
                    last = json.loads(line)
                except ValueError:
                    continue
                if on_line is not None:
                    on_line(last)
            p.wait()
        except BaseException:
            try:
                p.send_signal(_CTRL_BREAK if os.name == "nt" else signal.SIGINT)
                p.wait(30)
            except (subprocess.TimeoutExpired, OSError):  # without a console there is no Ctrl-Break
                p.kill()
            raise
        reader.join(5)
    said = "".join(said_lines).strip()
    for text, other in (names or {}).items():
        said = said.replace(text, other)
    if p.returncode != 0:
        _fail(p.returncode, said)
    return last


def tell(args: list[str], folder: str | None) -> str:
    """Runs a command in the local cloud of a folder, or in that of the environment, and returns what it says."""
    env = dict(os.environ)
    if folder is not None:  # whatever cloud the environment names
        env = {k: v for k, v in env.items() if not k.startswith("COPPICE_")} | {"COPPICE_LOCAL": folder}
    done = subprocess.run([path(), *args], capture_output=True, text=True, encoding="utf-8", env=env, check=False)
    if done.returncode != 0:
        _fail(done.returncode, done.stderr.strip())
    return done.stdout


def _fail(code: int, said: str) -> NoReturn:
    message = said.removeprefix("launcher: ").removeprefix("coppice: ")[:4000] or f"the program ended with status {code}"
    if code == _EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if code in _EXIT_INPUT:
        raise InputError(message)
    if code == _EXIT_NOT_FOUND:
        raise NotFoundError(message)
    raise TrainingError(message)


def main() -> NoReturn:
    """The command coppice: the program with the arguments of this process."""
    try:
        program = path()
        if os.name == "posix":
            os.execv(program, [program, *sys.argv[1:]])
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
