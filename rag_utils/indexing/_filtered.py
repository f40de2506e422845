"""Which chunks a filter leaves, asked once for each distinct combination of the values it looks at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_utils.filters import matcher


@dataclass(frozen=True)
class _Combinations:
    """The distinct values that chunks have in some fields."""

    values: list[dict[str, Any]]
    rows: list[np.ndarray]
    """For each combination the numbers of its chunks."""
    of_row: np.ndarray
    """For each chunk the number of its combination."""


class MetadataTable:
    """Metadata of chunks, made for filtering: thousands of chunks share a few outlets and dates.

    A filter on one of 49 outlets costs 49 tests, however many chunks there are.
    """

    def __init__(self, metadata: Sequence[Mapping[str, Any]]):
        self._metadata = metadata
        self._combinations: dict[tuple[str, ...], _Combinations] = {}

    def rows(self, where: Mapping[str, Any]) -> np.ndarray:
        """Numbers of the chunks that satisfy the filter, in no order; raises as `filters.matches` does."""
        left: np.ndarray | None = None
        for key, condition in where.items():  # all have to hold, so the values of several fields need not be combined
            combinations, satisfied = self._satisfied({key: condition})
            if left is None:
                left = _joined([combinations.rows[i] for i in np.flatnonzero(satisfied)])
            else:
                left = left[satisfied[combinations.of_row[left]]]
        return np.arange(len(self._metadata)) if left is None else left

    def _satisfied(self, where: Mapping[str, Any]) -> tuple[_Combinations, np.ndarray]:
        satisfies = matcher(where)
        fields = tuple(sorted(set(_fields(where))))
        if fields not in self._combinations:
            self._combinations[fields] = self._combine(fields)
        combinations = self._combinations[fields]
        return combinations, np.array([satisfies(values) for values in combinations.values], dtype=bool)

    def _combine(self, fields: tuple[str, ...]) -> _Combinations:
        number: dict[tuple[Any, ...], int] = {}
        of_row = np.empty(len(self._metadata), dtype=np.int64)
        values: list[dict[str, Any]] = []
        for row, metadata in enumerate(self._metadata):
            own = {field: metadata[field] for field in fields if field in metadata}
            key = tuple((field, type(value), value) for field, value in own.items())  # 1 and True are two values
            of_row[row] = number.setdefault(key, len(number))
            if len(number) > len(values):
                values.append(own)
        rows = np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row, minlength=1))[:-1])
        return _Combinations(values, rows, of_row)


def _fields(where: Mapping[str, Any]) -> Iterator[str]:
    for key, condition in where.items():
        if key in ("$and", "$or"):
            for clause in condition:
                yield from _fields(clause)
        else:
            yield key


def _joined(rows: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
