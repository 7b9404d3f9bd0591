"""Everything that the package raises on purpose."""

from __future__ import annotations

from typing import Any, Sequence


class Error(Exception):
    """The base of all exceptions of this package."""


class StorageError(Error):
    """A folder or bucket could not be read; trying again may help."""


class NotFoundError(Error):
    """There is no such model, version, alias or file."""


class CorruptError(Error):
    """A file is not what was registered: its length or SHA-256 differs, or a record contradicts itself."""


class FormatError(CorruptError):
    """A file's contents are not what its format allows, or of a format that this package does not know."""


class InputError(Error, ValueError):
    """The table that was handed in cannot be trained on, or encoded.

    Attributes:
        column: name of the column, or None.
        row: position of the row in the table, counted from 0, or None.
        value: the value there, or None.
    """

    def __init__(self, message: str, column: str | None = None, row: int | None = None, value: Any = None) -> None:
        place = "" if column is None else f"column {column!r}"
        if row is not None:
            place += f", row {row} (counted from 0)"
        super().__init__(f"{place}: {message}" if place else message)
        self.column = column
        self.row = row
        self.value = value


def _some(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class MissingColumnsError(InputError):
    """The table lacks columns that the model needs.

    Attributes:
        columns: their names.
    """

    def __init__(self, columns: Sequence[str], present: Sequence[str]) -> None:
        others = {n.lower(): n for n in present}
        names = [repr(c) + (f" (did you mean {others[c.lower()]!r}?)" if c.lower() in others else "") for c in columns]
        super().__init__(
            f"the table lacks {len(columns)} column{'s' * (len(columns) > 1)} that the model needs: "
            f"{_some(names, 10)}; it has {_some([repr(n) for n in present], 20) or 'none'}"
        )
        self.columns = list(columns)


class TypeMismatchError(InputError):
    """A column's type cannot be read as its feature: numbers where times belong, a list, mixed Python objects."""


class ValueParseError(InputError):
    """A text is not the number or time that its feature needs."""


class PrecisionWarning(UserWarning):
    """Identifiers beyond 2^53 came as floating point, where different ones are the same number."""
