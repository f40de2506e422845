"""Phrases of a text itself: by embeddings (KeyBERT), by statistics (YAKE), by entities or noun phrases (spaCy).

Parameters are those of MetaGen Blended RAG (section 3.2.1 and its public code). Phrases come best first. `settings`
holds all that a result depends on beside the text; None = not known, so that results are not kept on disk.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import dropwhile
from typing import Any

import numpy as np

from rag_utils.chunking import no_use_for_entities
from rag_utils.schema import Embedder

Scored = list[tuple[str, float]]

_ONE_PHRASE: dict[str, Any] = {"ngrams": (1, 2), "top": 1, "diversity": None}
_TEN_PHRASES: dict[str, Any] = {"ngrams": (1, 3), "top": 10, "diversity": 0.9}
KEYBERT_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper text": _ONE_PHRASE,
    "natural_questions": _ONE_PHRASE,
    "pubmedqa": _TEN_PHRASES,
    "squad": _TEN_PHRASES,
}
"""What the paper says (one phrase; its length is not given, so it is that of the code) and what its code does by data
set: `KeyBERTEnricher(embedder, **KEYBERT_PRESETS["pubmedqa"])`."""

ENTITY_TYPES = ("PERSON", "ORG", "GPE", "DATE", "EVENT", "NORP")

_VECTORS_KEPT = 200_000  # 300 MB of 384 numbers each


class KeyBERTEnricher:
    """The phrases whose embeddings are nearest to the text's; `keybert` chooses, the embedding is done here.

    Candidates are 85 % of the tokens to embed. The library embeds each text's own ones, some hundred very short texts
    at a time; here those of all texts of a call go to the embedder at once, each once, together with the texts. Give it
    `load_embedder(batch_size=256, cache=False)`: candidates need large batches, and are not worth 1.5 kB each on disk.

    Args:
        embedder: Of texts and candidates.
        ngrams: Fewest and most words of a phrase, English stop words not counted.
        top: Phrases of a text.
        diversity: Of maximal marginal relevance, 0 (none) to 1; None = nearest phrases, however alike.
    """

    field = "keybert"

    def __init__(
        self, embedder: Embedder, *, ngrams: tuple[int, int] = (1, 3), top: int = 10, diversity: float | None = 0.9
    ):
        self._embedder, self._vectors = embedder, dict[str, np.ndarray]()
        self._phrases = {"keyphrase_ngram_range": ngrams, "stop_words": "english"}
        self._choice = {"top_n": top, "use_mmr": diversity is not None, "diversity": diversity}
        revision = getattr(embedder, "revision", None)
        self.settings = revision and json.dumps([version("keybert"), revision, ngrams, top, diversity])

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Phrases in small letters; none for a text without words beside stop words."""
        return [tuple(phrase for phrase, _ in found) for found in self.scored(texts)]

    def scored(self, texts: Sequence[str]) -> list[Scored]:
        """The phrases with their cosines to the text, rounded to 1e-5."""
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else litellm, where installed, asks the network
        from keybert import KeyBERT
        from keybert.backend import BaseEmbedder

        chooser = KeyBERT(BaseEmbedder())  # embeds nothing, since it is given all vectors
        candidates = [self._candidates(text) for text in texts]
        wanted = dict.fromkeys(t for text, own in zip(texts, candidates, strict=True) if own for t in (text, *own))
        if new := [text for text in wanted if text not in self._vectors]:
            self._vectors.update(zip(new, self._embedder(new), strict=True))
        found = [self._chosen(chooser, text, own) if own else [] for text, own in zip(texts, candidates, strict=True)]
        for phrase in list(self._vectors)[:-_VECTORS_KEPT]:
            del self._vectors[phrase]
        return found

    def _candidates(self, text: str) -> list[str]:
        """As the library finds them, in its order."""
        from sklearn.feature_extraction.text import CountVectorizer

        words = CountVectorizer(ngram_range=self._phrases["keyphrase_ngram_range"], stop_words="english")
        try:
            return words.fit([text]).get_feature_names_out().tolist()
        except ValueError:  # no word is left
            return []

    def _chosen(self, chooser: Any, text: str, candidates: list[str]) -> Scored:
        vector, vectors = self._vectors[text], np.stack([self._vectors[phrase] for phrase in candidates])
        given = {"doc_embeddings": vector[None], "word_embeddings": vectors}
        pairs = chooser.extract_keywords([text], **self._phrases, **self._choice, **given)
        return [(phrase, round(float(self._vectors[phrase] @ vector), 5)) for phrase, _ in pairs]


class YakeEnricher:
    """The phrases that statistics of the text alone (case, place, frequency, neighbours) hold for the most telling.

    Args:
        language: Of the stop words, two letters.
        words: The most of a phrase.
        similarity: Of two phrases, above which the worse one is left out; 0 to 1.
        top: Phrases of a text.
    """

    field = "yake"

    def __init__(self, *, language: str = "en", words: int = 3, similarity: float = 0.9, top: int = 1):
        self._top, self._options = top, {"lan": language, "n": words, "dedup_lim": similarity, "top": top}
        self.settings = json.dumps([version("yake"), self._options])

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Phrases as they are written in the text, white space made single blanks."""
        import yake

        extractor = yake.KeywordExtractor(**self._options)
        return [self._best(extractor.extract_keywords(text)) for text in texts]

    def _best(self, pairs: Sequence[tuple[Any, Any]]) -> tuple[str, ...]:
        """Lower is better; old releases gave (score, phrase) under one option."""
        scored = [pair if isinstance(pair[0], str) else pair[::-1] for pair in pairs]
        return tuple(one_line(phrase) for phrase, _ in sorted(scored, key=lambda pair: pair[1])[: self._top])


class EntityEnricher:
    """The most frequent entities of a text, the earlier ones first among equals.

    Args:
        nlp: A spaCy pipeline that finds entities, as `chunking.load_pipeline()`; what it does beside that is left out.
        top: Entities of a text.
        types: Labels that count.
    """

    field = "entities"

    def __init__(self, nlp: Any, *, top: int = 3, types: Sequence[str] = ENTITY_TYPES):
        self._nlp, self._top, self._types = nlp, top, frozenset(types)
        self._unused = no_use_for_entities(nlp)
        self.settings = json.dumps([nlp.meta["name"], nlp.meta["version"], nlp.pipe_names, top, sorted(types)])

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Entities as they are written in the text; one longer than the pipeline takes is read in parts."""
        counts: list[Counter[str]] = [Counter() for _ in texts]
        most = self._nlp.max_length  # cut at a blank where there is one
        pieces = re.compile(rf".{{1,{most}}}(?!\S)|.{{1,{most}}}", re.DOTALL)
        parts = ((part, own) for text, own in zip(texts, counts, strict=True) for part in pieces.findall(text))
        for document, own in self._nlp.pipe(parts, as_tuples=True, disable=self._unused):
            names = (one_line(entity.text) for entity in document.ents if entity.label_ in self._types)
            own.update(filter(None, names))
        return [tuple(name for name, _ in own.most_common(self._top)) for own in counts]


class NounPhraseEnricher:
    """The noun phrases of a text in its order, each once, without the articles and pronouns they open with.

    Args:
        nlp: A spaCy pipeline that parses, as `chunking.load_pipeline()`.
    """

    field = "noun_phrases"

    def __init__(self, nlp: Any):
        self._nlp = nlp
        self.settings = json.dumps([nlp.meta["name"], nlp.meta["version"], nlp.pipe_names])

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Phrases as they are written in the text, white space made single blanks."""
        documents = self._nlp.pipe(texts, disable=["ner", "lemmatizer"])
        return [tuple(dict.fromkeys(filter(None, map(_bare, document.noun_chunks)))) for document in documents]


def _bare(phrase: Any) -> str:
    """From its first word that is neither article nor pronoun."""
    words = dropwhile(lambda token: token.pos_ in ("DET", "PRON"), phrase)
    return one_line("".join(token.text_with_ws for token in words))


def one_line(text: str) -> str:
    """White space made single blanks, none at the ends."""
    return " ".join(text.split())
