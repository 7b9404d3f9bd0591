"""Measurements as Markdown, and their place in docs/LAB.md: between two marks, so that what
people wrote stays."""

import re
import statistics
import subprocess
import sys

import measure

GIB, MIB = 2**30, 2**20
QUALITY_LIMIT = 0.001  # how much worse than LightGBM a table may be, relatively


def yes(ok):
    return "yes" if ok else "**no**"


def finish(args, name, command, lines):
    """Prints the lines of a measurement below a heading, and puts them into args.doc, if there is one."""
    task = subprocess.run([args.bin + "/task", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    run = {"machine": measure.machine(), "commit": measure.commit(), "command": command}
    lines = [*heading(run | {"versions": {"Python": sys.version.split()[0], "task": task}}), *lines]
    print("\n".join(lines))
    if args.doc:
        write(args.doc, name, lines)


def grouped(records, *keys):
    """Records by the values of some of their keys, in the order in which they came."""
    out = {}
    for r in records:
        out.setdefault(tuple(r.get(k) for k in keys), []).append(r)
    return out


def ratios(records, value):
    """(row, peer): our values, the peer's, and their ratios pair by pair."""
    out = {}
    for (row, pair), two in grouped([r for r in records if "pair" in r and value in r], "row", "pair").items():
        if len(two) == 2:
            ours, theirs = two
            o, t, q = out.setdefault((row, theirs["who"]), ([], [], []))
            o.append(ours[value])
            t.append(theirs[value])
            q.append(theirs[value] / ours[value])
    return out


def verdict(value, target):
    if target is None:
        return "", ""
    return f">= {target:g}", "yes" if value >= target else "**no**"


def speed(records, targets):
    """The table of ratios. targets: row -> (what is done, {peer: least ratio})."""
    lines = [
        "| work | against | theirs, s | ours, s | ratio, median (least to largest) | asked for | reached | ratio of processor time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    cpu = ratios(records, "cpu_seconds")
    for (row, peer), (ours, theirs, q) in ratios(records, "seconds").items():
        title, asked = targets[row]
        s = measure.spread(q)
        limit, reached = verdict(s["median"], asked.get(peer))
        used = f"{statistics.median(cpu[row, peer][2]):.2f}" if (row, peer) in cpu else ""
        lines.append(
            f"| {title} | {peer} | {seconds(theirs)} | {seconds(ours)} | {s['median']:.2f} ({s['min']:.2f} to {s['max']:.2f}), {s['n']} pairs | {limit} | {reached} | {used} |"
        )
    return lines if len(lines) > 2 else []


def seconds(values):
    m = statistics.median(values)
    return f"{m:.2f}" if m < 10 else f"{m:.1f}"


def peak(records, targets, memory_target):
    """Peak memory of whole searches."""
    found = ratios(records, "peak_pss")
    if not found:
        return []
    lines = [
        "",
        "Peak memory of the search: the sum of PSS over all processes, looked at every 100 ms.",
        "",
        "| against | theirs, MiB | ours, MiB | ratio, median | asked for | reached |",
        "|---|---|---|---|---|---|",
    ]
    for (row, peer), (ours, theirs, q) in found.items():
        limit, reached = verdict(statistics.median(q), memory_target if peer == "joblib" else None)
        lines.append(
            f"| {peer} | {statistics.median(theirs) / MIB:.0f} | {statistics.median(ours) / MIB:.0f} | {statistics.median(q):.2f} | {limit} | {reached} |"
        )
    for (_, who), rs in grouped([r for r in records if "at_peak" in r], "row", "who").items():
        parts = sorted(rs[0]["at_peak"].items(), key=lambda p: -p[1])
        lines += [
            "",
            f"Of {who}'s peak: "
            + ", ".join(f"{name} {size / MIB:.0f} MiB" for name, size in parts if size >= MIB)
            + ".",
        ]
    return lines


def losses(records, targets):
    """Log loss and AUC of the models of the timed runs, every trainer with the same parameters and nothing drawn."""
    lines = [
        "",
        "Log loss and AUC on valid of the models whose training was timed; of a search, of its best one:",
        "",
        "| work | trainer | log loss | AUC |",
        "|---|---|---|---|",
    ]
    for (row, who), rs in grouped([r for r in records if "log_loss" in r and "pair" in r], "row", "who").items():
        loss, auc = (sorted({r[name] for r in rs if name in r}) for name in ("log_loss", "auc"))
        lines.append(f"| {targets[row][0]} | {who} | {span(loss)} | {span(auc)} |")
    return lines if len(lines) > 5 else []


def span(values):
    if not values:
        return ""
    low, high = f"{values[0]:.6f}", f"{values[-1]:.6f}"
    return low if low == high else f"{low} to {high}"


def worse(ours, theirs, name):
    """How much worse ours is, relatively; negative where it is better."""
    return ours / theirs - 1 if name == "log_loss" else 1 - ours / theirs


def quality(records):
    """Means over seeds against LightGBM on its own bins, and on ours, which tells trainer from binning."""
    rated = [r for r in records if "seed" in r]
    if not rated:
        return []
    lines = [
        "",
        "Validation, mean over seeds, bagging and feature fraction 0.8. Differences are relative, + is worse than LightGBM; ± is their "
        "standard error, from the differences seed by seed; seeds of a real table share most rows, those of flights its split, so it is too small there.",
        "",
        "| table | measure | seeds | ours | LightGBM | difference | of the first five seeds | worst seed | LightGBM, our bins | difference | "
        "<= 0.1 % worse | not worse |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (table,), rs in grouped(rated, "table").items():
        for name, title in (("log_loss", "log loss"), ("auc", "AUC")):
            by = {who: [r[name] for r in some] for (who,), some in grouped(rs, "who").items()}
            ours, own, same = (by[who] for who in ("coppice", "lightgbm", "lightgbm, our bins"))
            diff = mean_worse(ours, own, name)
            worst = max(worse(a, b, name) for a, b in zip(ours, own))
            lines.append(
                f"| {table} | {title} | {len(ours)} | {statistics.mean(ours):.6f} | {statistics.mean(own):.6f} | {diff:+.3%} {error(ours, own)} | "
                f"{mean_worse(ours[:5], own[:5], name):+.3%} | {worst:+.3%} | {statistics.mean(same):.6f} | "
                f"{mean_worse(ours, same, name):+.3%} {error(ours, same)} | "
                f"{'yes' if diff <= QUALITY_LIMIT else '**no**'} | {'yes' if diff <= 0 else '**no**'} |"
            )
    return lines


def mean_worse(ours, theirs, name):
    return worse(statistics.mean(ours), statistics.mean(theirs), name)


def error(ours, theirs):
    """The standard error of the mean difference, relatively."""
    if len(ours) < 2:
        return ""
    return f"± {statistics.stdev(a - b for a, b in zip(ours, theirs)) / len(ours) ** 0.5 / statistics.mean(theirs):.3%}"


def heading(run):
    """Machine, versions, commit, date and command of a run."""
    m = run["machine"]
    return [
        f"{m['date']}, commit {run['commit']}: `{run['command']}`",
        "",
        f"{m['cpu']} (family {m['family']}, model {m['model']}), {m['cores']} cores, {m['ram_gib']} GiB, Linux {m['kernel']}; "
        + ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        + ".",
        "",
    ]


def marked(path, mark):
    """The text of a file, and the two marks between which a report belongs; asked before hours are
    spent on measuring, too."""
    with open(path) as f:
        text = f.read()
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise SystemExit(f"{path} must hold {begin} and after it {end}, once each")
    return text, begin, end


def write(path, mark, lines):
    """Replaces what is between <!-- MARK:begin --> and <!-- MARK:end --> in a file that has both."""
    text, begin, end = marked(path, mark)
    body = "\n".join(lines).strip()
    with open(path, "w") as f:
        f.write(
            re.sub(re.escape(begin) + ".*" + re.escape(end), lambda _: f"{begin}\n{body}\n{end}", text, flags=re.DOTALL)
        )
