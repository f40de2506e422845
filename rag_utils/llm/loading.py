"""From a name to a language model."""

from collections.abc import Mapping
from typing import Any

from rag_utils.llm.asking import LanguageModel, LLMError
from rag_utils.llm.backends import llama_cpp, openai_server, transformers_model
from rag_utils.llm.memory import FOLDER, cached, record, replay
from rag_utils.provenance import cache_folder, note

_LIVE = {"openai": openai_server, "gguf": llama_cpp, "hf": transformers_model}


def load_llm(
    name: str,
    *,
    schema: Mapping[str, Any] | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
    strict: bool = False,
) -> LanguageModel:
    """A language model by name.

    Args:
        name: "openai:MODEL" (any server with OpenAI's interface), "gguf:PATH" (llama.cpp in this process),
            "hf:ID-or-folder" (transformers), "replay" (all that was recorded; "replay:FILE" one file of it) or
            "record:NAME", which asks the live model NAME and adds what it says to the recorded replies.
        schema: JSON Schema of the replies (see `parse_json`): demanded where a model can be held to it, checked always.
        max_tokens: Of a reply.
        temperature: 0 is greedy.
        seed: Of sampling.
        strict: A prompt that was not recorded raises instead of giving a reply with that error.

    From the environment: OPENAI_BASE_URL, OPENAI_API_KEY; RAG_LLM_IN_FLIGHT (requests at once, 32),
    RAG_LLM_TOKENS_A_MINUTE, RAG_LLM_TIMEOUT (seconds, 300), RAG_LLM_RETRIES (4), RAG_LLM_THREADS (of llama.cpp).

    Raises:
        LLMError: The name is not known, or what it needs is missing.
    """
    kind, _, rest = name.partition(":")
    if kind == "record":
        live = load_llm(rest, schema=schema, max_tokens=max_tokens, temperature=temperature, seed=seed)
        file = live.name.partition(":")[2].replace("/", "_")
        return record(cached(live, cache_folder() / "recorded.sqlite"), FOLDER / f"{file}.jsonl.gz")
    settings = {"schema": schema, "max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    if kind == "replay":
        return replay(rest, settings, strict=strict)
    if kind not in _LIVE or not rest:
        known = "openai:MODEL, gguf:PATH, hf:ID-or-folder, replay, record:NAME"
        raise LLMError(f"there is no language model {name!r}: use one of {known}")
    try:
        llm = _LIVE[kind](rest, settings)
    except ModuleNotFoundError as error:
        raise LLMError(f"{name} needs a package: run `python -m pip install {error.name}`") from error
    note("model", role="llm", name=llm.name, revision=llm.revision[:16])
    return llm


def is_available(name: str) -> bool:
    """Whether `load_llm` can have it: file and package, folder or hub, address or key; a server is not asked."""
    try:
        return bool(load_llm(name))
    except LLMError:
        return False
