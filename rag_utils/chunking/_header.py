"""The metadata that Multi-Meta-RAG writes in front of every chunk (PAPERS 1.3)."""

from rag_utils.schema import Chunk, Document


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


def passage(chunk: Chunk) -> str:
    """The document's own words in a chunk: its searched text without the metadata written in front."""
    text, length = chunk.fields["text"], chunk.end - chunk.start
    body = text.removesuffix("\n-----")
    return body[len(body) - length :] if len(text) > length else text
