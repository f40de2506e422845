"""What a data set consists of, and where its rows come from: the files of a folder, or the hub."""

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rows = Iterable[tuple[str, Any]]
"""Places ("folder/file:line") and records; instead of a record None for a broken line, or the error that ended it."""

_READABLE = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet", ".tsv", ".tsv.gz")
_PATIENCE = 3.0  # seconds to wait for the hub's first sign of life


@dataclass(frozen=True)
class Hub:
    """A table on the hub. `files` = what to download, into the data set's folder + `into`.

    The files are read directly where `plain`, since a loading script guards the rest of the repository.
    """

    repository: str
    configuration: str | None = None
    split: str = "train"
    files: str = "*"
    into: str = ""
    plain: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of one kind; `files`, `columns` and `optional` hold names parted by blanks.

    A file pattern that matches a folder (as a download from the hub has them) means the files in it. A column is a
    dotted path ("document.id"), `[]` stands for every item of a list ("answers[].text"). A row that lacks one of
    `columns`, or has another type there than text or the one in `kinds`, is malformed; those of `optional` may lack.
    """

    files: str
    columns: str
    optional: str = ""
    kinds: Mapping[str, Any] = field(default_factory=dict)
    required: bool = True
    hub: Hub | None = None


@dataclass(frozen=True)
class DataSet:
    """A named data set: what it is, under which licence, who reads it, and its tables by name."""

    name: str
    about: str
    licence: str
    read: Callable[[Any], None]
    tables: Mapping[str, Table]
    folder: str

    @property
    def hubs(self) -> dict[str, Hub]:
        """Hub tables by the table's name."""
        return {name: table.hub for name, table in self.tables.items() if table.hub}

    @property
    def repositories(self) -> str:
        """Repositories on the hub, each once."""
        return " and ".join(dict.fromkeys(hub.repository for hub in self.hubs.values()))

    def remedy(self) -> str:
        """The folder expected and how to fetch it, a line per table."""
        lines = ["expected folder, under data_dir or RAG_DATA_DIR:"]
        for table in self.tables.values():
            optional = "" if table.required else "  (optional)"
            columns = ", ".join(table.columns.split())
            lines.append(f"  {self.folder}/{table.files.split()[0]}.jsonl[.gz] | .json | .parquet  {columns}{optional}")
        for hub in dict.fromkeys(self.hubs.values()):
            lines.append(
                f"to fetch it: hf download {hub.repository} --repo-type dataset --include '{hub.files}'"
                f' --local-dir "$RAG_DATA_DIR/{self.folder}{hub.into}"'
            )
        return "\n  ".join([*lines, "or use a built-in corpus: builtin_news, builtin_abstracts"])


def open_tables(dataset: DataSet, folders: Sequence[Path]) -> tuple[str, dict[str, Rows]]:
    """The first place that has every required table, named without machine paths, and the tables that it has.

    Raises:
        FileNotFoundError: None has; the message names the data set, what was tried, the layout and the command.
    """
    tried = [] if folders else ["no local folder was given (data_dir, or the environment variable RAG_DATA_DIR)"]
    for folder in folders:
        files = {name: _files(folder, table.files) for name, table in dataset.tables.items()}
        lacks = [table.files.split()[0] for name, table in dataset.tables.items() if table.required and not files[name]]
        if not lacks:
            return f"folder {folder.name}", {name: _file_rows(folder, paths) for name, paths in files.items() if paths}
        tried.append(f"{folder}: no file {' and no file '.join(lacks)}")
    try:
        if dataset.hubs:
            return f"hub {dataset.repositories}", _hub_tables(dataset)
    except ConnectionError as error:
        tried.append(str(error))
    message = f"data set {dataset.name!r} ({dataset.about}) is not to be had; tried:\n    " + "\n    ".join(tried)
    raise FileNotFoundError(f"{message}\n  {dataset.remedy()}")


def _files(folder: Path, patterns: str) -> list[Path]:
    found = {path for pattern in patterns.split() for path in folder.glob(pattern)}
    inside = {file for path in found if path.is_dir() for file in path.iterdir()}
    return sorted(path for path in found | inside if path.name.endswith(_READABLE) and path.is_file())


def _file_rows(folder: Path, paths: Sequence[Path]) -> Rows:
    """Files are not read by `datasets`: it refuses a whole file for one broken line, and copies into its cache first."""
    for path in paths:
        shown, number = f"{folder.name}/{path.relative_to(folder).as_posix()}", 0
        try:
            for number, record in _records(path):
                yield f"{shown}:{number}", record
        except (EOFError, OSError, ValueError, csv.Error, zlib.error) as error:  # a cut download, or no such file type
            yield f"{shown}:{number + 1}", error


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    if path.suffix == ".parquet":
        from pyarrow.parquet import ParquetFile

        batches = ParquetFile(path).iter_batches()
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        return
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        if ".tsv" in path.suffixes:
            reader = csv.DictReader(io.TextIOWrapper(file, "utf-8-sig"), delimiter="\t", quoting=csv.QUOTE_NONE)
            yield from ((reader.line_num, row) for row in reader)
        elif ".json" in path.suffixes and file.peek(1)[:1] == b"[":  # one array, as the hub keeps MultiHop-RAG
            yield from enumerate(json.load(file), 1)
        else:
            yield from ((number, _parsed(line)) for number, line in enumerate(file, 1) if line.strip())


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # broken JSON or broken UTF-8
        return None


def _hub_tables(dataset: DataSet) -> dict[str, Rows]:
    """Tables read by `datasets`, straight from its cache if the hub is away: by itself it retries for 20 s and more."""
    import datasets
    from huggingface_hub import constants

    before, away = (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE), _why_away()
    if away:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        return {name: _hub_rows(name, hub) for name, hub in dataset.hubs.items()}
    except Exception as error:  # the library raises a dozen kinds, from OSError to its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "script" in reason:
            reason += " (datasets >= 4 runs no loading scripts and nothing here trusts remote code: fetch plain files)"
        raise ConnectionError(f"hub {dataset.repositories} ({away or 'reachable'}): {reason}") from error
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _hub_rows(name: str, hub: Hub) -> Rows:
    from datasets import load_dataset

    if hub.plain:
        rows = load_dataset("json", data_files=f"hf://datasets/{hub.repository}/{hub.files}", split=hub.split)
    else:
        rows = load_dataset(hub.repository, hub.configuration, split=hub.split)
    return ((f"{hub.repository}/{name}:{number}", row) for number, row in enumerate(rows, 1))


def _why_away() -> str:
    """Why the hub is not asked, "" if it answers."""
    from huggingface_hub import constants, get_session

    switched = [name for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE") if os.environ.get(name, "0") not in ("", "0")]
    if switched:
        return f"{switched[0]} is set"
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # httpx or requests, by the library's version
        return f"not reachable: {type(error).__name__}"
    return ""
