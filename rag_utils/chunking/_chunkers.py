"""Ways to cut documents into chunks, each with its character offsets."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_utils.chunking._sentences import Span
from rag_utils.chunking._sentences import sentences as split_sentences
from rag_utils.schema import Chunk, Document

CountTokens = Callable[[str], int]
SplitSentences = Callable[[str], list[Span]]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD, _CHARACTER = re.compile(r"\S+"), re.compile(r"\S")


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
        header: The searched text is the stored text of Multi-Meta-RAG with the title, date and outlet that
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
    reserved = (_reserved(document, size, count) if reserve and document.text.strip() else 0 for document in documents)
    limits = [size - tokens for tokens in reserved]

    def spans(document: Document, limit: int) -> Iterator[Span]:
        for part in _pack(_parts(document.text, split(document.text), limit, count), limit, overlap):
            yield part.start, part.end

    def stored(document: Document, body: str) -> str:
        lines = _metadata_lines(document) if header else ""
        return f"[Excerpt from document]\n{lines}\nExcerpt:\n-----\n{body}\n-----" if lines else body

    return _cut(documents, map(spans, documents, limits), stored)


def by_words(documents: Sequence[Document], *, size: int = 100, overlap: int = 0) -> list[Chunk]:
    """Passages of `size` words as white space parts them, the last one shorter (RAG-QA Arena, section 5)."""
    _check(size, overlap)

    def spans(document: Document) -> Iterator[Span]:
        words = [match.span() for match in _WORD.finditer(document.text)]
        for first in range(0, len(words), size - overlap):
            if first == 0 or first + overlap < len(words):  # else all of it has been in the passage before
                yield words[first][0], words[first : first + size][-1][1]

    return _cut(documents, map(spans, documents))


def by_sentences(
    documents: Sequence[Document], *, size: int = 1, window: int = 0, sentences: SplitSentences | None = None
) -> list[Chunk]:
    """Groups of `size` sentences to search by; with a window, also the text around them to read (QA-RAG, section 2).

    `window` = sentences on either side that `fields["window"]` adds, from `metadata["window_start"]` to
    `metadata["window_end"]` (characters in the document); 0 = none of the three. `sentences` as in `by_tokens`.
    """
    _check(size, 0)
    if window < 0:
        raise ValueError(f"window={window}: give a number of sentences, 0 for none")

    def spans(document: Document) -> Iterator[tuple[int, ...]]:
        found = (sentences or split_sentences)(document.text)
        for first in range(0, len(found), size):
            around = found[max(first - window, 0) : first + size + window]
            outer = (around[0][0], around[-1][1]) if window else ()
            yield found[first][0], found[first : first + size][-1][1], *outer

    return _cut(documents, map(spans, documents))


def by_pieces(documents: Sequence[Document], n: int = 4) -> list[Chunk]:
    """`n` pieces of equal length in characters, line ends made semicolons, as QA-RAG's code has it."""
    _check(n, 0)
    spans = (pairwise(round(len(document.text) * border / n) for border in range(n + 1)) for document in documents)
    return _cut(documents, spans, lambda document, body: body.replace("\n", ";"))


def whole(documents: Sequence[Document]) -> list[Chunk]:
    """One chunk per document."""
    return _cut(documents, ([(0, len(document.text))] for document in documents))


def passage(chunk: Chunk) -> str:
    """The document's own words in a chunk: its searched text without the metadata written in front."""
    text, length = chunk.fields["text"], chunk.end - chunk.start
    body = text.removesuffix("\n-----")
    return body[len(body) - length :] if len(text) > length else text


def count_words_and_marks(text: str) -> int:
    """Words and punctuation marks: the count used when no encoder's own is given."""
    return len(_TOKEN.findall(text))


def _cut(
    documents: Sequence[Document],
    spans: Iterable[Iterable[tuple[int, ...]]],
    written: Callable[[Document, str], str] = lambda document, body: body,
) -> list[Chunk]:
    """The spans of each document as chunks, blank ones left out; `written` makes the searched text of the body.

    A span is start and end, or these of the chunk and of the window around it.
    """
    chunks = []
    for document, own in zip(documents, spans, strict=True):
        text, metadata = document.text, document.metadata
        common = {"title": document.title, "headings": str(metadata.get("headings", ""))}
        common = {field: value for field, value in common.items() if value}
        for number, (start, end, *window) in enumerate(span for span in own if text[span[0] : span[1]].strip()):
            fields = {"text": written(document, text[start:end]), **common}
            if window:
                fields["window"] = text[slice(*window)]
                metadata = {**document.metadata, "window_start": window[0], "window_end": window[1]}
            id_ = f"{document.id}#{number:04d}"
            chunk = Chunk(id=id_, document_id=document.id, start=start, end=end, fields=fields, metadata=metadata)
            chunks.append(chunk)
    return chunks


def _check(size: int, overlap: int) -> None:
    if size < 1:
        raise ValueError(f"size={size}: a chunk holds at least one")
    if not 0 <= overlap < size:
        raise ValueError(f"overlap={overlap}: it has to be at least 0 and below size={size}, or no chunk brings news")


def _metadata_lines(document: Document) -> str:
    """`title`, `published_at` (the raw time where there is one) and `source`, a line each, those that exist."""
    known = document.metadata
    pairs = {
        "title": document.title or known.get("title"),
        "published_at": known.get("published_time") or known.get("published_at"),
        "source": known.get("source"),
    }
    return "\n".join(f"{key}: {value}" for key, value in pairs.items() if value)


def _reserved(document: Document, size: int, count: CountTokens) -> int:
    tokens = count(_metadata_lines(document))
    if tokens >= size:
        raise ValueError(
            f"document {document.id!r}: its metadata takes {tokens} of size={size} tokens and leaves none for the "
            "text; raise size, or pass reserve_metadata=False"
        )
    return tokens


class _Part(NamedTuple):
    """What is packed: a sentence that is whole, or a piece of one."""

    start: int
    end: int
    tokens: int
    whole: bool


def _parts(
    text: str,
    spans: Iterable[Span],
    limit: int,
    count: CountTokens,
    finer: Sequence[re.Pattern[str]] = (_WORD, _CHARACTER),
) -> Iterator[_Part]:
    """The spans, each counted once; one above the limit is cut between words, a word between characters."""
    for start, end in spans:
        tokens = count(text[start:end])
        if tokens <= limit or not finer:
            yield _Part(start, end, tokens, whole=True)
        else:
            inner = (match.span() for match in finer[0].finditer(text, start, end))
            yield from _pack(_parts(text, inner, limit, count, finer[1:]), limit)


def _pack(parts: Iterable[_Part], limit: int, overlap: int = 0) -> Iterator[_Part]:
    """Greedy spans of consecutive parts, at most `limit` tokens each.

    The next span opens with the whole sentences that end the last one, as many as fit into `overlap` tokens and leave
    room for the sentence that comes next: every span so holds something new. Counts are added up, which is exact for
    tokenizers that part at white space (WordPiece, words).
    """
    held: list[_Part] = []
    tokens = 0
    for part in parts:
        if held and tokens + part.tokens > limit:
            yield _Part(held[0].start, held[-1].end, tokens, whole=False)
            room, first, tokens = min(overlap, limit - part.tokens), len(held), 0
            while overlap and first > 1 and held[first - 1].whole and tokens + held[first - 1].tokens <= room:
                first -= 1
                tokens += held[first].tokens
            held = held[first:]
        held.append(part)
        tokens += part.tokens
    if held:
        yield _Part(held[0].start, held[-1].end, tokens, whole=False)
