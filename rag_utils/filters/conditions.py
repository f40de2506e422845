"""Filters on metadata: what a `where` means, in pure Python and as the store's own condition.

A filter maps fields to values, and all of its conditions have to hold:
`{"source": {"$in": ["Tin Post"]}, "published_at": {"$gte": "March 3, 2024"}}`. A bare value means equality, a list
`$in`; `$and` and `$or` take lists of filters, nothing else. `None`, `{}`, an empty list and a missing value are no
condition.

Values compare by what they name. Dates, in any form that `iso_day` reads, compare by the day. Text compares exactly,
and a number also with its text ("2023" and 2023 are the same year). A record without the field passes `$ne` and `$nin`,
as in Chroma, and no other condition. Ranges need dates or numbers.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from rag_utils.corpora.dates import iso_day

Where = Mapping[str, Any]
Metadata = Mapping[str, Any]
Condition = dict[Any, Any]
"""A filter read: as in Chroma, but a field stands beside the kind of its value ("day", "number" or "text")."""

_KINDS = ("text", "number", "day")
RANGES = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
MEMBERSHIP = {"$in": "$in", "$eq": "$in", "$nin": "$nin", "$ne": "$nin"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def matches(where: Where | None, metadata: Metadata) -> bool:
    """Whether a record passes the filter; for many records, make one `matcher`.

    Raises:
        ValueError: An operator that is not known, a range that is neither of dates nor of numbers, a field that is no
            text, or `$and` or `$or` of anything but a list.
    """
    return matcher(where)(metadata)


def matcher(where: Where | None) -> Callable[[Metadata], bool]:
    """The filter as a test of records, read once; raises as `matches` does."""
    condition = _read(where)
    return lambda metadata: condition is None or _holds(condition, metadata)


def to_chroma(where: Where | None) -> dict[str, Any] | None:
    """The filter in forms that Chroma accepts, for records stored with `chroma_metadata`; None = no condition.

    Dates compare on an integer (20240303) in a field of its own, `published_day` for `published_at`.

    Raises:
        ValueError: As `matches`.
    """
    condition = _read(where)
    return None if condition is None else _written(condition)


def chroma_metadata(metadata: Metadata) -> dict[str, str | int | float]:
    """A record's metadata as Chroma keeps it: each date also as an integer, truth as text, no empty values."""
    readings = ((_column(field, kind), _stored(value, kind)) for field, value in metadata.items() for kind in _KINDS)
    return {column: value for column, value in readings if value is not None}


def _holds(condition: Condition, metadata: Metadata) -> bool:
    ((key, wanted),) = condition.items()
    if key in ("$and", "$or"):
        return (all if key == "$and" else any)(_holds(part, metadata) for part in wanted)
    (field, kind), ((named, operand),) = key, wanted.items()
    value = _stored(metadata.get(field), kind)
    if named in RANGES:
        return value is not None and RANGES[named](value, operand)
    return (value in operand) == (named == "$in")


def _written(condition: Condition) -> dict[str, Any]:
    ((key, wanted),) = condition.items()
    return {key: [_written(part) for part in wanted]} if key in ("$and", "$or") else {_column(*key): wanted}


def _column(field: str, kind: str) -> str:
    return f"{field.removesuffix('_at')}_day" if kind == "day" else field


def _stored(value: object, kind: str) -> Any:
    """A record's value as text, number or day (20240303); None where it is none, a number being no text.

    Numbers become floats: Chroma cuts a filter's 2022.5 to 2022 before it compares it with integers (seen in 1.5.9).
    """
    if kind == "day":
        day = iso_day(value)
        return int(day.replace("-", "")) if day else None
    if isinstance(value, Real) and not isinstance(value, bool):
        return as_number(value) if kind == "number" else None
    return None if value is None or kind == "number" else as_text(value)


def _wanted(value: object) -> dict[str, Any]:
    """What a filter's value may be in a record, by kind: a day, else a text, and a number if it reads as one."""
    day, text = _stored(value, "day"), as_text(value)
    if day:
        return {"day": day}
    number = as_number(value)
    return {"text": text} if number is None else {"number": number, "text": text}


def as_text(value: object) -> str:
    """A value as conditions compare it: a number without a needless ".0", truth in small letters."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{float(value):.15g}" if isinstance(value, Real) and not isinstance(value, Integral) else str(value)


def as_number(value: object) -> float | None:
    """A number, also numpy's, or a text that writes one; None for all else, truth and NaN among it."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value) if value == value else None
    text = as_text(value)
    return float(text) if _NUMBER.fullmatch(text) else None


def _read(where: Where | None) -> Condition | None:
    """The condition that the filter states; None if it states none."""
    parts: list[Condition | None] = []
    for field, value in as_mapping(where).items():
        if not isinstance(field, str):
            raise ValueError(f"{field!r} is no field: a filter's fields are named by text, got {where!r}")
        if field in ("$and", "$or"):
            if not isinstance(value, list | tuple):
                raise ValueError(f"{field} takes a list of filters, got {value!r}: write it in [ ]")
            parts.append(_joined(field, [_read(part) for part in value]))
        elif field.startswith("$"):
            raise _unknown(field, "")
        else:
            conditions = value if isinstance(value, Mapping) else {"$in": value}
            parts += [part for named, operand in conditions.items() for part in _clauses(field, named, operand)]
    return _joined("$and", parts)


def as_mapping(where: Any) -> Where:
    """The filter, {} for None, with arrays and the like as lists; ValueError if it is no mapping."""
    if not isinstance(where, Mapping | None):
        raise ValueError(f"a filter maps fields to conditions, got {where!r}")
    return {field: _listed(value) for field, value in (where or {}).items()}


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _listed(operand) for name, operand in value.items()}
    if isinstance(value, str | bytes | tuple | set | frozenset) or not isinstance(value, Collection):
        return value
    return [_listed(one) for one in value]


def _joined(named: str, parts: Sequence[Condition | None]) -> Condition | None:
    """Chroma refuses a group of one. Where one alternative is no condition, all records pass, so the whole is none."""
    stated = [part for part in parts if part]
    if not stated or (named == "$or" and len(stated) < len(parts)):
        return None
    return stated[0] if len(stated) == 1 else {named: stated}


def _clauses(field: str, named: str, operand: Any) -> Iterator[Condition | None]:
    """The operand is one value or several: all bounds hold, and any (or, negated, none) of the values."""
    wanted = [_wanted(one) for one in several(operand) if one is not None]
    if named in RANGES:
        for one in wanted:
            kind = next(iter(one))
            if kind == "text":
                raise ValueError(f"{field!r}: {named} needs a number or a date, got {operand!r} (dates: YYYY-MM-DD)")
            yield {(field, kind): {named: one[kind]}}
    elif named in MEMBERSHIP:
        by_kind: dict[str, list[Any]] = {}
        for kind, value in (reading for one in wanted for reading in one.items()):
            by_kind.setdefault(kind, []).append(value)
        parts = [{(field, kind): {MEMBERSHIP[named]: values}} for kind, values in by_kind.items()]
        yield _joined("$or" if MEMBERSHIP[named] == "$in" else "$and", parts)
    else:
        raise _unknown(named, field)


def several(value: Any) -> Collection[Any]:
    """One value or several, as several; what is several already is returned itself."""
    return value if isinstance(value, list | tuple | set | frozenset) else [value]


def _unknown(named: str, field: str) -> ValueError:
    known = ", ".join([*MEMBERSHIP, *RANGES])
    return ValueError(f"operator {named!r} of field {field!r} is not known: use {known}, and $and, $or between filters")
