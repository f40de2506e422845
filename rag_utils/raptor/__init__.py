"""RAPTOR: a tree of summaries over the chunks, the same in every run, searched by cosine (arXiv 2401.18059)."""

from rag_utils.raptor.retriever import MODES, RaptorRetriever
from rag_utils.raptor.summaries import ExtractiveSummariser, LLMSummariser, Summarise
from rag_utils.raptor.tree import Tree

__all__ = ["MODES", "ExtractiveSummariser", "LLMSummariser", "RaptorRetriever", "Summarise", "Tree"]
