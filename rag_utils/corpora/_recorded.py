"""What the papers' own models said, where their authors published it and the data folder has it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rag_utils.corpora import _adapters
from rag_utils.corpora._catalogue import find
from rag_utils.corpora._sources import Table, open_tables

_FILES = {
    "multi_meta_rag_filters": ("query_metadata_filters*", "filter"),
    "multi_meta_rag_answers": ("gpt4_voyage02_filtering*", "model_answer"),
}
"""The files, and their column beside `query`."""


def load_recorded(name: str, data_dir: str | Path | None = None) -> dict[str, dict[str, Any]]:
    """Recorded outputs of a paper's model, by the question's text.

    Args:
        name: "multi_meta_rag_filters" = the filters of gpt-3.5-turbo-1106, as stored; or "multi_meta_rag_answers" = an
            early file of GPT-4's answers, with `prompt`, `model_answer`, `gold_answer` and `question_type`.
        data_dir: As in `load_corpus`, where the files lie beside those of `multihop_rag`.

    Raises:
        ValueError: Another name, or a malformed row; says where.
        FileNotFoundError: There is no such file; says what was tried.

    Source: github.com/mxpoliakov/Multi-Meta-RAG, the latter from its history.
    """
    if name not in _FILES:
        raise ValueError(f"nothing is recorded as {name!r}: choose one of {', '.join(_FILES)}")
    files, column = _FILES[name]
    dataset, folders = find("multihop_rag", data_dir)
    table = Table(files, _adapters.nothing, query={"question": "query", "output": column})
    _, tables = open_tables(replace(dataset, name=name, about="recorded outputs", tables={name: table}), folders)
    recorded: dict[str, dict[str, Any]] = {}
    for place, row in tables[name]:
        try:
            question = row.pop("query")
            recorded[question] = json.loads(row[column]) if column == "filter" else row
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{place}: malformed row ({error!r})") from error
    return recorded
