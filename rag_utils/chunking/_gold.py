"""Where the gold evidence lies in the chunks, by character offsets."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rag_utils.corpora import Corpus
from rag_utils.provenance import note
from rag_utils.schema import Chunk, Document, Qrels

Place = tuple[str, int, int]
"""Document id, first character, one past the last."""


def gold_chunks(corpus: Corpus, chunks: Sequence[Chunk]) -> Qrels:
    """The chunks that hold a piece of evidence whole, with grade 1.

    The evidence is the gold facts; where a query has none, any of its answers as it stands in a gold document. A text
    counts wherever it occurs there: as whole words if it does so anywhere, and with other spaces and line breaks only
    if it does not occur otherwise. Where no more is known than the document (a query without answers, or whose answer
    is a class such as "yes"), all of the document's chunks are gold.

    Returns:
        A query whose evidence is cut by chunk borders has an empty entry: no system can find it. A query without
        evidence to be found (a null question, an answer in other words, a gold document that is not in the corpus) has
        no entry; those with gold documents are counted in the run's provenance as dropped.
    """
    by_document = _by_document(chunks)
    qrels: Qrels = {}
    for query_id, documents, facts in _evidence(corpus):
        found = [chunk for places in facts for chunk in _holders(places, by_document)]
        all_chunks = [chunk for document in documents for chunk in by_document.get(document.id, ())]
        qrels[query_id] = {chunk.id: 1 for chunk in (found if facts else all_chunks)}
    lost = sum(query.id in corpus.gold_documents and query.id not in qrels for query in corpus.queries)
    if lost:
        note("dropped", what=f"{corpus.name}: no evidence in the gold documents", n=lost)
    return qrels


def reachable_facts(corpus: Corpus, chunks: Sequence[Chunk]) -> dict[str, list[bool]]:
    """For each query with evidence, whether each piece of it lies whole in at least one chunk.

    The pieces are the gold facts in their order, else one: any of the answers (see `gold_chunks`; a query of which only
    the document is known has none).
    """
    by_document = _by_document(chunks)
    return {
        query_id: [any(True for _ in _holders(places, by_document)) for places in facts]
        for query_id, _, facts in _evidence(corpus)
        if facts
    }


def chunking_ceiling(corpus: Corpus, chunks: Sequence[Chunk]) -> float:
    """Share (0-1) of the gold facts that lie whole in at least one chunk: what retrieval can reach at most.

    NaN if no query has evidence.
    """
    reached = [one for facts in reachable_facts(corpus, chunks).values() for one in facts]
    return sum(reached) / len(reached) if reached else float("nan")


def _by_document(chunks: Sequence[Chunk]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        found[chunk.document_id].append(chunk)
    return found


def _holders(places: Sequence[Place], by_document: Mapping[str, list[Chunk]]) -> Iterator[Chunk]:
    for document_id, start, end in places:
        for chunk in by_document.get(document_id, ()):
            if chunk.start <= start and end <= chunk.end:
                yield chunk


def _evidence(corpus: Corpus) -> Iterator[tuple[str, list[Document], list[list[Place]]]]:
    """Queries with their gold documents and every place of each piece of evidence; no pieces if no text is known."""
    documents = {document.id: document for document in corpus.documents}
    for query in corpus.queries:
        gold = [documents[id_] for id_ in corpus.gold_documents.get(query.id, ()) if id_ in documents]
        facts, answers = corpus.facts.get(query.id, ()), corpus.answers.get(query.id, ())
        if gold and facts:
            yield query.id, gold, [_places(fact, gold) for fact in facts]
        elif gold and answers in ((), (corpus.labels.get(query.id),)):
            yield query.id, gold, []
        elif places := [place for answer in answers for place in _places(answer, gold)]:
            yield query.id, gold, [places]


def _places(wanted: str, documents: Sequence[Document]) -> list[Place]:
    """Every place of a text in the documents, by the strictest reading that finds it in any."""
    exact = re.escape(wanted)
    loose = r"[ \n]*".join(re.escape(character) for character in wanted if character not in " \n")
    for pattern in (rf"(?<!\w){exact}(?!\w)", exact, loose):
        found = [(d.id, *match.span()) for d in documents for match in re.finditer(pattern, d.text) if match[0]]
        if found:
            return found
    return []
