"""What the columns of some data sets need before they are documents and queries; named in `catalogue.yaml`.

Each function changes the fields of one row; `memo` is what it remembers of the rows before.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from rag_utils.corpora._draft import Row, RowError, stable_id, texts
from rag_utils.corpora.dates import iso_day

_CITATION = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")
_CANNOT_SAY = "I do not know"  # the answer of an annotator who found none: QA-RAG's wording, one of `ABSTENTIONS`
_LONGEST_TITLE = 100  # characters; a dash further on is one of the passage's own


def nothing(row: Row, memo: dict[str, Any]) -> None:
    """Most columns need."""


def paragraph(row: Row, memo: dict[str, Any]) -> None:
    """SQuAD: a document per paragraph, named `<article>-<place in the article>`.

    Titles are written with underscores; as a searched text they would be one word, so blanks are put back.
    """
    article, text = row.document["title"], row.document["text"]
    paragraphs = memo.setdefault(article, [])
    if text not in paragraphs:
        paragraphs.append(text)
    row.document["id"] = f"{article}-{paragraphs.index(text):03d}"
    row.document["title"] = row.metadata["title"] = article.replace("_", " ")


def passage(row: Row, memo: dict[str, Any]) -> None:
    """BoolQ: "Title -- text" is taken apart where a copy has it."""
    row.document["id"] = stable_id(row.document["text"])
    title, dashes, text = row.document["text"].partition(" -- ")
    if dashes and len(title) <= _LONGEST_TITLE:
        row.document |= {"title": title, "text": text}
        row.metadata["title"] = title


def number_of_year(row: Row, memo: dict[str, Any]) -> None:
    """PubMedQA: years are written as text."""
    if "year" in row.metadata:
        row.metadata["year"] = int(_number(row.metadata["year"], "year"))


def article(row: Row, memo: dict[str, Any]) -> None:
    """MultiHop-RAG: an article is known by its title (or, without one, by its address or body)."""
    address = row.document.pop("address", None)
    row.document["id"] = stable_id(row.document.get("title") or address or row.document["text"])
    if address:
        memo[address] = row.document["id"]


def evidence(row: Row, memo: dict[str, Any]) -> None:
    """MultiHop-RAG: evidence names an article's address, which is the surer one, and its title."""
    pieces = row.record["evidence_list"]
    row.query["gold_documents"] = [memo.get(piece.get("url")) or stable_id(piece["title"]) for piece in pieces]
    row.query["types"] = row.query["types"].removesuffix("_query")


def paper(row: Row, memo: dict[str, Any]) -> None:
    """QASPER: title, abstract and sections make one text; a question has an answer of each of its annotators.

    Its type is the kind of answer that most of them gave (the first of equals); its facts are all paragraphs that one
    of them calls evidence. Where none found an answer, there is no gold document.
    """
    blocks = [row.document.get("title"), row.document.get("text")]
    for section in _records(row.record, "full_text"):
        blocks += [section.get("section_name"), *texts(section.get("paragraphs"))]
    row.document["text"], text = blocks, "\n".join(texts(blocks))
    questions = [_asked(question, row, text) for question in _records(row.record, "qas")]
    worded = [question for question in questions if question["text"]]
    row.quirks += ["a question without a wording"] * (len(questions) - len(worded))
    row.query = {name: [question[name] for question in worded] for name in worded[0]} if worded else {}


def _asked(question: Mapping[str, Any], row: Row, text: str) -> dict[str, Any]:
    """A question of a paper by our names; odd answers, and evidence that the paper's text does not have, are noted."""
    given = [one.get("answer") for one in _records(question, "answers")]
    answers = [
        one for item in given for one in (item if isinstance(item, list) else [item]) if isinstance(one, Mapping)
    ]
    read = [(kind, answer) for kind, answer in map(_kind_and_answer, answers) if kind]
    row.quirks += ["an answer without content"] * (len(answers) - len(read))
    kinds = Counter(kind for kind, _ in read)
    evidence = dict.fromkeys(piece for answer in answers for piece in texts(answer.get("evidence")))
    absent = [piece.startswith("FLOAT SELECTED") for piece in evidence if piece not in text]
    row.quirks += ["evidence is " + ("a figure or table" if drawn else "not in the text") for drawn in absent]
    return {
        "id": question.get("question_id") or "",
        "text": "".join(texts(question.get("question"))),
        "answers": [answer for _, answer in read],
        "facts": [piece for piece in evidence if piece in text],
        "types": kinds.most_common(1)[0][0] if kinds else "",
        "gold_documents": [row.document["id"]] if kinds.keys() - {"unanswerable"} else [],
    }


def _kind_and_answer(answer: Mapping[str, Any]) -> tuple[str, str]:
    free, spans = texts(answer.get("free_form_answer")), texts(answer.get("extractive_spans"))
    if free or spans:
        return ("abstractive", free[0]) if free else ("extractive", ", ".join(spans))
    if isinstance(answer.get("yes_no"), bool):
        return "boolean", "Yes" if answer["yes_no"] else "No"
    return ("unanswerable", _CANNOT_SAY) if answer.get("unanswerable") else ("", "")


def _records(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A table within a row as a list of records, which `datasets` also gives as a record of lists."""
    table = record.get(name)
    if isinstance(table, Mapping):
        columns = {key: column for key, column in table.items() if column is not None}
        if not all(isinstance(column, list) for column in columns.values()) or len(set(map(len, columns.values()))) > 1:
            raise RowError(f"{name} has columns of unequal length")
        table = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if not isinstance(table, list) or not all(isinstance(one, Mapping) for one in table):
        raise RowError(f"{name} is no table")
    return table


def strip_citations(text: str) -> str:
    """The text without marks such as " [1]" and "[2, 3]"; other brackets ("[sic]") are content and stay."""
    return _CITATION.sub("", text)


def domain(row: Row, memo: dict[str, Any]) -> None:
    """LFRQA: a table per domain, whose documents have numbers of their own; what its files are known to get wrong."""
    cited, gold = row.query["long_answers"], row.query.get("cited_documents", [])
    answer, plain = strip_citations(cited).strip(), "".join(texts(row.record.get("answer")))
    row.query |= {"id": f"{row.table}-{row.query['id']}", "types": row.table, "answers": answer, "gold_documents": gold}
    groups = row.record.get("citation_numbers")
    numbers = [int(n) for group in (groups if isinstance(groups, list) else []) for n in texts(group) if n.isdecimal()]
    odd = {
        "the column `answer` is empty": not plain,
        "the column `answer` is not the cited answer without its marks": plain and _solid(plain) != _solid(answer),
        "no citation mark": answer == cited.strip(),
        "a citation beyond the gold documents": max(numbers, default=0) > len(gold),
        "a gold document named twice": len(set(gold)) < len(gold),
    }
    row.quirks += [what for what, is_so in odd.items() if is_so]


def _solid(text: str) -> str:
    return "".join(text.split())


def judgement(row: Row, memo: dict[str, Any]) -> None:
    """BEIR's qrels: only a score above 0 makes a document gold."""
    if _number(row.query.pop("score"), "score") <= 0:
        row.query["gold_documents"] = []


def _number(value: object, name: str) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise RowError(f"{name} is not a number", value) from None


def extra_keys(row: Row, memo: dict[str, Any]) -> None:
    """BEIR's corpus: extra keys become metadata, as filters and the store can hold them.

    A mapping is flattened ("venue.name"; BEIR's own "metadata" without the prefix), truth written "true" or "false", a
    date in any form its ISO day.
    """
    row.metadata |= _plain({key: value for key, value in row.record.items() if key not in ("_id", "title", "text")})


def _plain(extra: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in extra.items():
        if isinstance(value, Mapping):
            yield from _plain(value, "" if key == "metadata" else f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, str | date) and key != "published_at":
            yield prefix + key, iso_day(value) or str(value)
        elif value == value:  # not NaN
            yield prefix + key, value
