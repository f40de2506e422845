"""Which chunks a filter leaves, asked once for each distinct combination of the values it looks at."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rag_utils.filters import matcher

_Combinations = tuple[np.ndarray, list[dict[str, Any]]]
"""For each chunk the number of its combination, and the combinations."""


class MetadataTable:
    """Metadata of chunks, made for filtering: thousands of chunks share a few outlets and dates.

    A filter on one of 49 outlets costs 49 tests, however many chunks there are.
    """

    def __init__(self, metadata: Sequence[Mapping[str, Any]]):
        self._metadata = metadata
        self._combinations: dict[tuple[str, ...], _Combinations] = {}

    def rows(self, where: Mapping[str, Any]) -> np.ndarray:
        """Row numbers, ascending, of the chunks that satisfy the filter; raises as `filters.matches` does."""
        satisfied = np.ones(len(self._metadata), dtype=bool)
        for key, condition in where.items():  # all have to hold, so fields need not be combined
            satisfied &= self._satisfied({key: condition})
        return np.flatnonzero(satisfied)

    def _satisfied(self, where: Mapping[str, Any]) -> np.ndarray:
        satisfies = matcher(where)
        fields = tuple(sorted(set(_fields(where))))
        if fields not in self._combinations:
            self._combinations[fields] = self._combine(fields)
        codes, combinations = self._combinations[fields]
        return np.array([satisfies(combination) for combination in combinations], dtype=bool)[codes]

    def _combine(self, fields: tuple[str, ...]) -> _Combinations:
        number: dict[tuple[Any, ...], int] = {}
        codes = np.empty(len(self._metadata), dtype=np.int64)
        combinations: list[dict[str, Any]] = []
        for row, metadata in enumerate(self._metadata):
            values = {field: metadata[field] for field in fields if field in metadata}
            key = tuple((field, type(value), value) for field, value in values.items())  # 1 and True are two values
            codes[row] = number.setdefault(key, len(number))
            if len(number) > len(combinations):
                combinations.append(values)
        return codes, combinations


def _fields(where: Mapping[str, Any]) -> Iterator[str]:
    for key, condition in where.items():
        if key in ("$and", "$or"):
            for clause in condition:
                yield from _fields(clause)
        else:
            yield key
