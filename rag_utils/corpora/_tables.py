"""What a data set consists of: tables, each found by the stem of its files or by its name on the hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_utils.corpora._draft import Draft


@dataclass(frozen=True)
class Hub:
    """A table on the hub: repository, configuration, split; or plain files (a glob) where a script guards the rest."""

    repository: str
    configuration: str | None = None
    split: str = "train"
    files: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows of one kind. A row that lacks a column, or has one of another type, is malformed."""

    stems: tuple[str, ...]
    """How paths within the folder begin: "validation", and "plain_text/validation" for a download from the hub."""
    columns: Mapping[str, type | tuple[type, ...]]
    optional: tuple[str, ...] = ()
    """Columns that may be absent; those that no row has are listed."""
    required: bool = True
    hub: Hub | None = None


@dataclass(frozen=True)
class DataSet:
    """A named data set: where it lies, under which licence, and who reads it."""

    name: str
    about: str
    licence: str
    folder: str
    tables: Mapping[str, Table]
    read: Callable[["Draft"], None]
    aside: tuple[str, ...] = ()
    """Stems of files in the folder that are none of the tables (a file belongs to the longest stem it begins with)."""
    built_in: bool = False
    fetch: tuple[str, ...] = field(default=())
    """Arguments of `hf download` beyond the repository."""

    @property
    def hubs(self) -> list[str]:
        """Repositories on the hub, each once."""
        return list(dict.fromkeys(table.hub.repository for table in self.tables.values() if table.hub))

    @property
    def layout(self) -> str:
        """The folder expected, a line per table."""
        lines = [
            f"    {self.folder}/{table.stems[0]}*.jsonl[.gz] | .json | .parquet  columns {', '.join(table.columns)}"
            + ("" if table.required else "  (optional)")
            for table in self.tables.values()
        ]
        return "\n".join(lines)

    @property
    def commands(self) -> str:
        """How to fetch the folder, a line per repository."""
        extra = "".join(f" {argument}" for argument in self.fetch)
        return "\n".join(
            f'    hf download {repository} --repo-type dataset --local-dir "$RAG_DATA_DIR/{self.folder}"{extra}'
            for repository in self.hubs
        )


def built_in_folder() -> Path:
    """Where the package keeps its own corpora."""
    return Path(__file__).parent.parent / "builtin"
