"""Alters versions at random and has Python and Go read them: both refuse one, or both predict the same.

    python fuzz.py --minutes 20 --gauge bin/gauge --keep FOLDER [VERSION_FOLDER ...]     (make fuzz-versions MINUTES=20)

Each reads in a process of its own, whose end, whose memory and whose silence are findings, too. What the two disagree
about is kept below FOLDER. Given no versions, it alters hostile/base. """

import argparse
import collections
import hashlib
import json
import math
import pathlib
import random
import re
import sys
import tempfile
import time

import hostile

_NUMBER = re.compile(rb"-?[0-9][0-9.e+-]*")
_WORDS = [w.encode() for w in (
    "0 1 -1 2 7 255 256 2147483648 4294967295 9223372036854775807 -9223372036854775809 1e999 -1e999 1e-400 0x1p3 1_000 "
    "nan inf -0 0.5 1. .5 +1 007 null true false [] {} \"\" 1e5 1E5 0.1e-7 1e+00 9007199254740993 \u0662 1.5.2 - e 1e"
).split(" ")] + [b"", b" ", b"\n", b"\t", b"\x00", b"\xff", b"\xc2\xa0", b"\\ud800", b"\\u00e9", b"="]  # fmt: skip


def altered(rng, files):
    """The files with one of them altered in one to three places, and the checksums of what they hold then."""
    files = dict(files)
    name = rng.choice([*files, "model.txt", "features.json"])
    data = files[name]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if data:
            how = rng.choice((_bits, _bytes) if name.endswith(".arrow") else (_bytes, _lines, _number, _number, _values))
            data = how(rng, data)
    if name == "model.txt" and rng.random() < 0.7:
        data = _right_sizes(data)
    return resealed(files, name, data)


def resealed(files, name, data):
    """The files with another content of one of them, which version.json knows of."""
    files = dict(files)
    if name != "version.json":
        was, now = (
            b'"bytes": %d, "sha256": "%s"' % (len(d), hashlib.sha256(d).hexdigest().encode()) for d in (files[name], data)
        )
        files["version.json"] = files["version.json"].replace(was, now)
    return files | {name: data}


def _bits(rng, data):
    data = bytearray(data)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _bytes(rng, data):
    at = rng.randrange(len(data))
    more = bytes(rng.choice((rng.randrange(256), rng.choice(b"0123456789 .-e=\n\"{}[],:"))) for _ in range(rng.randrange(3)))
    return data[:at] + more + data[at + rng.randrange(3) :]


def _lines(rng, data):
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 1:
        lines.insert(i, lines[j])
    elif how == 2:
        del lines[i]
    else:
        lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]
    return b"\n".join(lines)


def _number(rng, data):
    """A number becomes another word, or one that lies near or elsewhere in the file."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    m, other = rng.choice(found), rng.choice(found)[0]
    new = rng.choice((rng.choice(_WORDS), other, b"%d" % rng.randrange(-3, 20), b"%.3g" % rng.gauss(0, 10), m[0] + b"0"))
    return data[: m.start()] + new + data[m.end() :]


def _values(rng, data):
    """A key or value of JSON, or a word of a line, is there twice, missing, or in another case."""
    parts = re.split(rb"([ ,:=]|(?<=\[)|(?=\]))", data)
    i = rng.randrange(len(parts))
    parts[i] = rng.choice((b"", parts[i] + b"," + parts[i], parts[i].swapcase(), parts[i] * 2, rng.choice(parts)))
    return b"".join(parts)


def _right_sizes(data):
    """Right tree_sizes, so that what is altered within a tree is seen."""
    begins = [m.start() for m in re.finditer(rb"^Tree=", data, re.M)] + [data.find(b"end of trees")]
    sizes = b" ".join(b"%d" % (b - a) for a, b in zip(begins, begins[1:]))
    return re.sub(rb"^tree_sizes=.*$", b"tree_sizes=" + sizes, data, count=1, flags=re.M)


def same(a, b):
    """Whether two answers are one: the same sum of leaves, and a score to 1e-12, or beyond 1 to 1e-9 of it."""
    if "raw" not in a or "raw" not in b:
        return set(a) == set(b)
    close = [(x, y, 0.0) for x, y in zip(a["raw"], b["raw"])]
    close += [(x, y, 1e-12 if abs(x) <= 1 else 1e-9 * abs(x)) for x, y in zip(a["scores"], b["scores"])]
    return all(x == y or math.isnan(x) and math.isnan(y) or abs(x - y) <= d for x, y, d in close)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=float, default=1)
    p.add_argument("--gauge", required=True, help="the program of bench/gauge")
    p.add_argument("--keep", default="build/fuzz-versions", help="where findings go")
    p.add_argument("--seed", type=int, default=int(time.time()))
    o = p.parse_args()

    starts = {"go": lambda: hostile.Child(o.gauge, "versions", str(hostile.ROWS)), "python": hostile.python}
    children = {which: start() for which, start in starts.items()}
    bases = [hostile.version(), *(files for _, read, files in hostile.cases() if read is not None)]
    rng, counts, findings, memory = random.Random(o.seed), collections.Counter(), 0, 0
    keep, end = pathlib.Path(o.keep), time.monotonic() + 60 * o.minutes
    with tempfile.TemporaryDirectory() as scratch:
        while time.monotonic() < end:
            files = altered(rng, rng.choice(bases[:1] + bases))
            folder, answers = hostile.written(files, scratch + "/v"), {}
            for which in children:
                try:
                    answers[which] = children[which].ask(folder)
                except RuntimeError as e:
                    answers[which], children[which] = {"died": str(e)}, starts[which]()
            memory = max(memory, answers["python"].get("memory", 0))
            for a in answers.values():
                a.pop("memory", 0), a.pop("seconds", 0)
            counts.update("+".join(sorted(a)) for a in answers.values())
            if not same(answers["go"], answers["python"]) or any("died" in a for a in answers.values()):
                findings += 1
                keep.mkdir(parents=True, exist_ok=True)
                hostile.written(files, keep / f"{o.seed}-{findings}")
                print(f"{keep}/{o.seed}-{findings}: {json.dumps(answers)[:1500]}", flush=True)
    for child in children.values():
        child.close()
    print(f"seed {o.seed}: {dict(counts)}, {findings} findings, at most {memory >> 10} MiB in Python")
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
