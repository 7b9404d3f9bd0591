"""The hashes of levels, for whole arrays at once: internal/dataset/encode/hash.go says the same for one value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED_TEXT = 0x74657874
SEED_NUMBER = 0x6E756D6265
SEED_RANGE = 0x72616E6765
SEED_MISSING = 0x6E756C6C
SEED_LEVEL = 0x6C6576656C

_FNV_BASIS = np.uint64(14695981039346656037)
_FNV_PRIME = np.uint64(1099511628211)
_MASK = (1 << 64) - 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MUL1 = np.uint64(0xBF58476D1CE4E5B9)
_MUL2 = np.uint64(0x94D049BB133111EB)

U64 = np.ndarray  # of dtype uint64


def mix(x: U64) -> U64:
    """The finalizer of splitmix64 after adding the golden ratio; uint64 of any shape in and out."""
    x = np.asarray(x, dtype=np.uint64) + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MUL1
    x = (x ^ (x >> np.uint64(27))) * _MUL2
    return x ^ (x >> np.uint64(31))


def _mix1(x: int) -> np.uint64:
    return mix(np.array([x], dtype=np.uint64))[0]


def missing() -> np.uint64:
    """The hash of a part that is missing."""
    return _mix1(SEED_MISSING)


def numbers(x: np.ndarray) -> U64:
    """The hashes of float64 numbers, shape (n,): NaN is missing, -0 is 0."""
    x = np.asarray(x, dtype=np.float64)
    nan = np.isnan(x)
    out = mix((x + 0.0).view(np.uint64) ^ np.uint64(SEED_NUMBER))
    out[nan] = missing()
    return out


def ranges(i: np.ndarray) -> U64:
    """The hashes of range numbers, shape (n,)."""
    return mix(np.asarray(i).astype(np.uint64) ^ np.uint64(SEED_RANGE))


def texts(strings: pa.Array) -> U64:
    """The hashes of texts without nulls, shape (n,)."""
    return mix(fnv(strings) ^ np.uint64(SEED_TEXT))


def begin(rows: int) -> U64:
    """Where the hash of a level begins, once for every row."""
    return np.full(rows, SEED_LEVEL, dtype=np.uint64)


def join(level: U64, part: U64) -> U64:
    """The level with one more part."""
    return mix(level ^ part)


def fnv(strings: pa.Array) -> U64:
    """FNV-1a of 64 bits of every string's UTF-8, shape (n,).

    It goes by the position of bytes, not by strings: the longest come first, so that those which
    have a byte at a position are the first so many. """
    n = len(strings)
    if n == 0:
        return np.empty(0, dtype=np.uint64)
    starts, lengths, data = string_bytes(strings)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes = np.full(n, _FNV_BASIS, dtype=np.uint64)
    longest = int(lengths[0])
    active = np.searchsorted(-lengths, -np.arange(longest), side="left")  # strings longer than each position
    position = 0
    while position < longest and active[position] >= 4:
        k = int(active[position])
        hashes[:k] = (hashes[:k] ^ data[starts[:k] + position]) * _FNV_PRIME
        position += 1
    for i in range(int(active[position]) if position < longest else 0):  # the few that are much longer than the others
        h = int(hashes[i])
        for byte in data[starts[i] + position : starts[i] + lengths[i]].tobytes():
            h = ((h ^ byte) * 1099511628211) & _MASK
        hashes[i] = h
    out = np.empty_like(hashes)
    out[order] = hashes
    return out


def string_bytes(strings: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the bytes of strings without nulls are: starts and lengths (int64, shape (n,)) in data (uint8)."""
    if not pa.types.is_large_string(strings.type):
        strings = strings.cast(pa.large_string())
    _, offsets, data = strings.buffers()
    at = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    held = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    return at[:-1], np.diff(at), held
