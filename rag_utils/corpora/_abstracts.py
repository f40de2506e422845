"""Questions on structured medical abstracts: PubMedQA, and the package's own in the same form."""

from collections.abc import Iterator

from rag_utils.corpora._draft import Draft
from rag_utils.corpora._rows import Row, is_absent
from rag_utils.corpora._tables import Columns, DataSet, Hub, Table


def read_pubmedqa(draft: Draft) -> None:
    """A document per abstract: its sections a line each (the paper joins them without a break, PAPERS 2.2).

    There is no title, since the question *is* the article's title. Decisions are labels and, as text, the answers.
    The artificial abstracts come last and only as distractors.
    """
    years = dict(_years(draft))

    def abstract(place: str, row: Row) -> None:
        context, id_ = row["context"], str(row["pubid"])
        metadata = _abstract_metadata(context.get("meshes"), context.get("labels"), years.get(id_))
        draft.add_document(place, id=id_, text="\n".join(context["contexts"]), metadata=metadata)

    for place, row in draft.rows("corpus"):
        abstract(place, row)
    for place, row in draft.rows("labeled"):
        id_, label = str(row["pubid"]), row["final_decision"]
        if id_ not in draft.documents:
            abstract(place, row)
        draft.add_query(place, id=id_, text=row["question"], answers=[label], gold=[id_], label=label)
    for place, row in draft.rows("artificial") if draft.distractors else ():
        abstract(place, row)


def _years(draft: Draft) -> Iterator[tuple[str, int]]:
    for place, row in draft.rows("years"):
        if str(row.get("year")).isdecimal():
            yield str(row["pubid"]), int(row["year"])
        elif not is_absent(row.get("year")):
            draft.report(place, "year is not a number", row["year"])


def _abstract_metadata(headings: list[str] | None, sections: list[str] | None, year: int | None) -> dict[str, object]:
    return {"headings": "; ".join(headings or ()), "sections": "; ".join(sections or ()), "year": year}


_ABSTRACT: Columns = {"pubid": (int, str), "context.contexts[]": str}

PUBMEDQA = DataSet(
    name="pubmedqa",
    about="PubMedQA: 1,000 labelled abstracts with yes/no/maybe questions, 500 artificial ones as distractors",
    licence="MIT; some abstracts may be under copyright",
    folder="pubmedqa",
    read=read_pubmedqa,
    aside=("official_test_pubids", "pqa_unlabeled"),
    tables={
        "years": Table(("years",), {"pubid": (int, str)}, ("year",), required=False),
        "corpus": Table(("corpus",), _ABSTRACT, ("context.labels", "context.meshes"), required=False),
        "labeled": Table(
            ("pqa_labeled",),
            {**_ABSTRACT, "question": str, "final_decision": str},
            ("context.labels", "context.meshes"),
            hub=Hub("qiaojin/PubMedQA", "pqa_labeled", files="pqa_labeled/*"),
        ),
        "artificial": Table(
            ("pqa_artificial",),
            _ABSTRACT,
            required=False,
            hub=Hub("qiaojin/PubMedQA", "pqa_artificial", "train[:500]", files="pqa_artificial/*"),
        ),
    },
)


def read_builtin_abstracts(draft: Draft) -> None:
    """As PubMedQA, with titles that are not the questions."""
    for place, row in draft.rows("documents"):
        sections = [section["label"] for section in row["sections"]]
        metadata = _abstract_metadata(row.get("headings"), sections, row.get("year"))
        draft.add_document(place, id=row["id"], text=row["text"], title=row.get("title") or "", metadata=metadata)
    for place, row in draft.rows("queries"):
        draft.add_query(
            place,
            id=row["id"],
            text=row["question"],
            answers=[row["label"]],
            gold=[row["document_id"]],
            label=row["label"],
        )


BUILTIN_ABSTRACTS = DataSet(
    name="builtin_abstracts",
    about="Invented structured abstracts with subject headings, one yes/no/maybe question each",
    licence="Apache-2.0",
    folder="builtin",
    read=read_builtin_abstracts,
    built_in=True,
    tables={
        "documents": Table(
            ("abstracts_documents",), {"id": str, "text": str, "sections[].label": str}, ("headings", "year")
        ),
        "queries": Table(("abstracts_queries",), {"id": str, "question": str, "document_id": str, "label": str}),
    },
)
