"""What a filter may say about a corpus: its own fields and values, and dates; and less, where that finds nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, get_args

from rag_utils.corpora.dates import iso_day
from rag_utils.filters.conditions import MEMBERSHIP, RANGES, Where, as_mapping, as_number, as_text, several, to_chroma

Sources = Iterable[str] | Mapping[str, Iterable[Any] | None]
Mode = Literal["sound", "paper"]
Dropped = dict[str, list[Any]]
"""What was dropped, by field: values as they were written, or a whole condition that cannot be meant."""

_DATE = "published_at"
_MONTHS = "January February March April May June July August September October November December".split()


def allowed_fields(sources: Sources) -> dict[str, tuple[Any, ...] | None]:
    """Fields that a filter may use, with their allowed values in order of the alphabet; None = any date or number.

    Args:
        sources: Names of outlets, short for `{"source": names}`, or a mapping of fields to their allowed values.
            `published_at` is added as any date, None among values is none, and of values with one text one stays.

    Raises:
        ValueError: A text where a list of values belongs.
    """
    fields = sources if isinstance(sources, Mapping) else {"source": sources}
    allowed: dict[str, tuple[Any, ...] | None] = {}
    for name, values in fields.items():
        if isinstance(values, str):
            raise ValueError(f"the allowed values of {name!r} are the text {values!r}: give a list of values")
        distinct = None if values is None else {as_text(value): value for value in values if value is not None}
        allowed[name] = None if distinct is None else tuple(distinct[text] for text in sorted(distinct))
    allowed.setdefault(_DATE, None)
    return allowed


def validate_filter(where: Where | None, sources: Sources, mode: Mode = "sound") -> tuple[dict[str, Any], Dropped]:
    """The part of a filter that may be used, and what was dropped from it.

    "sound" keeps fields and values that `allowed_fields` names (case and outer blanks are repaired, repeats go), dates
    that name a day, written "March 3, 2024", and operators that `matches` knows; a bad value takes no good one with it,
    and a condition without values goes. Of `$or` an alternative goes of which nothing is left, and all of it
    with an alternative that states nothing. The result is a filter that `matches` and `to_chroma` accept.

    "paper" does what the authors' script does (`clean_filter` of Multi-Meta-RAG): fields other than `source` and
    `published_at` go; so does a `published_at` that is no mapping of operators to lists of days "March 3, 2024";
    `source` stays as it is, unknown outlets included.

    Raises:
        KeyError: In paper mode, a list with a bad day is followed by another operator; the script stops there.
        ValueError: An unknown mode, or sources that `allowed_fields` refuses.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r} is not known: use one of {get_args(Mode)}")
    if mode == "paper":
        return _as_published(as_mapping(where))
    cleaner = _Cleaner(allowed_fields(sources))
    return cleaner.cleaned(as_mapping(where)), cleaner.dropped


def relax(where: Where | None, sources: Sources) -> list[tuple[str, dict[str, Any]]]:
    """The filter and ever weaker ones, for a search that goes on until it finds something.

    Returns:
        Pairs of rung and filter: "as asked", "without dates", "known outlets only" (sound validation) and always, as
        the last, "no filter" with {}. A rung that changes nothing is left out.
    """
    asked = dict(as_mapping(where))
    undated = _without_dates(asked)
    known, _ = validate_filter(undated, sources)
    rungs: dict[str, dict[str, Any]] = {}
    for rung, weaker in (("as asked", asked), ("without dates", undated), ("known outlets only", known)):
        if weaker and weaker not in rungs.values():
            rungs[rung] = weaker
    return [*rungs.items(), ("no filter", {})]


def _without_dates(where: Where) -> dict[str, Any]:
    """An `$or` goes as a whole with a date in it that stood alone: without it more must pass, not fewer."""
    kept: dict[str, Any] = {}
    for name, value in where.items():
        if name in ("$and", "$or"):
            left = [part for part in map(_without_dates, value) if part]
            if left and (name == "$and" or len(left) == len(value)):
                kept[name] = left
        elif name != _DATE:
            operands = value.values() if isinstance(value, Mapping) else [value]
            if not any(iso_day(one) for operand in operands for one in several(operand)):
                kept[name] = value
    return kept


@dataclass
class _Cleaner:
    """Sound validation of one filter; collects what it drops."""

    allowed: Mapping[str, tuple[Any, ...] | None]
    dropped: Dropped = field(default_factory=dict)

    def cleaned(self, where: Where) -> dict[str, Any]:
        kept = {name: self._condition(name, value) for name, value in where.items()}
        return {name: condition for name, condition in kept.items() if condition is not None}

    def _drop(self, name: object, value: Any) -> Any:
        self.dropped.setdefault(str(name), []).append(value)

    def _condition(self, name: str, value: Any) -> Any:
        if name in ("$and", "$or"):
            return self._group(name, value)
        if name not in self.allowed:
            return self._drop(name, value)
        if not isinstance(value, Mapping):
            return self._operand(name, "$in", value)
        kept = {named: self._operand(name, named, operand) for named, operand in value.items()}
        return {named: operand for named, operand in kept.items() if operand is not None} or None

    def _group(self, name: str, parts: Any) -> list[dict[str, Any]] | None:
        readable = isinstance(parts, list | tuple) and all(isinstance(part, Mapping) for part in parts)
        if not readable or (name == "$or" and any(map(_is_no_condition, parts))):
            return self._drop(name, parts)
        return [part for part in map(self.cleaned, parts) if part] or None

    def _operand(self, name: str, named: str, operand: Any) -> Any:
        """The good values in the form of the operand, one or a list; None if there are none."""
        written = several(operand)
        if named not in MEMBERSHIP.keys() | RANGES.keys() or not written:
            return self._drop(name, {named: operand})
        good: dict[Any, None] = {}
        for value in written:
            canonical = self._canonical(name, value)
            if canonical is None or (named in RANGES and not _has_order(canonical)):
                self._drop(name, value)
            else:
                good[canonical] = None
        return (list(good) or None) if written is operand else next(iter(good), None)

    def _canonical(self, name: str, value: Any) -> Any:
        """The allowed value that is meant, or the date or number; None if there is none."""
        allowed = self.allowed[name]
        if allowed is not None:
            exact = [own for own in allowed if as_text(own) == as_text(value)]
            return next(iter(exact or [own for own in allowed if _folded(own) == _folded(value)]), None)
        day = iso_day(value)
        if day:
            return _written(date.fromisoformat(day))
        return value if name != _DATE and _has_order(value) else None


def _is_no_condition(where: Where) -> bool:
    try:
        return to_chroma(where) is None
    except ValueError:
        return False


def _folded(value: object) -> str:
    return iso_day(value) or as_text(value).strip().casefold()


def _has_order(value: object) -> bool:
    return bool(iso_day(value)) or as_number(value) is not None


def _written(day: date) -> str:
    """As in Multi-Meta-RAG's filters, whatever the locale."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year:04}"


def _as_published(where: Where) -> tuple[dict[str, Any], Dropped]:
    """The authors' cleaner, its edge cases included: an empty list of days passes, and days with a leading zero."""
    kept = {name: value for name, value in where.items() if name in ("source", _DATE)}
    dropped = {str(name): [value] for name, value in where.items() if name not in kept}
    dates = kept.get(_DATE, {})
    operands = list(dates.values()) if isinstance(dates, dict) else [None]
    bad = next((n for n, operand in enumerate(operands, 1) if not _are_written_days(operand)), None)
    if bad and isinstance(operands[bad - 1], list) and bad < len(operands):
        raise KeyError(_DATE)
    if bad:
        dropped[_DATE] = [kept.pop(_DATE)]
    return kept, dropped


def _are_written_days(operand: Any) -> bool:
    try:
        for day in operand:
            datetime.strptime(day, "%B %d, %Y")
    except (TypeError, ValueError):
        return False
    return isinstance(operand, list)
