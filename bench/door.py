"""Three lines of each library on real tables: what a person gets who configures nothing. `make bench-door`.

Every library gets the same table of raw columns and the same rows of train; what is left is judged. Texts are
categories to the others in the way that their documents say."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")
SEED = 1


def tables(data: str, only: list[str]):
    """Name, features, labels, and which rows are judged."""

    def split(n: int) -> np.ndarray:
        return np.random.default_rng(SEED).random(n) < 0.2

    def bank():
        f = pd.read_csv(f"{data}/bank-additional-full.csv", sep=";").drop(columns="duration")  # known after the call
        return f.drop(columns="y"), (f.y == "yes").astype(int), split(len(f)), {}

    def flight_delays():
        f = pd.read_csv(f"{data}/flight_delays_100k.csv")
        return f.drop(columns=["split", "target"]), f.target, (f.split != "train").to_numpy(), {}

    def nycflights13():
        f = pd.read_csv(f"{data}/nycflights13_337k.csv.gz")
        f = f[f.arr_delay.notna()].reset_index(drop=True)
        f = f[f.index % 3 == 0].reset_index(drop=True)
        y = (f.arr_delay > 15).astype(int)
        gone = ["arr_delay", "arr_time", "air_time", "dep_time", "dep_delay", "time_hour"]
        x = f.drop(columns=[c for c in gone if c in f])
        judged = pd.util.hash_array(f.tailnum.astype(str).to_numpy()) % 5 == 0
        return x, y, judged, {"key": "tailnum"}

    def amexpert():
        f = pd.read_csv(f"{data}/ads_amexpert_display_60k.csv")
        f = f.sort_values("DateTime", kind="stable").reset_index(drop=True)
        judged = np.arange(len(f)) >= 0.8 * len(f)
        return f.drop(columns=["is_click", "session_id"]), f.is_click, judged, {}

    def criteo():
        names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
        f = pd.read_csv(f"{data}/ads_criteo_10k.tsv", sep="\t", names=names)
        return f.drop(columns="label"), f.label, split(len(f)), {}

    for make in (bank, flight_delays, nycflights13, amexpert, criteo):
        if not only or make.__name__ in only:
            yield make.__name__, *make()


def categories(x: pd.DataFrame) -> pd.DataFrame:
    """Texts as pandas' categories."""
    return x.astype({c: "category" for c in x if x[c].dtype == object or str(x[c].dtype) in ("str", "string")})


def coppice_(x, y, new, minutes, more):
    import coppice

    return coppice.Classifier(minutes=minutes, **more).fit(x, y).predict_proba(new)


def lightgbm_(x, y, new, minutes, more):
    from lightgbm import LGBMClassifier

    both = categories(pd.concat([x, new]))
    return LGBMClassifier(verbosity=-1).fit(both[: len(x)], y).predict_proba(both[len(x) :])


def xgboost_(x, y, new, minutes, more):
    from xgboost import XGBClassifier

    both = categories(pd.concat([x, new]))
    return XGBClassifier(enable_categorical=True).fit(both[: len(x)], y).predict_proba(both[len(x) :])


def catboost_(x, y, new, minutes, more):
    from catboost import CatBoostClassifier

    texts = [c for c in x if not pd.api.types.is_numeric_dtype(x[c])]
    fill = {c: "" for c in texts}
    few = more.get("iterations")
    model = CatBoostClassifier(iterations=few, verbose=0, cat_features=texts, allow_writing_files=False)
    return model.fit(x.fillna(fill), y).predict_proba(new.fillna(fill))


def autogluon_(x, y, new, minutes, more):
    import tempfile

    from autogluon.tabular import TabularPredictor

    with tempfile.TemporaryDirectory() as folder:
        p = TabularPredictor(label="__y", path=folder, verbosity=0, eval_metric="log_loss")
        p.fit(x.assign(__y=y), presets="medium_quality", time_limit=60 * minutes)
        return p.predict_proba(new).to_numpy()


WHO = {"coppice": coppice_, "lightgbm": lightgbm_, "xgboost": xgboost_, "catboost": catboost_, "autogluon": autogluon_}


def main() -> int:
    from sklearn.metrics import log_loss, roc_auc_score

    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", required=True)
    p.add_argument("--only", default="", help="tables, comma-separated")
    p.add_argument("--who", default=",".join(WHO))
    p.add_argument("--minutes", type=float, default=2)
    p.add_argument("--out", required=True, help="file of measurements, one JSON object a line")
    a = p.parse_args()
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    with open(a.out, "a") as out:
        for name, x, y, judged, more in tables(a.data, [t for t in a.only.split(",") if t]):
            x_train, y_train, x_new, y_new = x[~judged], y[~judged], x[judged], y[judged]
            print(f"\n{name}: {len(y_train)} rows, judged on {len(y_new)}\n")
            print("| library | log loss | AUC | mean prediction / rate | seconds |\n|---|---|---|---|---|")
            for who in a.who.split(","):
                began = time.monotonic()
                try:
                    q = WHO[who](x_train, y_train, x_new, a.minutes, more)[:, 1]
                except ImportError as e:
                    print(f"| {who} | not installed ({e.name}) | | | |")
                    continue
                took = time.monotonic() - began
                loss, auc = log_loss(y_new, q), roc_auc_score(y_new, q)
                own = -(y_new * np.log(np.clip(q, 1e-15, 1)) + (1 - y_new) * np.log(np.clip(1 - q, 1e-15, 1)))
                print(f"| {who} | {loss:.5f} | {auc:.5f} | {q.mean() / y_new.mean():.3f} | {took:.0f} |", flush=True)
                record = {"table": name, "who": who, "log_loss": loss, "auc": auc, "seconds": took, "minutes": a.minutes,
                          "error": float(own.std() / np.sqrt(len(own)))}
                out.write(json.dumps(record) + "\n")
                out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
