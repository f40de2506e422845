"""Multi-hop questions on news articles: MultiHop-RAG, and the package's own in the same form."""

from rag_utils.corpora._draft import Draft, stable_id
from rag_utils.corpora._rows import Row
from rag_utils.corpora._tables import DataSet, Hub, Table

_REPOSITORY = "yixuantt/MultiHopRAG"
_EVIDENCE = {"evidence_list[].title": str, "evidence_list[].fact": str}
_ARTICLE = ("title", "author", "source", "published_at", "category")


def read_multihop_rag(draft: Draft) -> None:
    """A document per article, known by its title (or, without one, by its address or body); evidence by title."""
    by_address: dict[str, str] = {}
    for place, row in draft.rows("corpus"):
        id_ = stable_id(row.get("title") or row.get("url") or row["body"])
        _add_article(draft, place, row, id=id_, text=row["body"])
        if row.get("url"):
            by_address[row["url"]] = id_
    for place, row in draft.rows("queries"):
        evidence = row["evidence_list"]
        draft.add_query(
            place,
            id=stable_id(row["query"]),
            text=row["query"],
            answers=[row["answer"]],
            gold=[by_address.get(piece.get("url")) or stable_id(piece["title"]) for piece in evidence],
            facts=[piece["fact"] for piece in evidence],
            type=row["question_type"].removesuffix("_query"),
        )


def _add_article(draft: Draft, place: str, row: Row, *, id: str, text: str) -> None:
    metadata = {"source": row.get("source"), **draft.published(place, row.get("published_at"))}
    metadata |= {"category": row.get("category"), "author": row.get("author")}
    draft.add_document(place, id=id, text=text, title=row.get("title") or "", metadata=metadata)


MULTIHOP_RAG = DataSet(
    name="multihop_rag",
    about="MultiHop-RAG: questions whose evidence lies in 2-4 news articles",
    licence="ODC-BY 1.0; news text belongs to its publishers",
    folder="multihop_rag",
    read=read_multihop_rag,
    aside=("corpus_provenance",),
    tables={
        "corpus": Table(("corpus",), {"body": str}, (*_ARTICLE, "url"), hub=Hub(_REPOSITORY, "corpus", files="*.json")),
        "queries": Table(
            ("MultiHopRAG",),
            {"query": str, "answer": str, "question_type": str, **_EVIDENCE},
            hub=Hub(_REPOSITORY, "MultiHopRAG", files="*.json"),
        ),
    },
)


def read_builtin_news(draft: Draft) -> None:
    """Articles with ids; evidence names the article's id."""
    for place, row in draft.rows("documents"):
        _add_article(draft, place, row, id=row["id"], text=row["text"])
    for place, row in draft.rows("queries"):
        draft.add_query(
            place,
            id=row["id"],
            text=row["question"],
            answers=[row["answer"]],
            gold=[piece["document_id"] for piece in row["evidence"]],
            facts=[piece["fact"] for piece in row["evidence"]],
            type=row["type"],
        )


BUILTIN_NEWS = DataSet(
    name="builtin_news",
    about="Invented news of invented outlets, with questions of MultiHop-RAG's four types",
    licence="Apache-2.0",
    folder="builtin",
    read=read_builtin_news,
    built_in=True,
    tables={
        "documents": Table(("news_documents",), {"id": str, "text": str}, _ARTICLE),
        "queries": Table(
            ("news_queries",),
            {"id": str, "question": str, "type": str, "answer": str}
            | {"evidence[].document_id": str, "evidence[].fact": str},
        ),
    },
)
