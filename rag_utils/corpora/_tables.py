"""What a data set consists of: tables, each found by the stem of its files or by its name on the hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_utils.corpora._draft import Draft


Columns = Mapping[str, type | tuple[type, ...]]
"""Type by dotted path ("document.id"); `[]` stands for every item of a list ("evidence_list[].fact")."""


@dataclass(frozen=True)
class Hub:
    """A table on the hub."""

    repository: str
    configuration: str | None = None
    split: str = "train"
    files: str = "*"
    """The files to download, a glob; read directly where `plain`, since a loading script guards the rest."""
    plain: bool = False
    into: str = ""
    """Folder for a download, within the data set's."""


@dataclass(frozen=True)
class Table:
    """Rows of one kind. A row that lacks a column, or has one of another type, is malformed."""

    stems: tuple[str, ...]
    """How paths within the folder begin: "validation", and "plain_text/validation" for a download from the hub."""
    columns: Columns
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

    @property
    def hubs(self) -> dict[str, Hub]:
        """Hub tables by the table's name."""
        return {name: table.hub for name, table in self.tables.items() if table.hub}

    @property
    def repositories(self) -> str:
        """Repositories on the hub, each once."""
        return " and ".join(dict.fromkeys(hub.repository for hub in self.hubs.values()))

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
        """How to fetch the folder, a line per download."""
        lines = [
            f"    hf download {hub.repository} --repo-type dataset --include '{hub.files}'"
            f' --local-dir "$RAG_DATA_DIR/{self.folder}{hub.into}"'
            for hub in self.hubs.values()
        ]
        return "\n".join(dict.fromkeys(lines))
