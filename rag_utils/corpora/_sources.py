"""Where the rows of a data set come from: the files of a folder, or the hub."""

import csv
import gzip
import io
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Rows = Iterable[tuple[str, Any]]
"""Places ("folder/file:line") and records; instead of a record None for a broken line, or the error that ended it."""

BUILT_IN = Path(__file__).parent.parent / "builtin"
_READABLE = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet", ".tsv", ".tsv.gz")
_UNREADABLE = (EOFError, OSError, RecursionError, ValueError, csv.Error, zlib.error)
"""What a cut download raises, or another type of file, or JSON nested without end."""
_PATIENCE = 3.0  # seconds to wait for the hub's first sign of life


class Table(NamedTuple):
    """Rows of one kind; `catalogue.yaml` says what the fields mean."""

    files: str
    adapt: Callable[[Any, dict[str, Any]], None]
    document: Mapping[str, str] = {}
    metadata: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    required: bool = True
    distractors: bool = False
    questions: str = "main"
    repository: str = ""
    configuration: str | None = None
    split: str = "train"
    revision: str | None = None
    script: bool = False

    @property
    def columns(self) -> list[str]:
        """Each once; optional ones in brackets."""
        return list(dict.fromkeys([*self.document.values(), *self.metadata.values(), *self.query.values()]))


@dataclass(frozen=True)
class DataSet:
    """A named data set."""

    name: str
    about: str
    licence: str
    folder: str
    tables: Mapping[str, Table]
    origin: str = ""
    """Where it is to be had, if not on the hub."""
    otherwise: str = ""
    """The data set that is taken where the folders have no file of this one but of that."""
    preferences: bool = False
    """Judged pairs of answers, not a corpus."""
    ready: Mapping[str, Rows] = field(default_factory=dict)
    """Tables whose rows are there already, and are sought in no file."""

    @property
    def repositories(self) -> str:
        """On the hub, each once."""
        return " and ".join(dict.fromkeys(table.repository for table in self.tables.values() if table.repository))

    @property
    def remedy(self) -> str:
        """The folder expected and how to fetch it."""
        layout = ["expected, under data_dir or RAG_DATA_DIR, as .jsonl[.gz], .json, .parquet or .tsv:"]
        commands = ["to fetch it:"] if self.repositories else [f"it comes from {self.origin}"] if self.origin else []
        for table in self.tables.values():
            columns = ", ".join(column for column in table.columns if not column.startswith("("))
            optional = "" if table.required else " (optional)"
            layout.append(f"  {self.folder}/{table.files.split()[0]} with {columns}{optional}")
            if table.repository:
                files = " ".join(f"--include '{pattern}'" for pattern in table.files.split())
                target = f'--local-dir "$RAG_DATA_DIR/{self.folder}"'
                branch = f"--revision {table.revision} " if table.revision else ""
                commands.append(f"  hf download {table.repository} --repo-type dataset {branch}{files} {target}")
        instead = [] if self.preferences else ["or use a built-in corpus: builtin_news, builtin_abstracts"]
        return "\n  ".join([*layout, *commands, *instead])


def open_tables(dataset: DataSet, folders: Sequence[Path]) -> tuple[str, dict[str, Rows]]:
    """The first place that has every required table, named without machine paths, and the tables that it has.

    Raises:
        FileNotFoundError: None has; the message names the data set, what was tried, the layout and the command.
    """
    tried = [] if folders else ["no local folder was given (data_dir, or the environment variable RAG_DATA_DIR)"]
    for folder in folders:
        files = {name: files_of(folder, table.files) for name, table in dataset.tables.items()}
        found = {name: _file_rows(folder, files[name], dataset.tables[name]) for name in files if files[name]}
        found |= dataset.ready
        lacks = [
            table.files.split()[0] for name, table in dataset.tables.items() if table.required and name not in found
        ]
        if found and not lacks:
            return "built in" if folder == BUILT_IN else f"folder {folder.name}", found
        tried.append(f"{folder}: no file {' and no file '.join(lacks or ['of this data set'])}")
    try:
        if dataset.repositories:
            return f"hub {dataset.repositories}", _hub_tables(dataset)
    except ConnectionError as error:
        tried.append(str(error))
    message = f"data set {dataset.name!r} ({dataset.about}) is not to be had; tried:\n    " + "\n    ".join(tried)
    raise FileNotFoundError(f"{message}\n  {dataset.remedy}")


def files_of(folder: Path, patterns: str) -> list[Path]:
    """The readable files of a table, by name."""
    found = {path for pattern in patterns.split() for path in folder.glob(pattern)}
    inside = {file for path in found if path.is_dir() for file in path.iterdir()}
    return sorted(path for path in found | inside if path.name.endswith(_READABLE) and path.is_file())


def _file_rows(folder: Path, paths: Sequence[Path], table: Table) -> Rows:
    """Not read by `datasets`, which refuses a whole file for one broken line and copies all into its cache first."""
    for path in paths:
        shown, number = f"{folder.name}/{path.relative_to(folder).as_posix()}", 0
        try:
            for number, record in _records(path, [column.strip("()") for column in table.columns]):
                yield f"{shown}:{number}", record
        except _UNREADABLE as error:
            yield f"{shown}:{number + 1}", error


def _records(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
    if path.suffix == ".parquet":
        from pyarrow.parquet import read_table

        yield from enumerate(read_table(path).to_pylist(), 1)
        return
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        if ".tsv" in path.suffixes:
            yield from _tab_separated(io.TextIOWrapper(file, "utf-8-sig"), columns)
        elif ".json" in path.suffixes and _opens_array(file.peek(1)):  # as the hub keeps MultiHop-RAG
            yield from enumerate(json.load(file), 1)
        else:
            yield from ((number, _parsed(line)) for number, line in enumerate(file, 1) if line.strip())


def _tab_separated(file: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Rows by the names in the first line; where it has none of ours it is a row, its cells in our order if as many."""
    reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    first = reader.fieldnames or []
    if first and set(first).isdisjoint(columns):
        names = columns if len(first) == len(columns) else first
        reader.fieldnames = names
        yield reader.line_num, dict(zip(names, first, strict=True))
    yield from ((reader.line_num, row) for row in reader)


def _opens_array(start: bytes) -> bool:
    return start.removeprefix(BOM_UTF8).lstrip().startswith(b"[")


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (RecursionError, ValueError):  # nested without end, broken JSON or broken UTF-8
        return None


def _hub_tables(dataset: DataSet) -> dict[str, Rows]:
    """Tables read by `datasets`, straight from its cache if the hub is away: by itself it retries for 20 s and more."""
    import datasets
    from huggingface_hub import constants

    before, away = (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE), _why_away()
    if away:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        return {name: _hub_rows(name, table) for name, table in dataset.tables.items() if table.repository}
    except Exception as error:  # the library raises a dozen kinds, from OSError to its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "script" in reason:
            reason += " (datasets >= 4 runs no loading scripts and nothing here trusts remote code: fetch plain files)"
        raise ConnectionError(f"hub {dataset.repositories} ({away or 'reachable'}): {reason}") from error
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _hub_rows(name: str, table: Table) -> Rows:
    from datasets import load_dataset

    if table.script:
        files = f"hf://datasets/{table.repository}/{table.files.split()[-1]}"
        rows = load_dataset("json", data_files=files, split=table.split)
    else:
        rows = load_dataset(table.repository, table.configuration, split=table.split, revision=table.revision)
    return ((f"{table.repository}/{name}:{number}", row) for number, row in enumerate(rows, 1))


def _why_away() -> str:
    """Why the hub is not asked, "" if it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # offline mode, or httpx's or requests', by the library's version
        return f"not reachable: {type(error).__name__}"
    return ""
