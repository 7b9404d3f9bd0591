"""How a measurement is taken: every one in a fresh process, on processors that are said, with its memory if asked for.

A time that is to be compared is taken next to its counterpart: ours, theirs, ours, theirs. What is
compared is the ratio within such a pair, so that a machine that is slower at one hour than at
another slows down both. """

import ctypes
import dataclasses
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import tempfile
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 0.1


class Failed(Exception):
    """A measured program that did not end well; the message has the end of what it said."""


def adopt_orphans():
    """Makes this process the parent of grandchildren whose parents end (daemons), so that memory is counted for all."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def training(programs, dataset, params, threads=1, *more):
    """The command that trains one configuration on a staged dataset; its trees are not rated."""
    command = [programs + "/task", "train", "--dataset", dataset, "--params", params, "--threads", str(threads)]
    return [*command, "--json", "--no-rate", *more]


def processors(count):
    """The last processors that this process may use: the first ones serve interrupts."""
    usable = sorted(os.sched_getaffinity(0))
    if count > len(usable):
        raise Failed(f"{count} processors are needed, {len(usable)} may be used")
    return usable[-count:]


def rollup(pid):
    """Memory of one process in bytes by the names of /proc/PID/smaps_rollup; empty once it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            lines = f.read().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {words[0][:-1]: int(words[1]) << 10 for words in map(str.split, lines)}


def started():
    """Ids of all processes that this one has started, and those started."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], children.get(os.getpid(), [])
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def end_leftovers():
    """Ends what a measured program left running, such as daemons, so that it does not slow the next one."""
    for pid in started():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def told(pid, what):
    try:
        with open(f"/proc/{pid}/{what}") as f:
            return f.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "?"


def name_of(pid):
    return told(pid, "comm")


def command_line(pid):
    return told(pid, "cmdline")


class Sampler(threading.Thread):
    """Looks every 100 ms at the memory of everything that this process has started, itself not counted.

    peak_pss is the largest sum of proportional set sizes: private memory, and of shared memory each
    process's share, so that what several have mapped counts once. anonymous is the largest private
    memory (heap, stacks) of each process. A patient one looks less often where looking takes long,
    as it does at mappings of many GiB, so that at most a twentieth of a processor goes into it. """

    def __init__(self, patient=False):
        super().__init__(daemon=True)
        self.patient = patient
        self.stop, self.own = threading.Event(), command_line(os.getpid())
        self.peak_pss, self.at_peak, self.anonymous, self.samples = 0, {}, {}, 0

    def run(self):
        pause = SAMPLE_SECONDS
        while not self.stop.wait(pause):
            start = time.perf_counter()
            self.look()
            if self.patient:
                pause = max(SAMPLE_SECONDS, 20 * (time.perf_counter() - start))

    def look(self):
        total, parts = 0, {}
        for pid in started():
            if command_line(pid) == self.own:  # forked, and not yet the program that it is to become
                continue
            memory = rollup(pid)
            if not memory:
                continue
            self.anonymous[pid] = max(self.anonymous.get(pid, 0), memory["Anonymous"])
            total += memory["Pss"]
            name = name_of(pid)
            parts[name] = parts.get(name, 0) + memory["Pss"]
        self.samples += 1
        if total > self.peak_pss:
            self.peak_pss, self.at_peak = total, parts

    def finish(self):
        self.stop.set()
        self.join()


@dataclasses.dataclass
class Run:
    """What a program printed, its seconds from start to end, and the processors' seconds that it used."""

    out: str
    seconds: float
    cpu_seconds: float
    sampler: object = None


class Process:
    """A program in a session of its own, pinned to some processors, its output kept in files."""

    def __init__(self, argv, cpus, env=None, cwd=None):
        self.argv, self.out, self.err = argv, tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.start = time.perf_counter()
        self.popen = subprocess.Popen(
            argv,
            stdout=self.out,
            stderr=self.err,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            start_new_session=True,
            env=dict(os.environ, **(env or {})),
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )

    def wait(self):
        """What it printed and took. A Failed says what went wrong, with the end of what it printed."""
        try:
            _, status, used = os.wait4(self.popen.pid, 0)
        except BaseException:
            os.killpg(self.popen.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - self.start
        code = self.popen.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        if code:
            raise Failed(f"{' '.join(self.argv)}: exit code {code}\n{texts[0][-2000:]}\n{texts[1][-4000:]}")
        return Run(texts[0], seconds, used.ru_utime + used.ru_stime)


def run(argv, cpus, env=None, cwd=None, memory=False):
    """Runs one program, alone; with memory its Run has a Sampler."""
    p = Process(argv, cpus, env, cwd)
    sampler = Sampler()
    if memory:
        sampler.start()
    try:
        done = p.wait()
    finally:
        if memory:
            sampler.finish()
        end_leftovers()
    done.sampler = sampler
    return done


def last_json(run):
    """The object on the last line of what a program printed."""
    lines = run.out.strip().splitlines()
    if not lines:
        raise Failed("a measured program printed nothing")
    return json.loads(lines[-1])


def spread(values):
    """Median, least and largest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def machine():
    """What a number means nothing without."""
    facts = {}
    with open("/proc/cpuinfo") as f:
        for line in f:
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    with open("/proc/meminfo") as f:
        ram = int(f.readline().split()[1]) << 10
    return {
        "cpu": facts.get("model name", platform.machine()),
        "family": facts.get("cpu family", "?"),
        "model": facts.get("model", "?"),
        "cores": len(os.sched_getaffinity(0)),
        "ram_gib": round(ram / 2**30, 1),
        "kernel": platform.release().split("-")[0],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def commit():
    """The commit that is measured, marked when files differ from it."""

    def git(*args):
        return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if git("status", "--porcelain") else "")
