"""Texts a second of each stream, beside the plain loop over texts.

Run: DOCS=1000 LOOP=50 python tests/benchmarks/enrichment.py   (make bench NAME=enrichment; 15 minutes or more)

Abstracts of PubMedQA (RAG_DATA_DIR), else the built-in ones, through `extract_phrases` with nothing kept on disk:
KeyBERT (phrases of 1 to 3 words, MMR 0.9, top 10), YAKE (top 1), entities (top 3) and acronyms. The loop calls the
library for one text after the other, spaCy with its whole pipeline, on the first LOOP texts; acronyms have no peer.
Exit status 1 when a text of the loop has other phrases.
"""

import os
import sys
import time
from collections import Counter

from _keybert_loop import load_peer, loop_of

from rag_utils.chunking import load_pipeline
from rag_utils.corpora import load_corpus
from rag_utils.encoders import load_embedder
from rag_utils.enrichment import (
    KEYBERT_PRESETS,
    AcronymEnricher,
    EntityEnricher,
    KeyBERTEnricher,
    YakeEnricher,
    extract_phrases,
)
from rag_utils.enrichment.streams import ENTITY_TYPES
from rag_utils.schema import Chunk

DOCS, LOOP = int(os.environ.get("DOCS", "1000")), int(os.environ.get("LOOP", "50"))
PRESET = KEYBERT_PRESETS["pubmedqa"]


def keybert_loop(peer, texts: list[str]) -> list[tuple[str, ...]]:
    """Phrases of the library."""
    return [tuple(phrase for phrase, _ in own) for own in loop_of(peer, **PRESET)(texts)]


def yake_loop(texts: list[str]) -> list[tuple[str, ...]]:
    """An extractor for each text, as the paper's code has it."""
    import yake

    found = [yake.KeywordExtractor(lan="en", n=3, dedup_lim=0.9, top=1).extract_keywords(text) for text in texts]
    return [tuple(phrase for phrase, _ in own) for own in found]


def entity_loop(nlp, texts: list[str]) -> list[tuple[str, ...]]:
    """Surface forms, counted."""
    found = [[entity.text for entity in nlp(text).ents if entity.label_ in ENTITY_TYPES] for text in texts]
    return [tuple(name for name, _ in Counter(own).most_common(3)) for own in found]


def main() -> int:
    """Prints rates and differences; returns the exit status."""
    name = "pubmedqa" if os.environ.get("RAG_DATA_DIR") else "builtin_abstracts"
    documents = load_corpus(name, split="all").documents[:DOCS]
    texts = [document.text for document in documents]
    chunks = [Chunk(id=d.id, document_id=d.id, start=0, end=len(d.text), fields={"text": d.text}) for d in documents]
    nlp, peer = load_pipeline(), load_peer()
    streams = {
        KeyBERTEnricher(load_embedder(batch_size=256, cache=False, device="cpu"), **PRESET): lambda t: keybert_loop(
            peer, t
        ),
        YakeEnricher(): yake_loop,
        EntityEnricher(nlp): lambda t: entity_loop(nlp, t),
        AcronymEnricher(): None,
    }
    print(f"{name}: {len(texts)} texts, the loop on {min(LOOP, len(texts))} of them")
    wrong = 0
    for enricher, loop in streams.items():
        enricher(["Models are loaded before the clock runs."])
        start = time.perf_counter()
        found = extract_phrases(chunks, [enricher], cache=False)[enricher.field]
        rate = len(texts) / (time.perf_counter() - start)
        print(f"{enricher.field}: {rate:.1f} texts/s, {sum(map(len, found))} phrases", end="")
        if loop:
            start = time.perf_counter()
            theirs = loop(texts[:LOOP])
            slow = len(theirs) / (time.perf_counter() - start)
            other = sum(own != plain for own, plain in zip(found, theirs, strict=False))
            print(f"; loop {slow:.1f} texts/s, ratio {rate / slow:.2f}, {other} texts with other phrases", end="")
            wrong += other
        print()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
