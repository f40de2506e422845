"""Questions on long texts: NarrativeQA's stories, by their summaries, and QASPER's papers in L-Eval's form."""

from collections.abc import Iterable

from rag_utils.corpora._draft import Draft, stable_id
from rag_utils.corpora._tables import DataSet, Hub, Table


def read_narrativeqa(draft: Draft) -> None:
    """A document per summary (the stories themselves have to be fetched; QA-RAG used summaries too, PAPERS 3.5)."""
    for place, row in draft.rows("summaries"):
        _add_summary(draft, place, row["document_id"], row["summary"], row.get("title"), row.get("kind"))
    for place, row in draft.rows("test"):
        story = row["document"]
        if story["id"] not in draft.documents:
            summary = story.get("summary") or {}
            _add_summary(draft, place, story["id"], summary.get("text") or "", summary.get("title"), story.get("kind"))
        answers = [answer["text"] for answer in row["answers"]]
        _add_question(draft, place, story["id"], row["question"]["text"], answers)


def _add_summary(draft: Draft, place: str, id: str, text: str, title: str | None, kind: str | None) -> None:
    draft.add_document(place, id=id, text=text, title=title or "", metadata={"title": title, "kind": kind})


NARRATIVEQA = DataSet(
    name="narrativeqa",
    about="NarrativeQA, test part: questions on stories, answered from their summaries",
    licence="Apache-2.0; summaries from Wikipedia, CC BY-SA 3.0",
    folder="narrativeqa",
    read=read_narrativeqa,
    tables={
        "summaries": Table(("summaries",), {"document_id": str, "summary": str}, ("title", "kind"), required=False),
        "test": Table(
            ("test", "data/test"),
            {"document.id": str, "question.text": str, "answers[].text": str},
            hub=Hub("deepmind/narrativeqa", split="test", files="data/test*"),
        ),
    },
)


def read_qasper(draft: Draft) -> None:
    """A document per paper, with several questions; there are no titles, sections or ids in this form."""
    for place, row in draft.rows("scientific_qa"):
        if len(row["instructions"]) != len(row["outputs"]):
            draft.report(place, "instructions and outputs differ in number")
            continue
        id_ = stable_id(row["input"])
        if id_ not in draft.documents:
            draft.add_document(place, id=id_, text=row["input"])
        for question, answer in zip(row["instructions"], row["outputs"], strict=True):
            _add_question(draft, place, id_, question, [answer])


def _add_question(draft: Draft, place: str, document_id: str, question: str, answers: Iterable[str]) -> None:
    """A question known by document and text: asked twice, it is one question with the answers of both."""
    id_ = stable_id(document_id, question)
    if id_ in draft.queries:
        draft.add_answers(place, id_, answers)
    else:
        draft.add_query(place, id=id_, text=question, answers=answers, gold=[document_id])


QASPER = DataSet(
    name="qasper",
    about="QASPER in L-Eval's form: questions on whole papers",
    licence="GPL-3.0 (L-Eval) and CC BY 4.0 (QASPER)",
    folder="qasper_leval",
    read=read_qasper,
    tables={
        "scientific_qa": Table(
            ("scientific_qa", "LEval/Open-ended-tasks/scientific_qa", "LEval/Generation/scientific_qa"),
            {"input": str, "instructions[]": str, "outputs[]": str},
            hub=Hub("L4NLP/LEval", files="**/scientific_qa*", plain=True),  # the repository has a loading script
        )
    },
)
