"""features.json: what turns raw values into model values. Everything is checked before anything is indexed by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ._strict import MAX_NAME, Reader, parse_json

MAX_BYTES = 64 << 20
MAX_FEATURES = 1 << 15
MAX_BINS = 255
MAX_TABLES = 1 << 12
MAX_PARTS = 4
MAX_LEVELS = 1 << 26
MAX_TOKENS = 1000
MAX_CLASSES = 100
MAX_CLASS_NAME = 200  # bytes
MAX_PART_BOUNDS = 1 << 16
MAX_INT = (1 << 63) - 1

NUMERIC, TEMPORAL, CATEGORICAL = "numeric", "time", "categorical"
FORMATS = ("number", "decimal_comma", "dmy", "mdy")
RATE, COUNT, RECENCY, HOUR, WEEKDAY, AGE, LEVELS = "rate", "count", "recency", "hour", "weekday", "age", "levels"

_CONTROL = re.compile("[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Part:
    """What one column contributes to a level."""

    column: str
    kind: str
    take: str = ""
    bounds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Derived:
    """How a feature is computed that is no column of the table."""

    what: str
    table: int
    of: tuple[Part, ...]


@dataclass(frozen=True)
class Feature:
    """One column of the model's matrix."""

    name: str
    kind: str
    bins: int
    missing_bin: int
    other_bin: int
    bounds: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    derived: Derived | None = None


@dataclass(frozen=True)
class LevelTable:
    """The statistics of the levels of some columns: rows first to first+levels-1 of the levels file."""

    of: tuple[Part, ...]
    first: int
    levels: int
    prior: float
    strength: float
    back_off: int
    recency: bool
    floor: int = 1
    one_of: int = 0  # 1 + the class whose share a rate is; 0: the mean label


@dataclass(frozen=True)
class Encoding:
    """All of features.json."""

    format: int
    features: tuple[Feature, ...]
    missing: tuple[str, ...]
    formats: dict[str, str] = field(default_factory=dict)  # of columns of texts
    tables: tuple[LevelTable, ...] = ()
    classes: tuple[str, ...] = ()  # what is predicted, if there are several
    inputs: tuple[str, ...] = field(default=(), compare=False)

    @property
    def levels(self) -> int:
        """How many levels the tables have in all."""
        return self.tables[-1].first + self.tables[-1].levels if self.tables else 0


def decode(data: bytes) -> Encoding:
    """Reads features.json, of format 1 or 2."""
    r = Reader(parse_json(data, "features.json", MAX_BYTES), "features.json")
    version = r.integer("format", 1, 2)
    tokens = r.texts("missing", MAX_TOKENS, required=True, null=True)
    if any(len(t.encode()) > MAX_NAME for t in tokens):
        r.fail(f"missing has a text of more than {MAX_NAME} bytes")
    formats = _formats(r.within("formats"))
    raw_tables, raw_features = r.items("tables", MAX_TABLES), r.items("features", MAX_FEATURES)
    classes = r.texts("classes", MAX_CLASSES, required=False, null=False) or ()
    if len(classes) == 1 or len(set(classes)) != len(classes):
        r.fail("classes: two or more different names")
    if any(len(c.encode("utf-8", "surrogatepass")) > MAX_CLASS_NAME for c in classes):
        r.fail(f"classes: a name has more than {MAX_CLASS_NAME} bytes")
    r.close()

    tables: list[LevelTable] = []
    for i, v in enumerate(raw_tables):
        tables.append(_table(Reader(v, f"features.json: tables[{i}]"), i, tables, len(classes)))
    if not raw_features:
        r.fail("it has no features")
    features = [_feature(Reader(v, f"features.json: features[{i}]"), tables) for i, v in enumerate(raw_features)]
    if len({f.name for f in features}) != len(features):
        r.fail("two features have one name")
    if (version == 2) != any(f.derived for f in features):
        r.fail(f"format {version}, but the features are of the other one")
    return Encoding(version, tuple(features), tuple(tokens), formats, tuple(tables), tuple(classes), inputs(features, tables))


def _formats(r: Reader | None) -> dict[str, str]:
    if r is None:
        return {}
    formats = {name: r.text(name) for name in r.keys()}
    for name, form in formats.items():
        if form not in FORMATS:
            r.fail(f"{name[:60]!r} has the format {form[:40]!r}")
    return formats


def is_column(name: str) -> bool:
    """Whether a column can have the name."""
    return 0 < len(name.encode()) <= MAX_NAME and not _CONTROL.search(name) and name != "__row"


def _name(r: Reader, key: str) -> str:
    name = r.text(key)
    if not is_column(name):
        r.fail(f"{key} {name[:60]!r} can be no column's name")
    return name


def _part(value: Any, place: str) -> Part:
    r = Reader(value, place)
    column, kind, take, bounds = _name(r, "column"), r.text("kind"), r.text("take", ""), r.ascending("bounds", MAX_PART_BOUNDS)
    r.close()
    if kind not in (NUMERIC, TEMPORAL, CATEGORICAL):
        r.fail(f"kind {kind[:40]!r}")
    if take and (kind != TEMPORAL or take not in (HOUR, WEEKDAY)):
        r.fail(f"take {take[:40]!r} of a {kind} column")
    if bounds and kind == CATEGORICAL:
        r.fail("ranges of a categorical column")
    return Part(column, kind, take, bounds)


def _parts(r: Reader, low: int, high: int) -> tuple[Part, ...]:
    values = r.items("of", MAX_PARTS, required=low > 0)
    if not low <= len(values) <= high:
        r.fail(f"of {len(values)} columns; {low} to {high} are possible")
    return tuple(_part(v, f"{r.place}.of[{i}]") for i, v in enumerate(values))


def _table(r: Reader, number: int, before: list[LevelTable], classes: int) -> LevelTable:
    of = _parts(r, 1, MAX_PARTS)
    first, levels = r.integer("first", 0, MAX_LEVELS), r.integer("levels", 0, MAX_LEVELS)
    floor = r.integer("floor", 1, MAX_INT)
    prior, strength = r.number("prior"), r.number("strength")
    # Only to tables before it, so that following them ends.
    back_off, recency = r.integer("back_off", -1, number - 1), r.boolean("recency")
    one_of = r.integer("class", 0, classes, default=0)
    r.close()
    if first != (before[-1].first + before[-1].levels if before else 0) or first + levels > MAX_LEVELS:
        r.fail(f"{levels} levels from {first}, which is not where they begin, or too many")
    if strength <= 0:
        r.fail(f"strength {strength}")
    return LevelTable(of, first, levels, prior, strength, back_off, recency, floor, one_of)


_TIMES = {RATE: 0, COUNT: 0, RECENCY: 1, HOUR: 1, WEEKDAY: 1, AGE: 2}


def _derived(r: Reader, kind: str, tables: list[LevelTable]) -> Derived:
    what, table, of = r.text("what"), r.integer("table", -1, len(tables) - 1), _parts(r, 0, MAX_PARTS)
    r.close()
    if what == LEVELS:
        if kind != CATEGORICAL or table != -1 or len(of) != 1 or of[0].kind != CATEGORICAL:
            r.fail(f"levels of {len(of)} columns in a feature of kind {kind!r}")
        return Derived(what, table, of)
    if what not in _TIMES:
        r.fail(f"what {what[:40]!r}")
    if kind != NUMERIC or len(of) != _TIMES[what] or (what in (RATE, COUNT, RECENCY)) != (table >= 0):
        r.fail(f"{what} of {len(of)} columns and table {table} in a feature of kind {kind!r}")
    if what == RECENCY and not tables[table].recency:
        r.fail("recency of a table that does not have it")
    for p in of:
        order_by_number = what == RECENCY and p.kind == NUMERIC
        if (p.kind != TEMPORAL and not order_by_number) or p.take or p.bounds:
            r.fail(f"{what} of column {p.column[:60]!r}, which is not read as a time")
    return Derived(what, table, of)


def _feature(r: Reader, tables: list[LevelTable]) -> Feature:
    name, kind = _name(r, "name"), r.text("kind")
    r.text("why", limit=MAX_BYTES)
    bins = r.integer("bins", 1, MAX_BINS)
    bounds, categories = r.ascending("bounds", MAX_BINS), r.texts("categories", MAX_BINS)
    counts = r.items("counts", MAX_BINS)
    missing_bin, other_bin = r.integer("missing_bin", -1, MAX_BINS), r.integer("other_bin", -1, MAX_BINS)
    r.integer("missing", 0, MAX_INT)
    of_values, derived = r.within("range"), r.within("from")
    r.close()
    if of_values is not None:
        for key in ("min", "median", "max"):
            of_values.number(key)
        of_values.close()

    if kind in (NUMERIC, TEMPORAL):
        if categories or counts:
            r.fail(f"a {kind} feature with categories")
        values, other = len(bounds) + 1, -1
    elif kind == CATEGORICAL:
        if bounds or len(counts) != len(categories) or not all(type(c) is int and 0 <= c <= MAX_INT for c in counts):
            r.fail("a categorical feature with bounds, or counts that do not fit")
        if len(set(categories)) != len(categories):
            r.fail("categories are repeated")
        values, other = len(categories) + 1, len(categories)
    else:
        r.fail(f"kind {kind[:40]!r}")
    missing = -1
    if missing_bin != -1:
        missing, values = values, values + 1
    if (bins, other_bin, missing_bin) != (values, other, missing):
        r.fail(
            f"{bins} bins, other_bin {other_bin}, missing_bin {missing_bin}, where {values}, {other} and {missing} belong"
        )
    made = None if derived is None else _derived(derived, kind, tables)
    return Feature(name, kind, bins, missing_bin, other_bin, bounds, tuple(categories), made)


def inputs(features: list[Feature], tables: list[LevelTable]) -> tuple[str, ...]:
    """The raw columns that features are made from, in the order in which they first need them."""
    names: dict[str, None] = {}
    for f in features:
        if f.derived is None:
            names.setdefault(f.name)
            continue
        for p in f.derived.of:
            names.setdefault(p.column)
        table = f.derived.table
        while table >= 0:
            for p in tables[table].of:
                names.setdefault(p.column)
            table = tables[table].back_off if f.derived.what == RATE else -1
    return tuple(names)
