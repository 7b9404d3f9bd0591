"""The winner of a search beside the mean of its best trials, on real tables.

usage: search_ensemble.py --data FOLDER --bin FOLDER --out FOLDER [--only TABLE,...] [--rows N] [--trials N] [--seeds N]

Trial 0 is the default configuration, the others are proposed by `auto`. Half of the rows that a
table has for choosing ("valid") stop and rank them, the other half ("calib") do neither. Every way
is judged on test, against the trial that is best on valid, by the log loss of each row. A way may
have COST times the trees of that trial. An ensemble is one of RANKS trials at most. One line a way:
the gain in % by table, with its standard error from paired rows; the mean over tables with that of
the mean; how many runs are better and worse beyond two standard errors, also than the default. """

import argparse
import json
import os
import sys
import tempfile

import numpy as np
import pandas as pd

import ids_peers
import search_nights
import search_quality
from ids_tables import Source
from search_quality import Night

COST, RANKS = 3, 10


def halved(frame, seed):
    frame = frame.reset_index(drop=True)
    valid = np.flatnonzero(frame.split == "valid")
    split = frame.split.to_numpy(object)
    split[valid[np.random.default_rng((29, seed)).random(len(valid)) < 0.5]] = "calib"
    return frame.assign(split=split)


def raw_scores(night, split):
    """Labels and log odds of the model trained last."""
    import lightgbm as lgb
    from pyarrow import ipc

    with open(night.place + "/manifest.json") as f:
        values = [ids_peers.representatives(f) for f in json.load(f)["features"]]
    columns = ipc.open_file(f"{night.place}/{split}/columns.arrow").read_all().columns
    y = ipc.open_file(f"{night.place}/{split}/targets.arrow").read_all()["label"].to_numpy().astype(float)
    x = np.column_stack([v[c.to_numpy()] for v, c in zip(values, columns)])
    return y, lgb.Booster(model_file=night.folder + "/model.txt").predict(x, raw_score=True, num_threads=1)


def measure(programs, table, source, rows, trials):
    with tempfile.TemporaryDirectory() as folder:
        frame = pd.concat(table.frames(source), ignore_index=True)
        if len(frame) > rows:
            drawn = np.random.default_rng((28, source.seed)).choice(len(frame), rows, replace=False)
            frame = frame.iloc[np.sort(drawn)]
        night = Night(programs, folder + "/night", table, halved(frame, source.seed))
        results, out = folder + "/results.jsonl", {s: [] for s in ("valid", "calib", "test")}
        open(results, "w").close()
        trees, y = [], {}
        for n in range(trials):
            asked = search_nights.ask(night, "auto", source.seed + 1, 1, results)[0] if n else {"params": {}}
            told = night.train(asked["params"])
            trees.append(told["trees"])
            for split, scores in out.items():
                y[split], raw = raw_scores(night, split)
                scores.append(raw)
            if n:
                line = {"params": asked["params"], "value": told["metrics"]["log_loss"], "status": "done"}
                with open(results, "a") as f:
                    f.write(json.dumps({"trial": asked["trial"]} | line) + "\n")
        return judge(y, {s: np.array(r) for s, r in out.items()}, np.array(trees))


def losses(y, raw):
    return np.logaddexp(0, raw) - y * raw


def posterior(loss):
    """The expected loss of each trial beside the default's, where trials differ by a normal distribution."""
    d = loss[1:] - loss[0]
    mean, noise, n = d.mean(1), np.cov(d) / d.shape[1], len(d)
    spread = ((mean - mean.mean()) ** 2).sum() - np.trace((np.eye(n) - 1 / n) @ noise)
    spread = max(spread / (n - 1), 1e-18) * np.eye(n)
    return np.r_[0, mean.mean() + spread @ np.linalg.solve(spread + noise, mean - mean.mean())]


def best_within(order, trees, most):
    members, sum_ = [], 0
    for n in order[:RANKS]:
        if not members or sum_ + trees[n] <= most:
            members, sum_ = members + [n], sum_ + trees[n]
    return np.isin(np.arange(len(trees)), members).astype(float)


def greedy(y, raw, trees, most, steps=20):
    """Caruana et al. 2004: the trial that helps most is added, with replacement; the best number of steps."""
    counts, total, best = np.zeros(len(trees)), 0, (np.inf, None)
    for k in range(1, steps + 1):
        fits = [n for n in range(len(trees)) if counts[n] or trees[counts > 0].sum() + trees[n] <= most]
        found = [losses(y, (total + raw[n]) / k).mean() for n in fits]
        n = fits[int(np.argmin(found))]
        counts[n] += 1
        total = total + raw[n]
        best = min(best, (min(found), tuple(counts)))
    return np.array(best[1])


def ways(y, raw, trees):
    one = np.eye(len(trees))
    loss = {s: losses(y[s], raw[s]) for s in ("valid", "calib")}
    both = np.concatenate([loss["valid"], loss["calib"]], 1)
    order = np.argsort(loss["valid"].mean(1), kind="stable")
    winner = order[0]
    ahead = loss["valid"][winner] - loss["valid"][0]
    beyond = -ahead.mean() > 2 * ahead.std() / len(ahead) ** 0.5
    most = COST * trees[winner]
    mean = best_within(order, trees, most)
    gain = loss["calib"][winner] - losses(y["calib"], mean @ raw["calib"] / mean.sum())
    return {
        "the winner": one[winner],
        "the default": one[0],
        "the default unless two standard errors behind": one[winner if beyond else 0],
        "the best posterior mean": one[np.argmin(posterior(loss["valid"]))],
        "the best on valid and calib": one[np.argmin(both.mean(1))],
        "mean of the best": mean,
        "the same, where better beyond chance on calib": mean
        if gain.mean() > 1.96 * gain.std() / len(gain) ** 0.5
        else one[winner],
        "greedy on valid": greedy(y["valid"], raw["valid"], trees, most),
        "greedy on calib": greedy(y["calib"], raw["calib"], trees, most),
    }


def judge(y, raw, trees):
    found = ways(y, raw, trees)
    score = {w: losses(y["test"], m @ raw["test"] / m.sum()) for w, m in found.items()}
    told = {}
    for way, loss in score.items():
        line = {"cost": trees[found[way] > 0].sum() / trees[found["the winner"] > 0].sum()}
        for name, other in (("winner", score["the winner"]), ("default", score["the default"])):
            gain = 100 * (other - loss) / other.mean()
            line[name] = [gain.mean(), gain.std() / len(gain) ** 0.5]
        told[way] = line
    return told


def table_of(told):
    names = sorted({name for name, _ in told})
    print("| % better than the winner | " + " | ".join(names) + " | mean | runs better, worse | than the default | trees |")
    print("|---" * (len(names) + 5) + "|")
    runs = list(told.values())
    for way in runs[0]:
        by = [[r[way]["winner"] for (n, _), r in told.items() if n == name] for name in names]
        means = [np.mean([g for g, _ in b]) for b in by]
        errors = [np.sum([e**2 for _, e in b]) ** 0.5 / len(b) for b in by]
        beyond = [[sum(s * r[way][o][0] > 2 * r[way][o][1] for r in runs) for s in (1, -1)] for o in ("winner", "default")]
        cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(means, errors)]
        cells += [f"{np.mean(means):.2f} ± {np.std(means, ddof=1) / len(means) ** 0.5:.2f}"]
        cells += [f"{b}, {w}" for b, w in beyond] + [f"{np.mean([r[way]['cost'] for r in runs]):.1f}"]
        print(f"| {way} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "bin", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    for name, n in (("rows", 15_000), ("trials", 30), ("seeds", 2)):
        parser.add_argument(f"--{name}", type=int, default=n)
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)

    told = {}
    for seed in range(a.seeds):
        for table in search_quality.TABLES:
            if table.name == "kddcup99" or a.only and table.name not in a.only.split(","):
                continue  # nearly separable
            path = f"{a.out}/{table.name}-{seed}.json"
            if not os.path.exists(path):
                line = measure(os.path.abspath(a.bin), table, Source(a.data, 0.1, seed), a.rows, a.trials)
                with open(path + ".part", "w") as f:
                    json.dump(line, f)
                os.replace(path + ".part", path)
            with open(path) as f:
                told[table.name, seed] = json.load(f)
    table_of(told)


if __name__ == "__main__":
    sys.exit(main())
