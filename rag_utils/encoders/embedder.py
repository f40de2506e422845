"""Texts to unit vectors."""

from collections.abc import Sequence

import numpy as np

from rag_utils.encoders import backends, bundled
from rag_utils.encoders.batching import BatchedModel
from rag_utils.encoders.folders import find_model
from rag_utils.provenance import cache_folder, note
from rag_utils.store import Store


class TextEmbedder:
    """A model that turns texts into vectors whose dot product is their cosine; made by `load_embedder`.

    Attributes:
        name: As it was asked for.
        revision: Fingerprint of the weights.
        dimension: Numbers in a vector.
        max_tokens: Tokens that the model reads, special ones included; the rest of a text is cut off, which is counted
            in `truncated`, noted and warned of.
        query_instruction: Put before questions, never before passages.
    """

    def __init__(self, model: BatchedModel, query_instruction: str = ""):
        self._model = model
        self.name, self.revision = model.model.name, model.model.revision
        self.dimension, self.max_tokens = model.model.dimension, model.model.max_tokens
        self.query_instruction = query_instruction

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages: an array (n, dimension) of float32, rows of length 1."""
        if isinstance(texts, str):
            raise TypeError("a list of texts is expected, not one text")
        return self._model([(text,) for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions: the instruction of the model, if any, goes before each."""
        if isinstance(texts, str):
            raise TypeError("a list of questions is expected, not one question")
        return self([self.query_instruction + text for text in texts])

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as the model cuts it, special ones not counted."""
        return self._model.tokens([text])[0]

    def truncation(self, texts: Sequence[str]) -> tuple[int, int]:
        """Before anything is encoded: the tokens of a text that the model reads, and those of all texts it would lose.

        Special tokens are counted in neither.
        """
        usable = self._model.usable_tokens
        return usable, int(np.maximum(self._model.lengths([(text,) for text in texts]) - usable, 0).sum())

    @property
    def truncated(self) -> int:
        """Different texts so far that were longer than the model reads."""
        return self._model.truncated


def load_embedder(
    name: str = bundled.MINILM,
    *,
    query_instruction: str = "",
    batch_size: int = 32,
    backend: str | None = None,
    cache: bool = True,
    device: str | None = None,
    half_precision: bool = False,
) -> TextEmbedder:
    """An embedder by hub id or folder; the weights are read when the first text is not cached.

    Args:
        name: "sentence-transformers/all-MiniLM-L6-v2" and "BAAI/bge-small-en-v1.5" come with the installed packages;
            else a folder, else a hub id.
        query_instruction: Text before each question, for models that were trained with one.
        batch_size: The most texts of one forward pass; batches are sorted by token count, on a CPU long texts come in
            smaller ones.
        backend: "sentence-transformers" (default) or "flag" (FlagEmbedding).
        cache: Keep vectors on disk by (weights, settings, text), for all notebooks.
        device: "cpu", "cuda", ...; None = a GPU when there is one.
        half_precision: 16-bit arithmetic on a GPU; a CPU stays with 32 bits and says so.

    Raises:
        ModelError: No such model; the message names the model, the folder expected and the command that fetches it.
        ValueError: Unknown backend, or a batch size below 1.
    """
    backend = backend or "sentence-transformers"
    loader = backends.choose(backend, backends.EMBEDDERS)
    model = find_model(name)
    note("model", role="embedder", name=name, revision=model.revision, backend=backend, instruction=query_instruction)
    batched = BatchedModel(
        model,
        loader,
        pair=False,
        settings=f"{backend} {model.pooling}",
        width=model.dimension,
        batch_size=batch_size,
        device=device,
        half_precision=half_precision,
        store=Store(cache_folder() / "vectors.sqlite") if cache else None,
    )
    return TextEmbedder(batched, query_instruction)
