"""Sentences to search by, the text around them to read (QA-RAG, section 2)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from rag_utils.retrieval.families import check_mode, top_by_index
from rag_utils.retrieval.retrievers import _check
from rag_utils.schema import Chunk, Hit, Query, Retriever


class SentenceWindowRetriever:
    """Sentences are searched, and the windows around those found are the hits (SWRetr).

    Sentences are read in order of rank until k windows stand. A window that overlaps or touches others of its document
    (white space between them parts them) becomes one with them. A later sentence that would only widen a window is not
    read any more, so windows for a larger k may be wider. A window's text is `document.text[start:end]`, its id
    `<document id>@<start>-<end>`; score, metadata and other fields are those of its best sentence.

    "paper": the sentences as they are, as in the authors' code.

    Args:
        retriever: Over sentences cut by `by_sentences(documents, window=1)`; it applies the filters. It is asked for
            2k sentences, and for twice as many until k windows stand or no sentence is left.
        mode: "sound" or "paper".
    """

    def __init__(self, retriever: Retriever, *, mode: str = "sound"):
        check_mode(mode)
        self.retriever, self.mode = retriever, mode

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The sentences. Windows are not among them: judge hits by their text, or by `gold_chunks` of the hits."""
        return self.retriever.chunks  # type: ignore[attr-defined]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """At most k windows each, with the scores of their best sentences.

        Raises:
            ValueError: k is negative, or a sentence has no window.
        """
        _check(k)
        if self.mode == "paper":
            return [top_by_index(hits, k) for hits in self.retriever.retrieve(queries, k)]
        windows: list[list[Hit]] = [[] for _ in queries]
        waiting, depth = list(range(len(queries))), 2 * k
        while waiting:
            found = self.retriever.retrieve([queries[i] for i in waiting], depth)
            for i, sentences in zip(waiting, found, strict=True):
                windows[i] = _read(sentences, k)
            waiting = [i for i, own in zip(waiting, found, strict=True) if len(own) == depth and len(windows[i]) < k]
            depth *= 2
        return windows


def _read(sentences: Sequence[Hit], k: int) -> list[Hit]:
    """The windows that stand when there are k of them, or no sentence is left; best first, ties by id."""
    standing: list[list[Hit]] = []
    for hit in sentences:
        if len(standing) == k:
            break
        near = [own for own in standing if any(_touch(hit, other) for other in own)]
        standing = [*(own for own in standing if own not in near), [*chain(*near), hit]]
    return sorted(map(_window, standing), key=lambda hit: (-hit.score, hit.chunk.id))


def _touch(one: Hit, other: Hit) -> bool:
    (start, end), (first, last) = _span(one), _span(other)
    return one.chunk.document_id == other.chunk.document_id and start <= last and first <= end


def _span(sentence: Hit) -> tuple[int, int]:
    chunk = sentence.chunk
    if "window" not in chunk.fields:
        raise ValueError(f"chunk {chunk.id!r} has no window: cut the documents by by_sentences(..., window=1)")
    return int(chunk.metadata["window_start"]), int(chunk.metadata["window_end"])


def _window(sentences: Sequence[Hit]) -> Hit:
    """The one window of sentences whose windows hang together."""
    parts = sorted(sentences, key=_span)
    text, (start, end) = parts[0].chunk.fields["window"], _span(parts[0])
    for hit in parts[1:]:
        first, last = _span(hit)
        text += hit.chunk.fields["window"][end - first :]
        end = max(end, last)
    best = max(sentences, key=lambda hit: hit.score)
    fields = {key: value for key, value in best.chunk.fields.items() if key != "window"} | {"text": text}
    metadata = {key: value for key, value in best.chunk.metadata.items() if key not in ("window_start", "window_end")}
    id_ = f"{best.chunk.document_id}@{start}-{end}"
    return Hit(replace(best.chunk, id=id_, start=start, end=end, fields=fields, metadata=metadata), best.score)
