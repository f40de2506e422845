"""Prompts in, replies out: live models, a cache that pays once, recorded replies, costs before and after."""

from rag_utils.llm.asking import LanguageModel, LLMError, Usage, estimate
from rag_utils.llm.loading import is_available, load_llm
from rag_utils.llm.memory import cached, record
from rag_utils.llm.parsing import ParseFailure, parse_json
from rag_utils.llm.prompts import load_prompt, readable

__all__ = [
    "LLMError",
    "LanguageModel",
    "ParseFailure",
    "Usage",
    "cached",
    "estimate",
    "is_available",
    "load_llm",
    "load_prompt",
    "parse_json",
    "readable",
    "record",
]
