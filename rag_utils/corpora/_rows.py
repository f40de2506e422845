"""Rows of a file, each with its place, and the ledger of those that had to be left out."""

import codecs
import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]

READABLE = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet", ".tsv", ".tsv.gz")


@dataclass
class Ledger:
    """What was left out: counted by reason, listed by place; `strict` raises instead."""

    strict: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def report(self, place: str, reason: str, detail: object = "") -> None:
        """Count a malformed row, or raise ValueError when strict."""
        if self.strict:
            raise ValueError(f"{_said(place, reason, detail)} (strict=True stops at the first malformed row)")
        self.mention(place, reason, detail)

    def mention(self, place: str, reason: str, detail: object = "") -> None:
        """Count a row that is no question of its own though nothing is wrong with it."""
        self.dropped[reason] += 1
        self.problems.append(_said(place, reason, detail))


def _said(place: str, reason: str, detail: object) -> str:
    return f"{place}: {reason}" + (f" ({detail})" if detail != "" else "")


def read_file(path: Path, shown: str, ledger: Ledger) -> Iterator[tuple[str, object]]:
    """The records of a JSON Lines, JSON, TSV (gzipped or not) or Parquet file with their places; None = broken line.

    Files are not read by `datasets`, which refuses a whole file for one broken line without naming it, and copies what
    it reads into its cache first; the hub is. From here on rows of both are the same plain dictionaries.
    """
    number = 0
    try:
        for number, record in _records(path):
            yield f"{shown}:{number}", record
    except (EOFError, OSError, ValueError, csv.Error, zlib.error) as error:  # a cut download, or no such file type
        ledger.report(f"{shown}:{number + 1}", "unreadable from here on", error)


def _records(path: Path) -> Iterator[tuple[int, object]]:
    if path.suffix == ".parquet":
        from pyarrow.parquet import ParquetFile

        batches = ParquetFile(path).iter_batches()
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        return
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        if ".tsv" in path.suffixes:
            reader = csv.DictReader(codecs.iterdecode(file, "utf-8-sig"), delimiter="\t", quoting=csv.QUOTE_NONE)
            for row in reader:
                yield reader.line_num, row
        elif ".json" in path.suffixes and file.read(1) == b"[":  # one array, as the hub keeps MultiHop-RAG
            file.seek(0)
            yield from enumerate(json.load(file), 1)
        else:
            file.seek(0)
            yield from _lines(file)


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(file, 1):
        line = line.removeprefix(codecs.BOM_UTF8).strip()
        if line:
            try:
                yield number, json.loads(line)
            except ValueError:  # broken JSON or broken UTF-8
                yield number, None


def values_at(row: object, path: str) -> Iterator[Any]:
    """The values at a dotted path: one, or with `[]` one per item ("answers[].text"); None stands for what is not."""
    key, _, rest = path.partition(".")
    value = row.get(key.removesuffix("[]")) if isinstance(row, Mapping) else None
    items = (value if isinstance(value, list) else [None]) if key.endswith("[]") else [value]
    for item in items:
        if rest:
            yield from values_at(item, rest)
        else:
            yield item


def fault(row: object, columns: Mapping[str, Any]) -> str:
    """What is wrong with a row, "" if nothing."""
    if not isinstance(row, dict):
        return "not a JSON record"
    for column, kind in columns.items():
        for value in values_at(row, column):
            if is_absent(value):
                return f"no {column}"
            if not isinstance(value, kind):
                return f"{column} is of type {type(value).__name__}"
    return ""


def is_absent(value: object) -> bool:
    """Nothing there: None, or text that is blank."""
    return value is None or (isinstance(value, str) and not value.strip())
