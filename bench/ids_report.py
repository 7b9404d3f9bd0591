"""What `make bench-ids` found as Markdown: one table per data table, one line per contestant, means over seeds."""

import statistics

from report import MIB, grouped

NAMES = {
    "coppice": "Coppice, defaults",
    "coppice-50": "Coppice, best of {trials}",
    "catboost": "CatBoost",
    "lightgbm": "LightGBM, native categories",
    "lightgbm-encoded": "LightGBM, rates of five folds",
    "xgboost": "XGBoost",
    "lightgbm-tuned": "LightGBM, best of 50",
}
REFERENCE = "catboost"
QUALITY = {"log_loss": "log loss", "auc": "AUC", "average_precision": "average precision"}
COLUMNS = [
    "trainer",
    "seeds",
    "log loss",
    "/ CatBoost",
    "AUC",
    "/ CatBoost",
    "average precision",
    "/ CatBoost",
    "before training, s",
    "training, s",
    "both / CatBoost",
    "processors, s",
    "/ CatBoost",
    "peak memory, MiB",
    "/ CatBoost",
    "trees",
]
READING = (
    "Means over seeds ± standard error; a trainer without anything drawn has the same model for every seed, and no error. Ratios of quality are means of ratios "
    'seed by seed (log loss: below 1 is better; AUC and average precision: above 1), those of time and memory are of medians. "Before training" is staging for Coppice; for '
    "the others reading the Parquet file, codes of categories and target encoding. Processors' seconds are of both. Memory is the peak of resident memory until training has ended; of a "
    "best of many, the sum of PSS over all processes, emulated cloud included."
)


def by_seed(records, value):
    """seed -> mean over rounds."""
    return {
        seed: statistics.mean(r[value] for r in rs)
        for (seed,), rs in grouped([r for r in records if r.get(value) is not None], "seed").items()
    }


def error(values):
    return f" ± {statistics.stdev(values) / len(values) ** 0.5:.5f}" if len(values) > 1 else ""


def both(r):
    return r["prepare_seconds"] + r["train_seconds"]


def median(records, value):
    return statistics.median(value(r) if callable(value) else r[value] for r in records)


def relative(records, reference, value):
    return f"{median(records, value) / median(reference, value):.3g}" if reference else ""


def line(who, records, reference):
    failed, good = [r for r in records if "failed" in r], [r for r in records if "failed" not in r]
    name = NAMES.get(who, who).format(trials=records[0].get("trials"))
    if not good:
        why = failed[-1]["failed"].strip().splitlines()[-1][:120].replace("|", "/")
        return f"| {name} | 0 | failed: {why} |" + " |" * (len(COLUMNS) - 3)
    cells = [name, str(len({r["seed"] for r in good})) + (f" ({len(failed)} failed)" if failed else "")]
    for value in QUALITY:
        mine, theirs = by_seed(good, value), by_seed(reference, value)
        ratios = [mine[s] / theirs[s] for s in mine if s in theirs]
        cells += [
            f"{statistics.mean(mine.values()):.5f}{error(list(mine.values()))}",
            f"{statistics.mean(ratios):.4f}{error(ratios)}" if ratios else "",
        ]
    cells += [
        f"{median(good, 'prepare_seconds'):.1f}",
        f"{median(good, 'train_seconds'):.1f}",
        relative(good, reference, both),
        f"{median(good, 'cpu_seconds'):.1f}",
        relative(good, reference, "cpu_seconds"),
        f"{median(good, 'peak_bytes') / MIB:.0f}",
        relative(good, reference, "peak_bytes"),
        f"{median(good, 'trees'):.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def lines(records, titles):
    out = [READING, ""] if records else []
    for (table, size), rs in grouped(records, "table", "size").items():
        rows = next((r["rows"] for r in rs if "rows" in r), {})
        counted = ", ".join(f"{split} {n:,}" for split, n in rows.items())
        share = "" if size == 1 else f", SIZE={size:g}"
        out += [
            f"### {table}",
            "",
            f"{titles.get(table, table)}{share}. {counted}".rstrip() + ("." if counted else ""),
            "",
            "| " + " | ".join(COLUMNS) + " |",
            "|" + "---|" * len(COLUMNS),
        ]
        who = grouped(rs, "who")
        reference = [r for r in who.get((REFERENCE,), []) if "failed" not in r]
        out += [line(name, who[(name,)], reference) for name in NAMES if (name,) in who] + [""]
    return out
