"""What the columns of some data sets need before they are documents and queries; named in `catalogue.yaml`.

Each function changes the fields of one row; `memo` is what it remembers of the rows before.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from rag_utils.corpora._draft import Row, RowError, stable_id, texts
from rag_utils.corpora.dates import iso_day

_CITATION = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")
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
