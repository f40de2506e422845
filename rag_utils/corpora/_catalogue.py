"""The data sets by name, as `catalogue.yaml` describes them, and folders of the user's own."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rag_utils.corpora import _adapters
from rag_utils.corpora._sources import BUILT_IN, DataSet, Table, files_of
from rag_utils.corpora.files import file_rows, holds_documents


@cache
def data_sets() -> dict[str, DataSet]:
    """All that have a name."""
    import yaml

    entries = yaml.safe_load((Path(__file__).parent / "catalogue.yaml").read_text(encoding="utf-8"))
    for entry in entries.values():
        for table in entry["tables"].values():
            table["adapt"] = getattr(_adapters, table.get("adapt", "nothing"))
        entry["tables"] = {name: Table(**table) for name, table in entry["tables"].items()}
    return {name: DataSet(**{"name": name, "folder": name, **entry}) for name, entry in entries.items()}


def list_corpora() -> dict[str, dict[str, str]]:
    """The names that `load_corpus` knows, each with what it is, its licence, its folder and its place on the hub.

    Of two folders, parted by a blank, the second is taken where the first has no file.
    """
    places = {name: d.repositories or d.origin or "built in" for name, d in data_sets().items()}
    return {
        name: {
            "about": d.about,
            "licence": d.licence,
            "folder": f"{d.folder} {d.otherwise}".strip(),
            "hub": places[name],
        }
        for name, d in data_sets().items()
        if not d.preferences
    }


def find(name: str | Path, data_dir: str | Path | None) -> tuple[DataSet, list[Path]]:
    """A named data set or the one that stands in for it, else a folder of the user's own; and where it may lie.

    Raises:
        ValueError: Neither a name nor a folder.
    """
    root = data_dir or os.environ.get("RAG_DATA_DIR")
    roots = [Path(root).expanduser().resolve()] if root else []
    dataset = data_sets().get(str(name))
    if dataset and not (dataset.repositories or dataset.origin):
        return dataset, [BUILT_IN]
    if dataset:
        folders = [folder / dataset.folder for folder in roots] + (roots if data_dir else [])
        other = find(dataset.otherwise, data_dir) if dataset.otherwise else None
        return other if other and _any_file(*other) and not _any_file(dataset, folders) else (dataset, folders)
    for folder in (Path(name).expanduser().resolve(), *(folder / name for folder in roots)):
        if folder.is_dir():
            return _own(folder), [folder]
    raise ValueError(f"corpus {str(name)!r} is not known: it is no folder, and none of {', '.join(list_corpora())}")


def _any_file(dataset: DataSet, folders: Sequence[Path]) -> bool:
    return any(files_of(folder, table.files) for folder in folders for table in dataset.tables.values())


def _own(folder: Path) -> DataSet:
    """A folder in BEIR layout; without its corpus table, the documents are the files of the folder."""
    beir = data_sets()["natural_questions"].tables
    tables = {key: table._replace(repository="", required=key == "corpus") for key, table in beir.items()}
    ingested = not files_of(folder, tables["corpus"].files) and holds_documents(folder)
    apart = {file for table in tables.values() for file in files_of(folder, table.files)}
    ready = {"corpus": file_rows(folder, apart)} if ingested else {}
    about = "a folder in BEIR layout, or of PDF, HTML, Markdown, text or Word files"
    return DataSet(folder.name, about, "the user's own", folder.name, tables, ready=ready)
