"""The metadata that Multi-Meta-RAG writes in front of every chunk (PAPERS 1.3)."""

from rag_utils.schema import Document


def metadata_lines(document: Document) -> str:
    """`title`, `published_at` (the raw time where there is one) and `source`, a line each, those that exist."""
    known = document.metadata
    pairs = {
        "title": document.title or known.get("title"),
        "published_at": known.get("published_time") or known.get("published_at"),
        "source": known.get("source"),
    }
    return "\n".join(f"{key}: {value}" for key, value in pairs.items() if value)


def stored_text(lines: str, body: str) -> str:
    """The text that is embedded, searched, reranked and shown; the body alone where there is no metadata."""
    return f"[Excerpt from document]\n{lines}\nExcerpt:\n-----\n{body}\n-----" if lines else body
