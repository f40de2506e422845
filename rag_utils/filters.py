"""Filters on metadata: what a `where` means, in pure Python and as the store's own condition.

A filter maps fields to values, and all of its conditions have to hold:
`{"source": {"$in": ["Tin Post"]}, "published_at": {"$gte": "March 3, 2024"}}`. A bare value means equality, a list
`$in`; `$and` and `$or` take lists of filters. `None`, `{}`, an empty list and a missing value are no condition.

Values compare by what they name. Dates, in any form that `iso_day` reads, compare by the day. Text compares exactly,
and a number also with its text ("2023" and 2023 are the same year). A record without the field passes `$ne` and `$nin`,
as in Chroma, and no other condition. Ranges need dates or numbers.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rag_utils.corpora.dates import iso_day

Where = Mapping[str, Any]
Metadata = Mapping[str, Any]
Reading = tuple[str, Any]
"""A value as a "day", a "number" or a "text"."""

_RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def matches(where: Where | None, metadata: Metadata) -> bool:
    """Whether a record passes the filter; for many records, make one `matcher`.

    Raises:
        ValueError: An operator that is not known, or a range that is neither of dates nor of numbers.
    """
    return matcher(where)(metadata)


def matcher(where: Where | None) -> Callable[[Metadata], bool]:
    """The filter as a test of records, read once; raises as `matches` does."""
    condition = _parsed(where or {})
    return condition.holds if condition else lambda metadata: True


def to_chroma(where: Where | None) -> dict[str, Any] | None:
    """The filter in forms that Chroma accepts, for records stored with `chroma_metadata`; None = no condition.

    Dates compare on an integer (20240303) in a field of its own, `published_day` for `published_at`.

    Raises:
        ValueError: As `matches`.
    """
    condition = _parsed(where or {})
    return condition.chroma() if condition else None


def chroma_metadata(metadata: Metadata) -> dict[str, str | int | float]:
    """A record's metadata as Chroma keeps it: each date also as an integer, truth as text, no empty values.

    Numbers become floats: Chroma cuts a filter's 2022.5 to 2022 before it compares it with integers (seen in 1.5.9).
    """
    stored: dict[str, str | int | float] = {}
    for field, value in metadata.items():
        for kind, reading in _stored(value):
            stored[_column(field, kind)] = float(reading) if kind == "number" else reading
    return stored


def _stored(value: object) -> list[Reading]:
    """What a record's value is: itself, and its day if it is a date."""
    if value is None:
        return []
    day = iso_day(value)
    own = (
        ("number", value) if isinstance(value, int | float) and not isinstance(value, bool) else ("text", _text(value))
    )
    return [own, ("day", _integer(day))] if day else [own]


def _wanted(value: object) -> list[Reading]:
    """What a filter's value may be in a record."""
    day, text = iso_day(value), _text(value)
    if day:
        return [("day", _integer(day))]
    if _NUMBER.fullmatch(text):
        return [("number", float(text) if "." in text else int(text)), ("text", text)]
    return [("text", text)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _integer(day: str) -> int:
    return int(day.replace("-", ""))


def _column(field: str, kind: str) -> str:
    return f"{field.removesuffix('_at')}_day" if kind == "day" else field


class _Condition(Protocol):
    def holds(self, metadata: Metadata) -> bool: ...

    def chroma(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class _Among:
    """The field has one of the values, or none of them."""

    field: str
    wanted: frozenset[Reading]
    negated: bool

    def holds(self, metadata: Metadata) -> bool:
        return self.wanted.isdisjoint(_stored(metadata.get(self.field))) == self.negated

    def chroma(self) -> dict[str, Any]:
        by_kind: dict[str, list[Any]] = defaultdict(list)
        for kind, value in sorted(self.wanted, key=str):
            by_kind[kind].append(value)
        if any(isinstance(number, float) for number in by_kind["number"]):
            by_kind["number"] = [float(number) for number in by_kind["number"]]  # a list has to be of one type
        named = "$nin" if self.negated else "$in"
        parts = [{_column(self.field, kind): {named: values}} for kind, values in by_kind.items() if values]
        return _joined("$and" if self.negated else "$or", parts)


@dataclass(frozen=True)
class _Bound:
    """The field lies on one side of a day or a number."""

    field: str
    operator: str
    kind: str
    bound: Any

    def holds(self, metadata: Metadata) -> bool:
        values = [value for kind, value in _stored(metadata.get(self.field)) if kind == self.kind]
        return any(_RANGES[self.operator](value, self.bound) for value in values)

    def chroma(self) -> dict[str, Any]:
        return {_column(self.field, self.kind): {self.operator: self.bound}}


@dataclass(frozen=True)
class _Group:
    """All or any of several conditions."""

    operator: str
    parts: tuple[_Condition, ...]

    def holds(self, metadata: Metadata) -> bool:
        return (all if self.operator == "$and" else any)(part.holds(metadata) for part in self.parts)

    def chroma(self) -> dict[str, Any]:
        return _joined(self.operator, [part.chroma() for part in self.parts])


def _joined(named: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Chroma refuses a group of one."""
    return parts[0] if len(parts) == 1 else {named: parts}


def _parsed(where: Where) -> _Condition | None:
    """The condition that the filter states; None if it states none."""
    if not isinstance(where, Mapping):
        raise ValueError(f"a filter maps fields to conditions, got {where!r}")
    return _group("$and", [_clause(*clause) for clause in _clauses(where)])


def _group(named: str, parts: list[_Condition | None]) -> _Condition | None:
    """Where one alternative is no condition, all records pass, so the whole is none."""
    stated = [part for part in parts if part]
    if not stated or (named == "$or" and len(stated) < len(parts)):
        return None
    return stated[0] if len(stated) == 1 else _Group(named, tuple(stated))


def _clauses(where: Where) -> Iterator[tuple[str, str, Any]]:
    """Triples of field, operator and operand; groups have no field."""
    for key, value in where.items():
        if key.startswith("$"):
            yield "", key, value
        elif isinstance(value, Mapping):
            yield from ((key, named, operand) for named, operand in value.items())
        else:
            yield key, "$in", value


def _clause(field: str, named: str, operand: Any) -> _Condition | None:
    operands = list(operand) if isinstance(operand, list | tuple | set | frozenset) else [operand]
    if not field and named in ("$and", "$or"):
        return _group(named, [_parsed(part) for part in operands])
    operands = [one for one in operands if one is not None]
    if field and named in ("$in", "$eq", "$nin", "$ne"):
        wanted = frozenset(reading for one in operands for reading in _wanted(one))
        return _Among(field, wanted, negated=named in ("$nin", "$ne")) if wanted else None
    if field and named in _RANGES:
        return _group("$and", [_bound(field, named, one) for one in operands])
    known = ", ".join(["$in", "$nin", "$eq", "$ne", *_RANGES])
    raise ValueError(f"operator {named!r} of field {field!r} is not known: use {known}, and $and, $or between filters")


def _bound(field: str, named: str, operand: object) -> _Condition:
    kind, value = _wanted(operand)[0]
    if kind == "text":
        raise ValueError(f"{field!r}: {named} needs a number or a date, got {operand!r} (dates: YYYY-MM-DD)")
    return _Bound(field, named, kind, value)
