"""What `gauge regret` and peers wrote as a table: mean normalised regret with its standard error.

python3 regret_table.py FILE...

The regret is (best - found) / (best - median), twice: with the reference as best, below which a search can come, and with
the best that any search in the table has found."""

import json
import statistics
import sys


def rows(searches):
    """The rows of the table, by method, trials and batch in the order in which they come."""
    median = {s["task"]: s["median"] for s in searches if "median" in s and "best" in s}
    reference = {s["task"]: s["best"] for s in searches if "median" in s and "best" in s}
    for s in searches:
        if s["task"] not in median:
            sys.exit(f"nothing says what the median of {s['task']} is; give the file of `gauge regret`, too")
    shared = {t: max([best, *(x for s in searches if s["task"] == t for x in s["found"])]) for t, best in reference.items()}
    ways = {}
    for s in searches:
        way = ways.setdefault((s["method"], s["trials"], s["batch"]), ([], [], []))
        for regrets, best in ((way[0], reference[s["task"]]), (way[1], shared[s["task"]])):
            regrets += [(best - x) / (best - median[s["task"]]) for x in s["found"]]
        way[2].append(s.get("ms_per_proposal", 0.0))
    for (method, trials, batch), (of_reference, of_shared, millis) in ways.items():
        cells = [method, str(trials), str(batch)]
        for values in (of_reference, of_shared):
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            cells += [f"{statistics.mean(values):.4f}", f"{error:.4f}"]
        yield [*cells, f"{statistics.mean(millis):.1f}".removesuffix(".0")]


def main():
    searches = [json.loads(line) for name in sys.argv[1:] for line in open(name, encoding="utf-8")]
    print(
        "| method | trials | at once | regret against the reference | standard error | against the best of all "
        "| standard error | ms per proposal |\n|---|---|---|---|---|---|---|---|"
    )
    for row in rows(searches):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
