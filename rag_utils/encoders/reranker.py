"""Pairs of a question and a passage to scores."""

from collections.abc import Sequence

import numpy as np

from rag_utils.encoders import backends, bundled
from rag_utils.encoders.batching import BatchedModel
from rag_utils.encoders.folders import find_model
from rag_utils.provenance import cache_folder, note
from rag_utils.store import Store


class PairReranker:
    """A cross-encoder: question and passage are read together; made by `load_reranker`.

    Scores are raw logits: unbounded, not comparable across models, and what passages are ordered by.

    Attributes:
        name: As it was asked for.
        revision: Fingerprint of the weights.
        max_tokens: Tokens of a pair that the model reads, special ones included.
    """

    def __init__(self, model: BatchedModel):
        self._model = model
        self.name, self.revision, self.max_tokens = model.model.name, model.model.revision, model.model.max_tokens

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Scores of one question's passages, in their order."""
        if isinstance(texts, str):
            raise TypeError("a list of texts is expected, not one text")
        return self.score_pairs([(query, text) for text in texts])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Scores of pairs (question, passage) of any number of questions, rounded to 1e-5.

        All pairs are sorted by token count and batched together, so this is faster than question by question.
        """
        logits = self._model([(query, text) for query, text in pairs])[:, 0]
        return np.round(logits.astype(np.float64), 5).tolist()

    @property
    def truncated(self) -> int:
        """Different pairs so far that were longer than the model reads."""
        return self._model.truncated


def load_reranker(
    name: str = bundled.MS_MARCO,
    *,
    backend: str | None = None,
    batch_size: int = 32,
    cache: bool = True,
    device: str | None = None,
    half_precision: bool = False,
) -> PairReranker:
    """A reranker by hub id or folder; the weights are read when the first pair is not cached.

    Args:
        name: "cross-encoder/ms-marco-MiniLM-L-12-v2" comes with the installed packages; else a folder, else a hub id.
        backend: "flag" (FlagEmbedding, the default for names with "bge-reranker") or "cross-encoder"
            (sentence-transformers); both give raw logits.
        batch_size: The most pairs of one forward pass; batches are sorted by token count, on a CPU long pairs come
            in smaller ones.
        cache: Keep scores on disk by (weights, settings, pair), for all notebooks.
        device: "cpu", "cuda", ...; None = a GPU when there is one.
        half_precision: 16-bit arithmetic on a GPU; a CPU stays with 32 bits and says so.

    Raises:
        ModelError: No such model; the message names the model, the folder expected and the command that fetches it.
        ValueError: Unknown backend, a batch size below 1, or (at the first score) a model with several scores a pair.
    """
    backend = backend or ("flag" if "bge-reranker" in name.lower() else "cross-encoder")
    loader = backends.choose(backend, backends.RERANKERS)
    model = find_model(name)
    note("model", role="reranker", name=name, revision=model.revision, backend=backend)
    batched = BatchedModel(
        model,
        loader,
        pair=True,
        settings=backend,
        width=1,
        batch_size=batch_size,
        device=device,
        half_precision=half_precision,
        store=Store(cache_folder() / "rerank.sqlite") if cache else None,
    )
    return PairReranker(batched)


def to_unit_interval(logits: Sequence[float]) -> list[float]:
    """Logits as numbers in 0..1 (logistic function) for display; never order by them, large logits all become 1.0.

    Scores that lie in 0..1 already are no logits: show them as they are.
    """
    values = np.asarray(logits, dtype=np.float64)
    return (0.5 * (1 + np.tanh(values / 2))).tolist()
