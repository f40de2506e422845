"""Where rows come from: a folder, the hub, or the package itself, tried in this order."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rag_utils.corpora._rows import READABLE, Ledger, read_file
from rag_utils.corpora._tables import DataSet, Hub

_PATIENCE = 3.0  # seconds to wait for the hub's first sign of life
_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
_YES = {"1", "ON", "YES", "TRUE"}
_DEPTHS = ("*", "*/*", "*/*/*")  # a download from the hub has its files up to two folders down


class Source(Protocol):
    """Tables of one data set; `where` says where they come from, without machine paths."""

    where: str

    def has(self, table: str) -> bool: ...

    def rows(self, table: str, ledger: Ledger) -> Iterator[tuple[str, object]]: ...


def built_in_source(dataset: DataSet) -> "FolderSource":
    """The package's own files.

    Raises:
        FileNotFoundError: The installation lacks them.
    """
    source = FolderSource(Path(__file__).parent.parent / "builtin", dataset, "built in")
    if source.lacks:
        raise FileNotFoundError(f"the package lacks {' and '.join(source.lacks)}: install it anew")
    return source


def open_source(dataset: DataSet, data_dir: str | Path | None) -> Source:
    """The first place that has every required table.

    Raises:
        FileNotFoundError: None has; the message names the data set, what was tried, the layout and the command.
    """
    tried = []
    for folder in _candidates(dataset, data_dir):
        source = FolderSource(folder, dataset, f"folder {folder.name}")
        if not source.lacks:
            return source
        tried.append(f"{folder}: no file {' and no file '.join(source.lacks)}")
    try:
        return HubSource(dataset)
    except ConnectionError as error:
        tried.append(str(error))
    if len(tried) == 1:
        tried.insert(0, "no local folder was given (data_dir, or the environment variable RAG_DATA_DIR)")
    raise FileNotFoundError(
        f"data set {dataset.name!r} is not to be had.\n  tried:\n    "
        + "\n    ".join(tried)
        + f"\n  expected folder, under data_dir or RAG_DATA_DIR:\n{dataset.layout}"
        + f"\n  to fetch it:\n{dataset.commands}\n  or use a built-in corpus: builtin_news, builtin_abstracts"
    )


def _candidates(dataset: DataSet, data_dir: str | Path | None) -> list[Path]:
    """The set's folder inside `data_dir` or `data_dir` itself; without the argument, the one inside RAG_DATA_DIR."""
    if data_dir:
        root = Path(data_dir).expanduser()
        return [root / dataset.folder, root]
    given = os.environ.get("RAG_DATA_DIR")
    return [Path(given).expanduser() / dataset.folder] if given else []


class FolderSource:
    """Tables as files: all that begin with a table's stem, joined in the order of their names."""

    def __init__(self, folder: Path, dataset: DataSet, where: str):
        self.where = where
        self._folder = folder
        self._files = _files_by_table(folder, dataset)
        self.lacks = [f"{t.stems[0]}*" for name, t in dataset.tables.items() if t.required and not self._files[name]]

    def has(self, table: str) -> bool:
        return bool(self._files[table])

    def rows(self, table: str, ledger: Ledger) -> Iterator[tuple[str, object]]:
        for path in self._files[table]:
            yield from read_file(path, f"{self._folder.name}/{path.relative_to(self._folder).as_posix()}", ledger)


def _files_by_table(folder: Path, dataset: DataSet) -> dict[str, list[Path]]:
    """A file belongs to the longest stem that its path begins with, so `corpus_extra` does not pass for `corpus`."""
    owners = {stem: name for name, table in dataset.tables.items() for stem in table.stems}
    stems = sorted([*owners, *dataset.aside], key=len, reverse=True)
    files: dict[str, list[Path]] = {name: [] for name in dataset.tables}
    for path in sorted(path for depth in _DEPTHS for path in folder.glob(depth)):
        relative = path.relative_to(folder).as_posix()
        stem = next((stem for stem in stems if relative.startswith(stem)), None)
        if stem in owners and relative.endswith(READABLE) and path.is_file():
            files[owners[stem]].append(path)
    return files


class HubSource:
    """Tables read by `datasets`: from the hub, or from its cache when the hub is away.

    Raises:
        ConnectionError: A required table is neither reachable nor cached.
    """

    def __init__(self, dataset: DataSet):
        self.where = f"hub {dataset.repositories}"
        self._hubs = dataset.hubs
        with _offline_unless_reachable() as state:
            self._rows = {name: _hub_rows(hub, state) for name, hub in self._hubs.items()}

    def has(self, table: str) -> bool:
        return table in self._rows

    def rows(self, table: str, ledger: Ledger) -> Iterator[tuple[str, object]]:
        for number, row in enumerate(self._rows[table], 1):
            yield f"{self._hubs[table].repository}/{table}:{number}", row


def _hub_rows(hub: Hub, state: str) -> Any:
    from datasets import load_dataset

    try:
        if hub.plain:
            return load_dataset("json", data_files=f"hf://datasets/{hub.repository}/{hub.files}", split="train")
        return load_dataset(hub.repository, hub.configuration, split=hub.split)
    except Exception as error:  # the library raises a dozen kinds, from OSError to its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if "script" in reason:
            reason += " (datasets >= 4 runs no loading scripts and nothing here trusts remote code: fetch plain files)"
        raise ConnectionError(f"hub {hub.repository} ({state}): {reason}") from error


@contextmanager
def _offline_unless_reachable() -> Iterator[str]:
    """Send `datasets` straight to its cache when the hub does not answer: by itself it retries for 20 s and more."""
    import datasets
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    asked = any(os.environ.get(name, "").upper() in _YES for name in _SWITCHES)
    state = f"{' or '.join(_SWITCHES)} is set" if asked or any(before) else _hub_state(constants.ENDPOINT)
    if state != "reachable":
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield state
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _hub_state(endpoint: str) -> str:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=_PATIENCE)
    except Exception as error:  # httpx or requests, by the library's version
        return f"not reachable: {type(error).__name__}"
    return "reachable"
