"""The first minutes with the wheel, measured: from a CSV of raw rows with ids to calibrated predictions, by Python and
by the command. `make door` runs it in an environment that has only the wheel and what it needs."""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_SECONDS = 60


def left(folder: str) -> list[str]:
    """What lies in a folder that should be empty."""
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*"))


def peak() -> float:
    """MiB of the largest process so far, this one or a child."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def by_python(csv: str, minutes: float) -> None:
    """Three lines, in a process of its own so that its memory is its own."""
    import coppice
    from pyarrow import csv as reader

    table = reader.read_csv(csv)
    began = time.monotonic()
    model = coppice.Classifier(minutes=minutes, drop=["impression_id"]).fit(table, "is_click")
    p = model.predict_proba(table.drop_columns(["is_click"]))[:, 1]
    mean = sum(table.column("is_click").to_pylist()) / table.num_rows
    print(f"python   {time.monotonic() - began:5.1f} s, log_loss on test {model.metrics_['log_loss']:.5f}, mean "
          f"prediction {p.mean():.4f} of {mean:.4f}, largest process {peak():.0f} MiB")
    if not 0.8 < p.mean() / mean < 1.25:
        sys.exit("the predictions do not add up to the labels")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--clicks", required=True, help="the generator of the example's table")
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--minutes", type=float, default=0.5, help="that a search may take")
    p.add_argument("--python", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.python:
        by_python(a.python, a.minutes)
        return 0

    with tempfile.TemporaryDirectory() as work:
        temporary, csv = f"{work}/tmp", f"{work}/clicks.csv"
        os.mkdir(temporary)
        subprocess.run([a.clicks, "--rows", str(a.rows), "--out", csv], check=True, stdout=subprocess.DEVNULL)
        env = {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")} | {"TMPDIR": temporary}
        minutes = str(a.minutes)
        coppice = str(Path(sys.executable).parent / "coppice")

        began = time.monotonic()
        ours = [sys.executable, __file__, "--clicks", "", "--minutes", minutes, "--python", csv]
        subprocess.run(ours, check=True, env=env, cwd=work)
        took = [time.monotonic() - began]

        began = time.monotonic()
        fit = [coppice, "fit", csv, "--label", "is_click", "--drop", "impression_id", "--minutes", minutes]
        subprocess.run(fit, check=True, env=env, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([coppice, "predict", "--model", "clicks", "--in", csv, "--out", "scored.csv"], check=True,
                       env=env, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
        rows = sum(1 for _ in open(f"{work}/scored.csv")) - 1
        print(f"command  {took[1]:5.1f} s, {rows} rows scored, largest process {peak():.0f} MiB")
        if rows != a.rows or max(took) > MOST_SECONDS or left(temporary):
            print(f"want {a.rows} rows, at most {MOST_SECONDS} s, and nothing in {temporary}: {left(temporary)[:5]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
