"""Ways to cut documents into chunks, each with its character offsets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from rag_utils.chunking._header import metadata_lines, stored_text
from rag_utils.chunking._packing import CountTokens, Span, count_words_and_marks, pack, units, word_spans
from rag_utils.chunking._sentences import sentences as split_sentences
from rag_utils.schema import Chunk, Document

SplitSentences = Callable[[str], list[Span]]


def by_tokens(
    documents: Sequence[Document],
    *,
    size: int = 256,
    overlap: int = 32,
    header: bool = True,
    reserve_metadata: bool | None = None,
    count_tokens: CountTokens | None = None,
    sentences: SplitSentences | None = None,
) -> list[Chunk]:
    """Sentences packed up to `size` tokens; a sentence is cut, between words, only if it alone exceeds the limit.

    Args:
        documents: Blank ones give no chunk.
        size: Most tokens of a chunk's body (and metadata lines, if reserved).
        overlap: Most tokens of the whole sentences that a chunk shares with the one before, below `size`.
        header: The searched text is the stored text of Multi-Meta-RAG (PAPERS 1.3) with the title, date and outlet that
            exist, where any does; `start:end` is the body in any case. Without, it is the body.
        reserve_metadata: Take the tokens of the metadata lines off `size`. None = if they are shown; True without the
            header gives the same bodies as with it, for a comparison of the two.
        count_tokens: The encoder's own count; by default words and punctuation marks.
        sentences: Text to spans; by default `rag_utils.chunking.sentences`.

    Raises:
        ValueError: No room: `size` below 1, `overlap` not below `size`, or metadata lines of `size` tokens or more.
    """
    _check(size, overlap)
    count, split = count_tokens or count_words_and_marks, sentences or split_sentences
    reserve = header if reserve_metadata is None else reserve_metadata
    limits = [_limit(document, size, count) if reserve else size for document in documents]
    chunks = []
    for document, limit in zip(documents, limits, strict=True):
        lines = metadata_lines(document) if header else ""
        parts = units(document.text, split(document.text), limit, count)
        for number, (start, end, _) in enumerate(pack(parts, limit, overlap)):
            chunks.append(_chunk(document, number, (start, end), stored_text(lines, document.text[start:end])))
    return chunks


def _limit(document: Document, size: int, count: CountTokens) -> int:
    metadata = count(metadata_lines(document))
    if metadata >= size:
        raise ValueError(
            f"document {document.id!r}: its metadata takes {metadata} of size={size} tokens and leaves none for the "
            "text; raise size, or pass reserve_metadata=False"
        )
    return size - metadata


def by_words(documents: Sequence[Document], *, size: int = 100, overlap: int = 0) -> list[Chunk]:
    """Passages of `size` words as white space parts them, the last one shorter (RAG-QA Arena, PAPERS 4.2)."""
    _check(size, overlap)

    def spans(text: str) -> Iterator[Span]:
        words = word_spans(text)
        for first in range(0, len(words), size - overlap):
            if first == 0 or first + overlap < len(words):  # else all of it has been in the passage before
                yield words[first][0], words[first : first + size][-1][1]

    return _cut(documents, spans)


def by_sentences(
    documents: Sequence[Document], *, size: int = 1, window: int = 0, sentences: SplitSentences | None = None
) -> list[Chunk]:
    """Groups of `size` sentences to search by; with a window, also the text around them to read (PAPERS 3.4).

    Args:
        documents: Blank ones give no chunk.
        size: Sentences in a chunk, the last one of a document fewer.
        window: Sentences on either side that `fields["window"]` adds, from `metadata["window_start"]` to
            `metadata["window_end"]` (characters in the document); 0 = none of the three.
        sentences: Text to spans; by default `rag_utils.chunking.sentences`.
    """
    _check(size, 0)
    if window < 0:
        raise ValueError(f"window={window}: give a number of sentences, 0 for none")
    chunks = []
    for document in documents:
        found = (sentences or split_sentences)(document.text)
        for number, first in enumerate(range(0, len(found), size)):
            start, end = found[first][0], found[first : first + size][-1][1]
            around = found[max(first - window, 0) : first + size + window]
            outer = (around[0][0], around[-1][1]) if window else None
            chunks.append(_chunk(document, number, (start, end), document.text[start:end], outer))
    return chunks


def by_pieces(documents: Sequence[Document], n: int = 4) -> list[Chunk]:
    """`n` pieces of equal length in characters, line ends made semicolons, as QA-RAG's code has it (PAPERS 3.4)."""
    _check(n, 0)

    def spans(text: str) -> Iterator[Span]:
        borders = [round(len(text) * number / n) for number in range(n + 1)]
        return pairwise(borders)

    return _cut(documents, spans, lambda body: body.replace("\n", ";"))


def whole(documents: Sequence[Document]) -> list[Chunk]:
    """One chunk per document."""
    return _cut(documents, lambda text: iter([(0, len(text))]))


def _cut(
    documents: Sequence[Document],
    spans: Callable[[str], Iterator[Span]],
    written: Callable[[str], str] = str,
) -> list[Chunk]:
    """The spans of each document as chunks, blank ones left out; `written` makes the searched text of the body."""
    chunks = []
    for document in documents:
        bodies = ((span, document.text[slice(*span)]) for span in spans(document.text))
        for number, (span, body) in enumerate((span, body) for span, body in bodies if body.strip()):
            chunks.append(_chunk(document, number, span, written(body)))
    return chunks


def _chunk(document: Document, number: int, span: Span, text: str, window: Span | None = None) -> Chunk:
    fields = {"text": text}
    if document.title:
        fields["title"] = document.title
    if document.metadata.get("headings"):
        fields["headings"] = str(document.metadata["headings"])
    metadata: Mapping[str, str | int | float] = document.metadata
    if window:
        fields["window"] = document.text[slice(*window)]
        metadata = {**metadata, "window_start": window[0], "window_end": window[1]}
    return Chunk(
        id=f"{document.id}#{number:04d}",
        document_id=document.id,
        start=span[0],
        end=span[1],
        fields=fields,
        metadata=metadata,
    )


def _check(size: int, overlap: int) -> None:
    if size < 1:
        raise ValueError(f"size={size}: a chunk holds at least one")
    if not 0 <= overlap < size:
        raise ValueError(f"overlap={overlap}: it has to be at least 0 and below size={size}, or no chunk brings news")
