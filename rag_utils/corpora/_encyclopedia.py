"""Questions on encyclopedia passages: SQuAD and BoolQ (Natural Questions is in BEIR layout)."""

from collections import Counter

from rag_utils.corpora._draft import Draft, stable_id
from rag_utils.corpora._rows import Row
from rag_utils.corpora._tables import DataSet, Hub, Table


def read_squad(draft: Draft) -> None:
    """A document per paragraph, named `<article>-<place in the article>`; its gold question is the row it came with.

    `contexts` holds every paragraph, the questions' rows (all that the hub has) only those that are asked about.
    Titles are written with underscores; as a searched text they would be one word, so blanks are put back.
    """
    ids: dict[tuple[str, str], str] = {}
    lengths: Counter[str] = Counter()

    def paragraph(place: str, row: Row) -> str:
        article, text = row["title"], row["context"]
        if (article, text) not in ids:
            title = article.replace("_", " ")
            id_ = f"{article}-{lengths[article]:03d}"
            ids[article, text] = draft.add_document(place, id=id_, text=text, title=title, metadata={"title": title})
            lengths[article] += 1
        return ids[article, text]

    for place, row in draft.rows("contexts"):
        paragraph(place, row)
    for place, row in draft.rows("validation"):
        gold = [paragraph(place, row)]
        draft.add_query(place, id=row["id"], text=row["question"], answers=row["answers"]["text"], gold=gold)


SQUAD = DataSet(
    name="squad",
    about="SQuAD 1.1, development set: questions on paragraphs of Wikipedia",
    licence="CC BY-SA 4.0",
    folder="squad",
    read=read_squad,
    tables={
        "contexts": Table(("contexts",), {"title": str, "context": str}, required=False),
        "validation": Table(
            ("validation", "plain_text/validation"),
            {"id": str, "title": str, "context": str, "question": str, "answers.text[]": str},
            hub=Hub("rajpurkar/squad", split="validation", files="*/validation*"),
        ),
    },
)


_LONGEST_TITLE = 100  # characters; a dash further on is one of the passage's own


def read_boolq(draft: Draft) -> None:
    """A document per distinct passage; "Title -- text" is taken apart where a copy has it."""

    def passage(place: str, text: str) -> str:
        id_ = stable_id(text)
        if id_ not in draft.documents:
            title, dashes, rest = text.partition(" -- ")
            if not dashes or len(title) > _LONGEST_TITLE:
                title, rest = "", text
            draft.add_document(place, id=id_, text=rest, title=title, metadata={"title": title})
        return id_

    for place, row in draft.rows("labeled"):
        gold, label = passage(place, row["passage"]), "yes" if row["answer"] else "no"
        id_ = stable_id(gold, row["question"])
        draft.add_query(place, id=id_, text=row["question"], answers=[label], gold=[gold], label=label)
    for place, row in draft.rows("unlabeled") if draft.distractors else ():
        passage(place, row["passage"])


BOOLQ = DataSet(
    name="boolq",
    about="BoolQ: yes/no questions on Wikipedia passages, standing in for QA-RAG's random pages",
    licence="CC BY-SA 3.0",
    folder="boolq",
    read=read_boolq,
    tables={
        "labeled": Table(
            ("labeled", "data/train", "data/validation"),
            {"question": str, "answer": bool, "passage": str},
            hub=Hub("google/boolq", split="train+validation"),
        ),
        "unlabeled": Table(("unlabeled_passages",), {"passage": str}, required=False),
    },
)
