"""The peer of two benchmarks. Importing it takes this folder off the path: its `keybert.py` would hide the library."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def load_peer():
    """KeyBERT with all-MiniLM-L6-v2 on the CPU."""
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    from rag_utils.encoders import bundled
    from rag_utils.encoders.folders import find_model

    return KeyBERT(SentenceTransformer(str(find_model(bundled.MINILM).path), device="cpu"))


def loop_of(peer, ngrams: tuple[int, int], top: int, diversity: float | None) -> Callable[[Sequence[str]], list]:
    """Scored phrases of each text, text by text, as the paper's code calls the library."""
    options = {"keyphrase_ngram_range": ngrams, "stop_words": "english", "top_n": top}
    if diversity is not None:
        options |= {"use_mmr": True, "diversity": diversity}
    return lambda texts: [peer.extract_keywords(text, **options) for text in texts]
