"""Versions that no writer of Coppice made, and what becomes of them in a process of its own.

hostile/base is a version with every kind of feature, hostile/cases.json alters one of its files at a time, and
hostile/large.json makes one as large and as costly to refuse as it can be; the Go programs read the same cases
(bench/gauge/versions_test.go). As a program, it predicts rows with the versions whose
folders are on standard input, as `gauge versions` does: python hostile.py ROWS.csv. """

import hashlib
import json
import os
import pathlib
import re
import resource
import selectors
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.csv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
BASE, ROWS = HERE / "hostile" / "base", HERE / "hostile" / "base" / "rows.csv"
FILES = ("calibrator.json", "features.json", "levels.arrow", "model.txt")
MEMORY = 3 << 30  # of addresses, most of which the libraries reserve and do not use
SECONDS = 60.0  # of processor time for one version, and ten times as much on a machine that does other things as well
GROWTH = 256 << 10  # KiB by which all hostile versions together may raise the process's memory


def cases(table="cases.json"):
    """The altered versions: name, what is predicted (None where it is refused), and files by name."""
    for case in json.loads((HERE / "hostile" / table).read_text()):
        yield case["name"], case.get("read"), version(case)


def version(case=None):
    """The files of the base as a case alters them; version.json has the lengths and checksums of the others."""
    files = {p.name: p.read_bytes() for p in BASE.iterdir() if p != ROWS}
    case = case or {"file": "version.json", "from": "", "to": ""}
    name, data = case["file"], files[case["file"]]
    if "hex" in case:
        new = bytes.fromhex(case["hex"])
        data = data[: case["at"]] + new + data[case["at"] + len(new) :]
    elif "remove" not in case:
        more, times = case.get("times", ["", 0])
        to = text(case["to"] + more * times + case.get("end", ""))
        data = to if case.get("whole") else data.replace(text(case["from"]), to, 1)
        for old, new in case.get("then", []):
            data = data.replace(text(old), text(new), 1)
    files[name] = data
    if case.get("remove"):
        del files[name]
    return sealed(files)


def text(s):
    """The bytes of a text of a case, in which @ff@ is a byte that UTF-8 does not have."""
    return s.encode().replace(b"@ff@", b"\xff")


def sealed(files):
    """The files with the lengths and checksums of what they hold."""
    files = dict(files)
    for name in FILES if "version.json" in files else ():
        data = files.get(name, b"")
        for key, value in (("bytes", str(len(data))), ("sha256", hashlib.sha256(data).hexdigest())):
            files["version.json"] = files["version.json"].replace(f"@{name}.{key}@".encode(), value.encode())
    return files


class Child:
    """A process that reads folders of versions from its standard input and answers each with a line of JSON."""

    def __init__(self, *command, memory=0):
        def limit():
            os.nice(10)
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit
        )
        self._ready = selectors.DefaultSelector()
        self._ready.register(self.process.stdout, selectors.EVENT_READ)

    def ask(self, folder):
        """The answer. RuntimeError says that the process died or took too long, which ends it."""
        try:
            self.process.stdin.write(f"{folder}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line, end, used = b"", time.monotonic() + 10 * SECONDS, self._used() + SECONDS
        while not line.endswith(b"\n"):
            if not self._ready.select(1):
                if time.monotonic() < end and self._used() < used:
                    continue
                self.close()
                raise RuntimeError(f"no answer in {SECONDS} s")
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            if not some:
                self.process.wait()
                said = self.process.stderr.read().decode(errors="replace").strip()[-300:]
                raise RuntimeError(f"the process ended with {self.process.returncode}: {said}")
            line += some
        return json.loads(line)

    def _used(self):
        """The seconds of processor time that the process has used."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self):
        """Ends the process."""
        self.process.kill()
        self.process.communicate()
        self._ready.close()


def python():
    """A child with this package."""
    return Child(sys.executable, "-W", "ignore", str(HERE / "hostile.py"), str(ROWS), memory=MEMORY)


def written(files, folder):
    """Writes the files into a folder and returns it."""
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    for p in folder.iterdir():
        p.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def memory():
    """The most KiB of memory that this process has had. getrusage has that of the one that started it, too."""
    try:
        return int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path("/proc/self/status").read_text())[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(rows):
    sys.modules["lightgbm"] = None  # to import it fails: the package does without
    import coppice

    names = pyarrow.csv.open_csv(rows).schema.names
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    table = pyarrow.csv.read_csv(rows, convert_options=convert)
    for line in sys.stdin:
        answer, before = {}, time.process_time()
        try:
            model = coppice.Model.load(line.rstrip("\n"))
            answer |= {"raw": model.predict(table, raw=True).tolist(), "scores": model.predict(table).tolist()}
        except (coppice.CorruptError, coppice.NotFoundError) as e:
            answer["refused"] = str(e)
        except coppice.InputError:
            answer["odd"] = "input"
        answer |= {"memory": memory(), "seconds": time.process_time() - before}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
