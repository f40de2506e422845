"""The data sets by name, and the user's own folders."""

import os
from pathlib import Path

from rag_utils.corpora._abstracts import BUILTIN_ABSTRACTS, PUBMEDQA
from rag_utils.corpora._beir import NATURAL_QUESTIONS, own_data_set
from rag_utils.corpora._encyclopedia import BOOLQ, SQUAD
from rag_utils.corpora._long_texts import NARRATIVEQA, QASPER
from rag_utils.corpora._news import BUILTIN_NEWS, MULTIHOP_RAG
from rag_utils.corpora._sources import FolderSource, Source, built_in_source, open_source
from rag_utils.corpora._tables import DataSet

_BUILT_IN = (BUILTIN_NEWS, BUILTIN_ABSTRACTS)
_OTHERS = (SQUAD, NATURAL_QUESTIONS, PUBMEDQA, MULTIHOP_RAG, NARRATIVEQA, QASPER, BOOLQ)
_NAMED = {dataset.name: dataset for dataset in (*_BUILT_IN, *_OTHERS)}


def list_corpora() -> dict[str, dict[str, str]]:
    """The names that `load_corpus` knows, each with what it is, its licence, its folder and its place on the hub."""
    return {
        name: {"about": d.about, "licence": d.licence, "folder": d.folder, "hub": d.repositories or "built in"}
        for name, d in _NAMED.items()
    }


def find(name: str | Path, data_dir: str | Path | None) -> tuple[DataSet, Source]:
    """A named data set, or else a folder of the user's own, with its rows.

    Raises:
        FileNotFoundError: The data set is nowhere to be had, or the folder is not in BEIR layout.
        ValueError: Neither a name nor a folder.
    """
    if str(name) in _NAMED:
        dataset = _NAMED[str(name)]
        return dataset, built_in_source(dataset) if dataset.built_in else open_source(dataset, data_dir)
    roots = [root for root in (data_dir, os.environ.get("RAG_DATA_DIR")) if root]
    for folder in (Path(name).expanduser(), *(Path(root).expanduser() / name for root in roots)):
        if folder.is_dir():
            dataset = own_data_set(folder.resolve())
            source = FolderSource(folder, dataset, f"folder {dataset.name}")
            if source.lacks:
                raise FileNotFoundError(f"{folder} is not in BEIR layout:\n{dataset.layout}")
            return dataset, source
    raise ValueError(f"corpus {str(name)!r} is not known: it is no folder, and none of {', '.join(_NAMED)}")
