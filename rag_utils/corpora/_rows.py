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

    Lines are read here and not by `datasets`, which refuses a whole file for one broken line and cannot name the line;
    Parquet and the hub are read by `datasets`. From here on all are the same plain dictionaries.
    """
    number = 0
    try:
        for number, record in _records(path):
            yield f"{shown}:{number}", record
    except (EOFError, OSError, ValueError, csv.Error, zlib.error) as error:  # a cut download, or no such file type
        ledger.report(f"{shown}:{number + 1}", "unreadable from here on", error)


def _records(path: Path) -> Iterator[tuple[int, object]]:
    if path.suffix == ".parquet":
        from datasets import load_dataset

        # Streaming reads the file where it lies; otherwise a copy of it would be made in the library's cache.
        yield from enumerate(load_dataset("parquet", data_files=str(path), split="train", streaming=True), 1)
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


def pick(row: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path ("answers.text"); None where there is none."""
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def is_absent(value: object) -> bool:
    """Nothing there: None, or text that is blank."""
    return value is None or (isinstance(value, str) and not value.strip())
