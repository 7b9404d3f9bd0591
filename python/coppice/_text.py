"""What texts mean: numbers, times, missing markers. Functions on arrays work on distinct values;
they never see a row twice."""

from __future__ import annotations

import datetime
import math
import re
import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import _hash

MAX_EXACT = 1 << 53
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_FIRST, _LAST = -62135510400, 253402214399  # a day within those that datetime holds, so that any zone's are, too

_NUMERAL = re.compile(r"[+-]?(?P<whole>[0-9]*)(?P<point>\.(?P<fraction>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]+)?\Z")
_LONG_WHOLE = re.compile(r"(?P<sign>[+-]?)(?P<digits>[1-9][0-9]*)(\.0*)?\Z")
_MONTHS = "january february march april may june july august september october november december".split()
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_LONG_OR_SHORT = {n: "|".join(f"{w}|{w[:3]}" for w in words) for n, words in (("month", _MONTHS), ("weekday", _DAYS))}
_MONTH = rf"(?P<name>{_LONG_OR_SHORT['month']})\.?"
_WEEKDAY = rf"(?:{_LONG_OR_SHORT['weekday']}),? "
_YEAR, _DAY = "(?P<year>[0-9]{4})", "(?P<day>[0-9]{1,2})"
_TAIL = (
    r"(?:[.,](?P<fraction>[0-9]+))?)?(?: ?(?P<noon>[ap])m(?= |\Z))?[ \t]*"
    r"(?P<zone>z|(?-i:UTC|GMT)|[+-][0-9]{2}(?::?[0-9]{2})?)?(?(zone)(?:\[.*\])?|(?P<region>(?-i:[A-Z])[\w+-]*(?:/[\w+-]+)+)?)"
)
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})" + _TAIL
_TIMES = [
    re.compile(f"(?:{date})(?:{between}{clock})?\\Z", re.IGNORECASE | re.ASCII | re.DOTALL)
    for date, between, clock in (
        (_YEAR + "(?P<sep>[-/])(?P<month>[0-9]{1,2})(?P=sep)" + _DAY, "[t ]", _CLOCK),
        (f"(?:{_WEEKDAY})?{_MONTH} {_DAY},? {_YEAR}", "(?:[t:]|,? )", _CLOCK),
        (f"(?:{_WEEKDAY})?{_DAY} {_MONTH} {_YEAR}", "(?:[t:]|,? )", _CLOCK),
        (f"{_DAY}(?P<sep>[/.-]){_MONTH}(?P=sep){_YEAR}", "(?:[t:]|,? )", _CLOCK),
    )
]
_COMPACT = re.compile(
    "(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})t(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})(?:(?P<second>[0-9]{2})"
    + _TAIL
    + "\\Z",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_ORDERED = {
    order: re.compile(f"{date}(?:[t ]{_CLOCK})?\\Z", re.IGNORECASE | re.ASCII | re.DOTALL)
    for order, date in (
        ("dmy", f"{_DAY}(?P<sep>[/.-])(?P<month>[0-9]{{1,2}})(?P=sep){_YEAR}"),
        ("mdy", f"(?P<month>[0-9]{{1,2}})(?P<sep>[/.-]){_DAY}(?P=sep){_YEAR}"),
    )
}


def trim(s: str) -> str:
    """The text without spaces and tabs at both ends."""
    return s.strip(" \t")


def _fold(s: str) -> str:
    """Lower case, as far as the words that are compared with need it."""
    return s.replace("\u017f", "s").lower() if len(s) < 16 else s


def parse_number(s: str) -> float | None:
    """The number that a text spells: decimal, an infinity or NaN; None for all else."""
    s = trim(s)
    m = _NUMERAL.match(s)
    if m and (m["whole"] or m["fraction"]):
        return x if math.isfinite(x := float(s)) else math.nan  # 1e999 is no quantity that a row can have
    word = s[1:] if s[:1] in ("+", "-") else s
    if not 3 <= len(word.encode("utf-8", "surrogatepass")) <= 8:
        return None
    folded = _fold(word)
    if folded in ("inf", "infinity"):
        return -math.inf if s[0] == "-" else math.inf
    return math.nan if folded == "nan" else None


def plain_number(s: str) -> float | None:
    """The number of a text without exponent and leading zeros and of up to 15 digits; None for all else."""
    s = trim(s)
    m = _NUMERAL.match(s)
    if not m or m["exponent"]:
        return None
    whole, fraction = m["whole"], m["fraction"] or ""
    digits = len(whole) + len(fraction)
    if not 1 <= digits <= 15 or (len(whole) > 1 and whole[0] == "0"):
        return None
    return float(s)


def long_whole(s: str) -> str | None:
    """A whole number of whatever length, such as 1234567890123456.0, without a plus and without a
    fraction of zeros; None for all else."""
    m = _LONG_WHOLE.match(s)
    return m["sign"].replace("+", "") + m["digits"] if m else None


def parse_forced(s: str) -> float | None:
    """As parse_number, and true and false are 1 and 0."""
    x = parse_number(s)
    if x is None:
        return {"true": 1.0, "false": 0.0}.get(_fold(trim(s)))
    return x


def truth(s: str) -> bool | None:
    """True or False where the text says so in whatever case."""
    return {"true": True, "false": False}.get(_fold(trim(s)))


def number_text(x: float) -> str:
    """The text of a number: of whole ones up to 2^53 decimal digits, of others the shortest that
    reads back the same."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "+Inf" if x > 0 else "-Inf"
    if x == math.trunc(x) and abs(x) <= MAX_EXACT:
        return str(int(x))
    mantissa, exponent = _shortest(x)
    sign = "-" if x < 0 else ""
    if exponent < -4 or exponent >= 6:
        return f"{sign}{mantissa[0]}{'.' if len(mantissa) > 1 else ''}{mantissa[1:]}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{mantissa}"
    return f"{sign}{mantissa[: exponent + 1]}.{mantissa[exponent + 1 :]}"


def _shortest(x: float) -> tuple[str, int]:
    """The shortest digits of a finite number that read back the same, and the decimal exponent of the first one."""
    text, _, exponent = repr(abs(x)).partition("e")
    whole, _, fraction = text.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) + len(fraction) - len(digits)
    return digits.rstrip("0"), len(whole) + int(exponent or 0) - leading - 1


class Missing:
    """The texts that stand for a missing value, and the numbers among them."""

    def __init__(self, tokens: list[str]) -> None:
        self.texts = sorted({trim(t) for t in tokens})
        numbers = [x for x in (parse_number(t) for t in tokens) if x is not None and not math.isnan(x)]
        self.numbers = np.array(sorted(set(numbers)), dtype=np.float64)
        self._texts = pa.array(self.texts, type=pa.large_string())

    def has(self, trimmed: pa.Array) -> np.ndarray:
        """Of trimmed texts, shape (n,): which stand for a missing value (bool)."""
        return to_bool(pc.is_in(trimmed, value_set=self._texts))

    def has_number(self, x: np.ndarray) -> np.ndarray:
        """Of float64 numbers, shape (n,): which stand for a missing value (bool)."""
        return np.isin(x, self.numbers) if len(self.numbers) else np.zeros(len(x), dtype=bool)


def to_bool(a: pa.Array) -> np.ndarray:
    """A boolean Arrow array without nulls as numpy."""
    return a.to_numpy(zero_copy_only=False).astype(bool, copy=False)


def trimmed(strings: pa.Array) -> pa.Array:
    """All texts without spaces and tabs at both ends."""
    return pc.utf8_trim(strings, characters=" \t")


_DIGITS = r"^(0|[1-9][0-9]{0,14})$"
_PLAIN = r"^[+-]?[0-9]*\.?[0-9]*$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUTH = r"^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"


def _matches(strings: pa.Array, pattern: str) -> np.ndarray:
    return to_bool(pc.match_substring_regex(strings, pattern))


def hash_texts(strings: pa.Array, markers: Missing) -> np.ndarray:
    """The hashes that distinct texts of a categorical column contribute to levels: uint64, shape (n,).

    Without spaces around it; a plain number as the shortest way to write it, a truth value in lower
    case: 1001, 1001.0 and " 1001" are one id. """
    t = trimmed(strings)
    gone = markers.has(t)
    odd = _matches(t, _PLAIN)
    if not len(markers.numbers):  # short whole numbers are written in the shortest way already
        odd &= ~_matches(t, _DIGITS)
    odd |= _matches(t, _TRUTH)
    odd &= ~gone
    if odd.any():
        replacement = []
        for i, s in zip(np.flatnonzero(odd), t.filter(pa.array(odd)).to_pylist()):
            x = plain_number(s)
            if x is None:
                t_or_f, whole = truth(s), long_whole(s)
                replacement.append(whole or (s if t_or_f is None else str(t_or_f).lower()))
                continue
            gone[i] = bool(markers.has_number(np.array([x]))[0])
            replacement.append(number_text(x))
        t = pc.replace_with_mask(t, pa.array(odd), pa.array(replacement, type=t.type))
    out = _hash.texts(t)
    out[gone] = _hash.missing()
    return out


def numbers_of(strings: pa.Array, markers: Missing) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of distinct texts: float64 with NaN for missing ones, and which texts are no
    numbers (bool); both of shape (n,)."""
    t = trimmed(strings)
    gone = markers.has(t)
    out = np.full(len(strings), np.nan)
    bad = np.zeros(len(strings), dtype=bool)
    decimal = _matches(t, _DECIMAL) & ~gone
    out[decimal] = [float(s) for s in t.filter(pa.array(decimal)).to_pylist()]
    out[np.isinf(out)] = np.nan
    rest = ~decimal & ~gone
    for i, s in zip(np.flatnonzero(rest), t.filter(pa.array(rest)).to_pylist()):
        x = parse_forced(s)
        if x is None:
            bad[i] = True
        else:
            out[i] = x
    out[markers.has_number(out)] = np.nan
    return out, bad


def times_of(strings: pa.Array, markers: Missing) -> tuple[np.ndarray, np.ndarray]:
    """The times of distinct texts: float64 seconds since 1970 UTC with NaN for missing ones, and
    which texts are no times (bool)."""
    t = trimmed(strings)
    gone = markers.has(t)
    out = np.full(len(strings), np.nan)
    bad = np.zeros(len(strings), dtype=bool)
    rest = ~gone
    starts, lengths, data = _hash.string_bytes(t)
    for length in np.unique(lengths[rest]):
        if 10 <= length <= 30:
            group = np.flatnonzero(rest & (lengths == length))
            seconds, ok = _fixed_times(data[starts[group][:, None] + np.arange(length)])
            out[group[ok]] = seconds[ok]
            rest[group[ok]] = False
    for i, s in zip(np.flatnonzero(rest), t.filter(pa.array(rest)).to_pylist()):
        x = parse_time(s)
        if x is None:
            bad[i] = True
        else:
            out[i] = x
    return out, bad


def seconds(sec: np.ndarray, nsec: np.ndarray) -> np.ndarray:
    """Whole seconds and nanoseconds above them (int64) as float64 seconds."""
    whole = sec.astype(np.float64)
    return np.where(nsec == 0, whole, whole + nsec.astype(np.float64) / 1e9)


def days_since_1970(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of dates in the Gregorian calendar (int64): H. Hinnant, days_from_civil."""
    y = year - (month <= 2)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


def _days_in(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month] + (leap & (month == 2))


def _fixed_times(chars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times of texts of one length, shape (n, length), in the forms that nearly all tables have; ok
    says which are in one of them: 2017-07-02, 2017-07-02 10:03, 2017-07-02T10:03:20,
    2017-07-02T10:03:20.123456, each with a time also with Z. """
    n, length = chars.shape
    digit = chars.astype(np.int64) - ord("0")
    is_digit = (digit >= 0) & (digit <= 9)
    zulu = (chars[:, -1] | 0x20) == ord("z")
    seconds_out, ok_out = np.zeros(n), np.zeros(n, dtype=bool)
    for has_zone in (False, True):
        end = length - has_zone
        if end not in (10, 16, 19) and not 21 <= end <= 29 or has_zone and end == 10:
            continue
        ok = zulu == has_zone
        number = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}
        for at in (4, 7):
            ok &= chars[:, at] == ord("-")
        if end >= 16:
            number |= {"hour": (11, 13), "minute": (14, 16)}
            ok &= ((chars[:, 10] | 0x20) == ord("t")) | (chars[:, 10] == ord(" "))
            ok &= chars[:, 13] == ord(":")
        if end >= 19:
            number["second"] = (17, 19)
            ok &= chars[:, 16] == ord(":")
        if end > 19:
            number["fraction"] = (20, end)
            ok &= (chars[:, 19] == ord(".")) | (chars[:, 19] == ord(","))
        v = {name: np.zeros(n, dtype=np.int64) for name in ("hour", "minute", "second", "fraction")}
        for name, (lo, hi) in number.items():
            ok &= is_digit[:, lo:hi].all(axis=1)
            v[name] = digit[:, lo:hi] @ (10 ** np.arange(hi - lo - 1, -1, -1, dtype=np.int64))
        ok &= (v["month"] >= 1) & (v["month"] <= 12) & (v["hour"] <= 23) & (v["minute"] <= 59) & (v["second"] <= 59)
        month = np.where(ok, v["month"], 1)
        year = np.where(ok, v["year"], 1970)
        ok &= (v["day"] >= 1) & (v["day"] <= _days_in(year, month))
        sec = days_since_1970(year, month, v["day"]) * 86400 + v["hour"] * 3600 + v["minute"] * 60 + v["second"]
        nsec = v["fraction"] * 10 ** (9 - (end - 20)) if end > 19 else v["fraction"]
        seconds_out[ok] = seconds(sec, nsec)[ok]
        ok_out |= ok
    return seconds_out, ok_out


def parse_time(s: str) -> float | None:
    """Seconds since 1970 UTC of a date or a time that can be read in one way; None for all else."""
    moment = parse_moment(s)
    return None if moment is None else float(moment[0]) if moment[1] == 0 else float(moment[0]) + moment[1] / 1e9


def parse_moment(s: str, order: str = "") -> tuple[int, int] | None:
    """Seconds since 1970 UTC, and nanoseconds, of a date or a time that can be read in one way, or of one whose numbers
    are in the order dmy or mdy; one without a zone is UTC. None for all else."""
    s = trim(s)
    patterns = [*_TIMES, _COMPACT, *([_ORDERED[order]] if order else [])]
    m = next((m for p in patterns if (m := p.match(s))), None)
    if not m or m.re is _COMPACT and m["second"] is None:
        return None
    of = m.groupdict()
    year, day = int(of["year"]), int(of["day"])
    month = int(of["month"]) if of.get("month") else 1 + [w[:3] for w in _MONTHS].index(of["name"][:3].lower())
    hour, minute, second = int(of["hour"] or 0), int(of["minute"] or 0), int(of["second"] or 0)
    if (
        not 1 <= month <= 12
        or not 1 <= day <= int(_days_in(np.int64(year), np.int64(month)))
        or hour > 23
        or minute > 59
        or second > 59
    ):
        return None
    if of["noon"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if of["noon"] in "Pp" else 0)
    days = int(days_since_1970(np.int64(year), np.int64(month), np.int64(day)))
    local = days * 86400 + hour * 3600 + minute * 60 + second
    offset = _offset(of["zone"], of["region"], local)
    if offset is None:
        return None
    nsec = int((of["fraction"] or "")[:9].ljust(9, "0"))
    return local - offset, nsec


def _marked(thousands: str, decimal: str) -> re.Pattern[str]:
    grouped = "".join(f"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+|" for mark in (thousands, "'", "[ \u00a0\u202f]"))
    return re.compile(
        f"(?P<sign>[+-]?)[$€£¥₹]?[ \u00a0]?(?P<later>[+-]?)(?P<whole>{grouped}0|[1-9][0-9]*|)(?:{decimal}(?P<fraction>[0-9]+))?"
        "(?P<exponent>[eE][+-]?[0-9]+)?[ \u00a0\u202f]?(?P<mark>%|[$€£¥₹]|[kKM]B?|[GT]B)?\\Z"
    )


_MARKED = {"number": _marked(",", r"\."), "decimal_comma": _marked(r"\.", ",")}
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def parse_marked(s: str, form: str) -> float | None:
    """The number of a text with marks for a reader, such as 1,234.50, $4.99, 12 %, 25M; None for all else."""
    if form == "number" and (x := parse_number(s)) is not None:
        return x
    m = _MARKED[form].match(trim(s))
    if not m or not m["whole"] and m["fraction"] is None or m["sign"] and m["later"]:
        return None
    digits = re.sub("[^0-9]", "", m["whole"])
    x = float(f"{m['sign']}{m['later']}0{digits}.{m['fraction'] or ''}0{m['exponent'] or ''}")
    return x * _SCALES.get((m["mark"] or "")[:1], 1.0)


def in_format(strings: pa.Array, form: str, markers: Missing) -> tuple[pa.Array, np.ndarray]:
    """The values of distinct texts in a format, as float64 or as int64 microseconds since 1970, and which texts are not
    in it (bool)."""
    gone = markers.has(trimmed(strings))
    out: list[float | int | None] = []
    bad = np.zeros(len(strings), dtype=bool)
    times = form not in _MARKED
    for i, s in enumerate(strings.to_pylist()):
        x: float | int | None = None
        if not gone[i]:
            if times and (moment := parse_moment(s, form)):
                x = moment[0] * 10**6 + moment[1] // 1000
            elif not times:
                x = parse_marked(s, form)
            bad[i] = x is None
        out.append(x)
    return pa.array(out, type=pa.int64() if times else pa.float64()), bad


def _offset(zone: str | None, region: str | None, local: int) -> int | None:
    """Seconds east of UTC at a local time; None where there is no such zone."""
    if region:
        try:
            at, offset = zoneinfo.ZoneInfo(region), 0
            for _ in range(2):  # where clocks are put back, or forward, the second lookup decides, as in Go
                moment = _EPOCH + datetime.timedelta(seconds=min(max(local - offset, _FIRST), _LAST))
                offset = round(moment.astimezone(at).utcoffset().total_seconds())
        except (ValueError, OSError, OverflowError, zoneinfo.ZoneInfoNotFoundError):
            return None
        return offset
    if not zone or zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 18 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def time_text(sec: int, nsec: int, day: bool) -> str:
    """A time as ISO 8601 in UTC: of a column of days the date, else with as many digits of a second as it has."""
    days, rest = divmod(sec, 86400)
    year, month, date = _civil(days)
    years = f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    text = f"{years}-{month:02d}-{date:02d}"
    if day:
        return text
    fraction = f".{nsec:09d}".rstrip("0") if nsec else ""
    return f"{text}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{fraction}Z"


def _civil(days: int) -> tuple[int, int, int]:
    z = days + 719468
    era, doe = divmod(z, 146097)
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1
