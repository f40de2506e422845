"""Hits to answers without a language model: the sentence of the retrieved text that fits the question best.

It is the baseline that every answer of a language model stands beside, and what a reader without a model can run.
"""

from collections.abc import Sequence

from rag_utils.chunking import passage, sentences
from rag_utils.indexing import LexicalIndex, stems
from rag_utils.schema import Answer, Chunk, Hit, Query, Reranker, Retriever


class ExtractiveAnswerer:
    """Answers with one sentence of the first k hits, chosen by a reranker or, without one, by BM25 over the sentences.

    Args:
        retriever: Finds the hits.
        k: Hits whose sentences are candidates.
        reranker: Scores (question, sentence) pairs, all questions in one call; None = BM25 (Lucene idf, stems).
    """

    def __init__(self, retriever: Retriever, k: int = 5, reranker: Reranker | None = None):
        self.retriever, self.k, self.reranker = retriever, k, reranker

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One answer a query from the retriever's first k hits; see `read`."""
        return self.read(queries, self.retriever.retrieve(queries, self.k))

    def read(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[Answer]:
        """One answer a query from given hits: its first hit is the chosen sentence, then they. No hit, no text."""
        candidates = [_sentence_chunks(found) for found in hits]
        best = self._best(queries, candidates)
        return [
            Answer(
                query_id=query.id,
                text=hit.chunk.fields["text"] if hit else "",
                hits=((hit,) if hit else ()) + tuple(found),
            )
            for query, hit, found in zip(queries, best, hits, strict=True)
        ]

    def _best(self, queries: Sequence[Query], candidates: list[list[Chunk]]) -> list[Hit | None]:
        if self.reranker is None:
            return [_best_by_bm25(query.text, chunks) for query, chunks in zip(queries, candidates, strict=True)]
        pairs = [
            (query.text, chunk.fields["text"])
            for query, chunks in zip(queries, candidates, strict=True)
            for chunk in chunks
        ]
        scores = iter(self.reranker.score_pairs(pairs))  # type: ignore[attr-defined]
        scored = [[Hit(chunk, next(scores)) for chunk in chunks] for chunks in candidates]
        return [max(hits, key=lambda hit: hit.score, default=None) for hits in scored]


def _best_by_bm25(question: str, chunks: list[Chunk]) -> Hit | None:
    """The best sentence; the first one where no sentence shares a word with the question."""
    if not chunks:
        return None
    by_id = {chunk.id: chunk for chunk in chunks}
    for id_, score in LexicalIndex(chunks, tokenizer=stems, idf="lucene").search([question], 1)[0]:
        return Hit(by_id[id_], score)
    return Hit(chunks[0], 0.0)


def _sentence_chunks(hits: Sequence[Hit]) -> list[Chunk]:
    """The sentences of the hits' passages, without the metadata header, as chunks of their own; each once."""
    found: dict[str, Chunk] = {}
    for hit in hits:
        chunk = hit.chunk
        body = passage(chunk)
        for start, end in sentences(body):
            text = body[start:end]
            id_ = f"{chunk.document_id}@{chunk.start + start:07d}"
            found.setdefault(
                text,
                Chunk(
                    id=id_,
                    document_id=chunk.document_id,
                    start=chunk.start + start,
                    end=chunk.start + end,
                    fields={"text": text},
                    metadata=chunk.metadata,
                ),
            )
    return list(found.values())
