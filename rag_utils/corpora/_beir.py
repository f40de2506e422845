"""BEIR layout: Natural Questions, and a folder of the user's own."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from rag_utils.corpora._draft import Draft
from rag_utils.corpora._rows import Row, is_absent
from rag_utils.corpora._tables import DataSet, Hub, Table
from rag_utils.corpora.dates import iso_day

_DOCUMENT_KEYS = {"_id", "title", "text"}


def read_beir(draft: Draft) -> None:
    """`corpus` (extra keys become metadata), `queries` (also answers, facts, type, label), `qrels` above 0."""
    for place, row in draft.rows("corpus"):
        title = row.get("title") or ""
        metadata = _metadata(draft, place, {k: v for k, v in row.items() if k not in _DOCUMENT_KEYS})
        draft.add_document(
            place, id=str(row["_id"]), text=row["text"], title=title, metadata={"title": title, **metadata}
        )
    gold, places = _judgements(draft)
    answers = {str(row["_id"]): _texts(row["answer"]) for _, row in draft.rows("answers")}
    for place, row in draft.rows("queries"):
        id_ = str(row["_id"])
        draft.add_query(
            place,
            id=id_,
            text=row["text"],
            answers=_texts(row.get("answers")) or answers.get(id_, []),
            gold=gold.pop(id_, ()),
            facts=_texts(row.get("facts")),
            type=str(row.get("type") or ""),
            label=str(row.get("label") or ""),
        )
    for id_ in gold:
        draft.report(places[id_], "judged query is not among the queries", id_)


def _judgements(draft: Draft) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Query id -> documents judged relevant, and where the first judgement stands."""
    gold: dict[str, list[str]] = defaultdict(list)
    places: dict[str, str] = {}
    for place, row in draft.rows("qrels"):
        query, document = str(row["query-id"]), str(row["corpus-id"])
        try:
            relevant = float(row["score"]) > 0
        except ValueError:
            draft.report(place, "score is not a number", row["score"])
            continue
        places.setdefault(query, place)
        if relevant:
            gold[query].append(document)
    return gold, places


def _texts(value: object) -> list[str]:
    """A text or a list of texts, as a list."""
    return [str(one) for one in (value if isinstance(value, list) else [value]) if not is_absent(one)]


def _metadata(draft: Draft, place: str, extra: Row) -> dict[str, Any]:
    """Extra keys of a document: what the filters and the store can hold, and nothing else.

    A mapping is flattened ("venue.name"; BEIR's own "metadata" without the prefix), a list joined by "; ", truth
    written "true" or "false", a date in any form its ISO day.
    """
    metadata: dict[str, Any] = {}
    for key, value in extra.items():
        if isinstance(value, Mapping):
            prefix = "" if key == "metadata" else f"{key}."
            nested = {f"{prefix}{inner}": inner_value for inner, inner_value in value.items()}
            metadata |= _metadata(draft, place, nested)
        elif key == "published_at":
            metadata |= draft.published(place, value)
        else:
            metadata[key] = _plain(value)
    return metadata


def _plain(value: object) -> str | int | float | None:
    if isinstance(value, list):
        return "; ".join(_texts(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | date):
        return iso_day(value) or str(value)
    return value if isinstance(value, int | float) and value == value else None


_ID = (str, int)
_TABLES = {
    "corpus": Table(("corpus",), {"_id": _ID, "text": str}, ("title",)),
    "queries": Table(("queries",), {"_id": _ID, "text": str}, ("answers", "facts", "type", "label"), required=False),
    "qrels": Table(("qrels",), {"query-id": _ID, "corpus-id": _ID, "score": (str, int, float)}, required=False),
    "answers": Table(("answers",), {"_id": _ID, "answer": (str, list)}, required=False),
}
_HUBS = {
    "corpus": Hub("BeIR/nq", "corpus", "corpus"),
    "queries": Hub("BeIR/nq", "queries", "queries"),
    "qrels": Hub("BeIR/nq-qrels", split="test", into="/qrels"),
}

NATURAL_QUESTIONS = DataSet(
    name="natural_questions",
    about="Natural Questions in BEIR layout: search questions on passages of Wikipedia",
    licence="CC BY-SA 3.0",
    folder="nq",
    read=read_beir,
    tables={name: replace(table, hub=_HUBS.get(name), required=name in _HUBS) for name, table in _TABLES.items()},
)


def own_data_set(folder: Path) -> DataSet:
    """A folder of the user's own; only its documents are required."""
    about = "a folder in BEIR layout"
    return DataSet(folder.name, about, "the user's own", folder.name, tables=_TABLES, read=read_beir)
