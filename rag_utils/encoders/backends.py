"""The two libraries behind the encoders: each function loads a model and returns it as a function of one batch.

A batch is padded to its longest member and costs exactly one forward pass. FlagEmbedding's own `encode` and
`compute_score` run the first batch twice, to find a size that fits into memory, so here its tokenizer, model and
pooling are used directly.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from rag_utils.encoders.folders import ModelFolder

# Read when torch is imported. Its threads spin while they wait for each other, which on shared cores costs up to ten
# times the time; asleep they cost a few microseconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

Texts = Sequence[tuple[str, ...]]
"""Items of one batch: (text,) for an embedder, (query, text) for a reranker."""
Forward = Callable[[Texts], np.ndarray]
"""One batch to an array (n, d) of float32."""
Loader = Callable[[ModelFolder, str, bool], Forward]
"""(model, device, half precision) to a forward function."""


def resolve_device(device: str | None, half_precision: bool) -> tuple[str, bool]:
    """The device to use (a GPU when there is one) and whether half precision is right there; never on a CPU."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if half_precision and device.startswith("cpu"):
        warnings.warn("half precision is for GPUs: the CPU computes in full precision", UserWarning, stacklevel=1)
        half_precision = False
    return device, half_precision


def sentence_transformer(model: ModelFolder, device: str, half_precision: bool) -> Forward:
    """Embeddings by sentence-transformers, whose folder says how tokens are pooled."""
    with _loading():
        import torch
        from sentence_transformers import SentenceTransformer

        options = {"dtype": torch.float16} if half_precision else {}
        encoder = SentenceTransformer(str(model.path), device=device, local_files_only=True, model_kwargs=options)
    encoder.max_seq_length = model.max_tokens

    def forward(batch: Texts) -> np.ndarray:
        texts = [text for (text,) in batch]
        return encoder.encode(texts, batch_size=len(texts), normalize_embeddings=True, show_progress_bar=False)

    return forward


def flag_model(model: ModelFolder, device: str, half_precision: bool) -> Forward:
    """Embeddings by FlagEmbedding."""
    with _loading():
        import torch
        from FlagEmbedding import FlagModel

        encoder = FlagModel(str(model.path), pooling_method=model.pooling, devices=device, use_fp16=half_precision)
    network = encoder.model.to(device).eval()

    cut = {"padding": True, "truncation": True, "max_length": model.max_tokens}

    def forward(batch: Texts) -> np.ndarray:
        inputs = encoder.tokenizer([text for (text,) in batch], return_tensors="pt", **cut).to(device)
        with torch.inference_mode():
            pooled = encoder.pooling(network(**inputs).last_hidden_state, inputs["attention_mask"])
            return torch.nn.functional.normalize(pooled.float(), dim=-1).cpu().numpy()

    return forward


def cross_encoder(model: ModelFolder, device: str, half_precision: bool) -> Forward:
    """Scores by sentence-transformers' CrossEncoder, as raw logits (its default is a sigmoid)."""
    with _loading():
        import torch
        from sentence_transformers import CrossEncoder

        options = {"dtype": torch.float16} if half_precision else {}
        limits = {"max_length": model.max_tokens, "local_files_only": True}
        scorer = CrossEncoder(str(model.path), device=device, model_kwargs=options, **limits)
    _check_one_score(model, scorer.num_labels)
    logits = torch.nn.Identity()

    def forward(batch: Texts) -> np.ndarray:
        scores = scorer.predict(list(batch), batch_size=len(batch), activation_fn=logits, show_progress_bar=False)
        return np.asarray(scores, dtype=np.float32).reshape(-1, 1)

    return forward


def flag_reranker(model: ModelFolder, device: str, half_precision: bool) -> Forward:
    """Scores by FlagEmbedding's reranker, as raw logits."""
    with _loading():
        import torch
        from FlagEmbedding import FlagReranker

        scorer = FlagReranker(str(model.path), devices=device, use_fp16=half_precision)
    _check_one_score(model, scorer.model.config.num_labels)
    network = (scorer.model.half() if half_precision else scorer.model).to(device).eval()
    cut = {"padding": True, "truncation": True, "max_length": model.max_tokens}

    def forward(batch: Texts) -> np.ndarray:
        queries, texts = zip(*batch, strict=True)
        inputs = scorer.tokenizer(queries, texts, return_tensors="pt", **cut).to(device)
        with torch.inference_mode():
            return network(**inputs).logits.float().cpu().numpy()

    return forward


EMBEDDERS: dict[str, Loader] = {"sentence-transformers": sentence_transformer, "flag": flag_model}
RERANKERS: dict[str, Loader] = {"cross-encoder": cross_encoder, "flag": flag_reranker}


def choose(backend: str, known: dict[str, Loader]) -> Loader:
    """The loader of that name.

    Raises:
        ValueError: There is none; the message lists them.
    """
    if backend not in known:
        raise ValueError(f"backend {backend!r} is not known; the known ones are {', '.join(known)}")
    return known[backend]


def _check_one_score(model: ModelFolder, labels: int) -> None:
    if labels != 1:
        raise ValueError(f"{model.name} gives {labels} scores a pair; a reranker gives 1")


@contextmanager
def _loading() -> Iterator[None]:
    """Keep progress bars out of a notebook's output, and name the command that installs a missing package."""
    try:
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        yield
        if shown:
            logging.enable_progress_bar()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ModuleNotFoundError(f"{package} is not installed: python -m pip install {package}") from error
