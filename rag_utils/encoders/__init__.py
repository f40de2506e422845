"""Encoders behind two verbs: `load_embedder` for vectors, `load_reranker` for scores of pairs.

`python -m rag_utils.encoders FOLDER` writes the models that come with the installed packages to a folder.
"""

from rag_utils.encoders.bundled import ModelError
from rag_utils.encoders.embedder import TextEmbedder, load_embedder
from rag_utils.encoders.reranker import PairReranker, load_reranker, to_unit_interval

__all__ = ["ModelError", "PairReranker", "TextEmbedder", "load_embedder", "load_reranker", "to_unit_interval"]
