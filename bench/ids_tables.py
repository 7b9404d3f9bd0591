"""The tables of `make bench-ids`: what a model sees of each, which rows are train, valid and test,
and one Parquet file of it for everybody.

A table is made by a function of a Source, which yields data frames with the features, the columns
label (0 or 1) and split (train, valid, test) and, where rows have one, ts, the time of a row, by
which they are sorted. Whoever trains reads that file. Coppice reads it through a dataset.yaml that
says nothing but which columns are ids and, where there is a ts, that statistics go by time. Moments
themselves are nobody's feature: all held-out rows are later than train. """

import dataclasses
import json
import os

import numpy as np
import pandas as pd

SHARES = (0.7, 0.85)  # train ends at the first, valid at the second
CHUNK = 500_000  # rows of the generator in memory at once, about
FORM = 1  # of the files below; another number makes all of them again


@dataclasses.dataclass
class Source:
    """Where a table's rows come from."""

    data: str  # folder of the public tables
    size: float  # share of the rows of large tables
    seed: int  # of the split, where a seed draws it


@dataclasses.dataclass
class Table:
    name: str
    title: str
    frames: object  # Source -> iterable of data frames
    ids: list  # categories, whatever they look like
    rated: str = "test"  # the split that the numbers are of
    drawn: bool = False  # whether the seed draws which rows are held out
    timed: bool = False  # whether there is a ts
    scaled: bool = False  # whether size makes it smaller

    def file(self, source, folder):
        """Path of the table's Parquet file, made where it is missing."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        name = self.name + (f"-{source.size:g}" if self.scaled else "") + (f"-seed{source.seed}" if self.drawn else "")
        path = f"{folder}/{name}-form{FORM}.parquet"
        if os.path.exists(path):
            return path
        os.makedirs(folder, exist_ok=True)
        writer = None
        try:
            for frame in self.frames(source):
                t = pa.Table.from_pandas(frame, preserve_index=False)
                writer = writer or pq.ParquetWriter(path + ".part", t.schema)
                writer.write_table(t)
        finally:
            if writer:
                writer.close()
        os.replace(path + ".part", path)
        return path

    def spec(self, path, seed):
        """The dataset.yaml. A seed of None is left out."""
        import pyarrow.parquet as pq

        columns = pq.read_schema(path).names
        lines = [
            f"name: {self.name}",
            f"source: {os.path.abspath(path)}",
            "label: label",
            "split: {by: column, column: split}",
            f"categorical: {json.dumps([c for c in self.ids if c in columns])}",
        ]
        if self.timed:
            lines += [
                "drop: [ts]",
                "encodings: {order: {by: time, column: ts}}",
            ]  # peers do not see when a row was, either
        if seed is not None:
            lines.append(f"seed: {seed}")
        return "\n".join(lines) + "\n"


def by_share(u):
    """Splits of numbers that are even between 0 and 1."""
    return np.select([u < SHARES[0], u < SHARES[1]], ["train", "valid"], "test")


def by_day(ts):
    """Splits at midnight, as near to SHARES of the rows as days allow."""
    day = ts.dt.floor("D")
    rows = day.value_counts().sort_index()
    ends = (rows.cumsum() / rows.sum()).to_numpy()
    until = [rows.index[int(np.abs(ends[:-1] - s).argmin())] for s in SHARES]
    if until[0] >= until[1]:
        raise SystemExit("a table of too few days for a split by time")
    return np.select([day <= until[0], day <= until[1]], ["train", "valid"], "test")


def in_time(frame):
    """The frame with clock and calendar as features for everybody, split by day, in the order of time."""
    frame = frame.sort_values("ts", kind="stable").reset_index(drop=True)
    frame["clock"] = frame.ts.dt.hour + frame.ts.dt.minute / 60
    frame["weekday"] = frame.ts.dt.dayofweek
    frame["split"] = by_day(frame.ts)
    return frame


# Public tables.

FLIGHT_IDS = [
    "Month",
    "DayOfWeek",
    "UniqueCarrier",
    "Origin",
    "Dest",
    "UniqueCarrier_OriginDest",
    "UniqueCarrier_Origin",
]


def flight_delays(source):
    yield pd.read_csv(source.data + "/flight_delays_100k.csv").rename(columns={"target": "label"})


def flight_delays_held(source):
    """The file's valid rows are test; a tenth of its train rows is for stopping and for choosing."""
    t = next(flight_delays(source))
    draw = np.random.default_rng((21, source.seed)).random(len(t)) < 0.1
    t["split"] = np.select([t.split == "valid", draw], ["test", "valid"], "train")
    yield t


def nycflights(source):
    t = pd.read_csv(source.data + "/nycflights13_337k.csv.gz")
    t = t[t.arr_delay.notna()].reset_index(drop=True)
    t["label"] = (t.arr_delay > 15).astype("int8")
    t["ts"] = pd.to_datetime(t[["year", "month", "day"]]) + pd.to_timedelta(t.hour * 60 + t.minute, unit="min")
    return t.drop(columns=["year", "arr_delay", "arr_time", "air_time", "dep_delay", "dep_time"])


def nycflights_time(source):
    yield in_time(nycflights(source)).drop(columns="clock")


def nycflights_planned(source):
    """Without hour and minute, which are those of the actual departure: a flight that usually
    leaves at 6 and is seen at 8 is late."""
    t = nycflights(source).drop(columns=["hour", "minute"])
    t["ts"] = t.ts.dt.floor("D")
    yield in_time(t).drop(columns="clock")


def nycflights_tail(source):
    t = nycflights(source).drop(columns="ts")
    tails, code = np.unique(t.tailnum.fillna("?").to_numpy(str), return_inverse=True)
    t["split"] = by_share(np.random.default_rng((22, source.seed)).random(len(tails))[code])
    yield t


def criteo(source):
    names = ["label"] + [f"i{i}" for i in range(1, 14)] + [f"c{i}" for i in range(1, 27)]
    t = pd.read_csv(
        source.data + "/ads_criteo_10k.tsv",
        sep="\t",
        header=None,
        names=names,
        dtype={f"c{i}": str for i in range(1, 27)},
    )
    t["split"] = by_share(np.random.default_rng((23, source.seed)).random(len(t)))
    yield t


def amexpert(source):
    t = (
        pd.read_csv(source.data + "/ads_amexpert_display_60k.csv")
        .drop(columns="session_id")
        .rename(columns={"is_click": "label"})
    )
    t["ts"] = pd.to_datetime(t.pop("DateTime"))
    for name in ("product_category_2", "user_group_id"):  # whole numbers, some missing
        t[name] = t[name].astype("Int64")
    yield in_time(t)


def flights3m(source):
    import pyarrow.parquet as pq

    t = pq.read_table(source.data + "/flights-3m.parquet").to_pandas()
    if source.size < 1:
        t = t[np.random.default_rng(24).random(len(t)) < source.size]
    t["label"] = (t.pop("delay") > 15).astype("int8")
    yield in_time(t.rename(columns={"date": "ts"}))


# Generated clicks.

CLICKS, USERS, SITES, CAMPAIGNS, DAYS = 10_000_000, 1_000_000, 100_000, 10_000, 30
CLICK_SEED = 30


def mixed(*parts):
    """A 64-bit hash of numbers, row by row: effects of levels and of pairs of levels need no tables."""
    h = np.uint64(CLICK_SEED)
    with np.errstate(over="ignore"):
        for p in parts:
            h = (h ^ np.asarray(p).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            h = h ^ (h >> np.uint64(31))
    return h


def uniform(*parts):
    return (mixed(*parts) >> np.uint64(11)).astype(np.float64) / 2**53


def normal(*parts):
    """A number for each combination, normal enough: three uniform ones, centred and scaled."""
    return 2 * (uniform(1, *parts) + uniform(2, *parts) + uniform(3, *parts) - 1.5)


def zipf(rng, rows, levels, s):
    """Ranks 0 to levels-1 with a probability of about (rank+1) ** -s."""
    u = rng.random(rows)
    x = (1 + u * ((levels + 1) ** (1 - s) - 1)) ** (1 / (1 - s)) if s != 1 else np.exp(u * np.log(levels + 1))
    return np.minimum(x.astype(np.int64) - 1, levels - 1)


def drawn_ids(rng, what, rows, levels, s, day, young):
    """Ids of rows of one day. Of all ids, the share young appears on a day of its own, the last
    ones among test rows only."""
    ids, todo = np.empty(rows, np.int64), np.arange(rows)
    while len(todo):
        rank = zipf(rng, len(todo), levels, s)
        born = np.where(uniform(10, what, rank) < young, uniform(11, what, rank) * DAYS, 0)
        ids[todo] = rank
        todo = todo[born >= day + 1]
    return ids


def clicks(source):
    """About a click per 20 rows, in the order of time, days in pieces. Everything that matters is a
    function of the ids, the hour and the day:

    user, site, campaign, advertiser (to which the campaign belongs), country and device have an effect each; the pairs
    site x campaign, country x advertiser and device x hour have one that their parts do not show; a campaign's effect
    drifts over the days. A fifth of users, campaigns and sites appears on a day of its own.
    """
    rows, users, sites, campaigns = (
        max(int(n * source.size), least)
        for n, least in ((CLICKS, 20_000), (USERS, 2_000), (SITES, 500), (CAMPAIGNS, 100))
    )
    advertisers = max(campaigns // 10, 10)
    devices, countries = (
        np.array([f"device{i:02d}" for i in range(12)]),
        np.array([f"country{i:02d}" for i in range(60)]),
    )
    site_names = np.array([f"site-{i:016x}" for i in mixed(12, np.arange(sites))])
    pieces = max(-(-rows // DAYS // CHUNK), 1)
    start = pd.Timestamp("2026-01-05").to_datetime64()
    for piece in range(DAYS * pieces):
        day, part = divmod(piece, pieces)
        n = rows * (piece + 1) // (DAYS * pieces) - rows * piece // (DAYS * pieces)
        rng = np.random.Generator(np.random.PCG64((CLICK_SEED, piece)))
        clock = np.sort(part + rng.random(n)) / pieces * 24
        user, site, campaign = (
            drawn_ids(rng, k, n, levels, s, day, 0.2)
            for k, levels, s in ((1, users, 0.8), (2, sites, 1.05), (3, campaigns, 0.9))
        )
        advertiser = (mixed(13, campaign) % np.uint64(advertisers)).astype(np.int64)
        country, device = (uniform(14, user) ** 2 * 60).astype(int), (rng.random(n) ** 1.5 * 12).astype(int)
        age, bid = rng.gamma(2, 20, n), rng.lognormal(0, 0.7, n)

        z = (
            -3.5
            + 0.6 * normal(20, user)
            + 0.6 * normal(21, site)
            + 0.4 * normal(22, campaign)
            + 0.4 * normal(23, advertiser)
        )
        z += 0.2 * normal(24, country) + 0.2 * normal(25, device)
        z += (
            0.7 * normal(26, site, campaign)
            + 0.4 * normal(27, country, advertiser)
            + 0.3 * normal(28, device, clock // 3)
        )
        z += 0.5 * np.sin(2 * np.pi * (day / (20 + 30 * uniform(29, campaign)) + uniform(30, campaign)))
        z += 0.2 * np.sin(clock / 24 * 2 * np.pi) + 0.15 * np.log(bid) - 0.004 * age
        yield pd.DataFrame(
            {
                "label": (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.int8),
                "split": str(by_share((day + 0.5) / DAYS)),
                "ts": start + (day * 86_400_000 + clock * 3_600_000).astype("timedelta64[ms]"),
                "clock": clock.astype(np.float32),
                "weekday": np.int8(day % 7),
                "user_id": (mixed(15, user) >> np.uint64(24)).astype(np.int64),
                "site_id": pd.Categorical.from_codes(site, site_names),
                "campaign_id": campaign + 100_000,
                "advertiser_id": advertiser + 1000,
                "country": pd.Categorical.from_codes(country, countries),
                "device": pd.Categorical.from_codes(device, devices),
                "age": age.astype(np.float32).round(1),
                "bid": bid.astype(np.float32).round(3),
            }
        )


NYC_IDS = ["carrier", "tailnum", "flight", "origin", "dest"]
TABLES = {
    t.name: t
    for t in (
        Table(
            "flight-delays",
            "flight_delays, 100,000 rows, its own split; rated on the rows that stop training",
            flight_delays,
            FLIGHT_IDS,
            rated="valid",
        ),
        Table(
            "flight-delays-held",
            "flight_delays, its valid rows as test, a tenth of train to stop by",
            flight_delays_held,
            FLIGHT_IDS,
            drawn=True,
        ),
        Table("nycflights-time", "nycflights13, arr_delay > 15, by day", nycflights_time, NYC_IDS, timed=True),
        Table(
            "nycflights-planned",
            "nycflights13, arr_delay > 15, by day, without the hour of the actual departure",
            nycflights_planned,
            NYC_IDS,
            timed=True,
        ),
        Table("nycflights-tail", "nycflights13, arr_delay > 15, by tail number", nycflights_tail, NYC_IDS, drawn=True),
        Table("criteo", "Criteo, 10,000 rows, at random", criteo, [f"c{i}" for i in range(1, 27)], drawn=True),
        Table(
            "amexpert",
            "AmExpert display ads, 60,228 rows, by day",
            amexpert,
            [
                "user_id",
                "product",
                "campaign_id",
                "webpage_id",
                "product_category_1",
                "product_category_2",
                "user_group_id",
                "gender",
            ],
            timed=True,
        ),
        Table(
            "flights3m",
            "flights, 3,000,000 rows, delay > 15, by day",
            flights3m,
            ["origin", "destination"],
            timed=True,
            scaled=True,
        ),
        Table(
            "clicks",
            "generated clicks, 10,000,000 rows, ids of 1,000,000, 100,000 and 10,000 levels, by day",
            clicks,
            ["user_id", "site_id", "campaign_id", "advertiser_id", "country", "device"],
            timed=True,
            scaled=True,
        ),
    )
}
