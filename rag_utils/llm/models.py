"""Asking is one verb: prompts in, replies out, in order; what is known is not asked again."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rag_utils.llm.backends import Answers, LLMError, llama_cpp, openai_server, transformers_model
from rag_utils.llm.parsing import ParseFailure, parse_json
from rag_utils.llm.replies import FOLDER, record, replay
from rag_utils.llm.usage import Usage
from rag_utils.provenance import cache_folder, note, recorded
from rag_utils.schema import Prompt, Reply
from rag_utils.store import Store, StoreError, digest

_BACK_ENDS = {"openai": openai_server, "gguf": llama_cpp, "hf": transformers_model, "replay": replay}
_KNOWN = "openai:MODEL, gguf:PATH, hf:ID-or-folder, replay, record:NAME"


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A model with its settings.

    A reply's error is None or "not recorded", "timeout", "rate limit", "refused" (by the server or the model), "server",
    "truncated" (cut off at `max_tokens`), "unparsable" (not what the schema asks for).
    """

    name: str
    revision: str
    settings: Mapping[str, Any]
    answers: Answers
    known: Callable[[Sequence[Prompt]], dict[int, Reply]] = lambda prompts: {}
    """Replies that cost nothing, by the position of their prompts."""

    def __call__(self, prompts: Sequence[str | Prompt]) -> list[Reply]:
        """One reply a prompt, in order; a text is one user message. Calls, tokens and failures are noted.

        Raises:
            TypeError: One prompt instead of a list.
        """
        asked = as_prompts(prompts)
        found = dict(self.answers(asked))
        replies = [found[i] for i in range(len(asked))]
        usage = Usage.of(replies)
        note(
            "llm",
            model=self.name,
            calls=usage.calls,
            cache_hits=usage.cached,
            invalid_replies=usage.failed,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            batch=len(recorded()),  # equal notes are kept once
        )
        return replies


def as_prompts(prompts: Sequence[str | Prompt]) -> list[Prompt]:
    """Texts become prompts of one user message, named by their hash."""
    if isinstance(prompts, str | Prompt):
        raise TypeError("a language model takes a list of prompts: pass [prompt] for a single one")
    texts = ((prompt, f"text@{digest(prompt)[:8]}") if isinstance(prompt, str) else prompt for prompt in prompts)
    return [Prompt(one[1], (("user", one[0]),)) if isinstance(one, tuple) else one for one in texts]


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
            "hf:ID-or-folder" (transformers), "replay" (what was recorded; "replay:FILE" one file of it) or
            "record:NAME", which asks the live model NAME and adds what it says to the recorded replies.
        schema: JSON Schema of the replies (see `parse_json`): asked for where the model can be held to it, always checked.
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
    settings = {"schema": schema, "max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    if kind == "record":
        live = load_llm(rest, **settings)
        return record(cached(live, cache_folder() / "recorded.sqlite"), FOLDER / f"{Path(live.name).name}.jsonl.gz")
    if kind not in _BACK_ENDS or not (rest or kind == "replay"):
        raise LLMError(f"there is no language model {name!r}: use one of {_KNOWN}")
    try:
        full_name, revision, answers = _BACK_ENDS[kind](rest, settings)
    except ModuleNotFoundError as error:
        raise LLMError(f"{name} needs a package: python -m pip install {error.name}") from error
    note("model", role="llm", name=full_name, revision=revision[:16])
    llm = LanguageModel(name=full_name, revision=revision, settings=settings, answers=answers)
    return _checked(llm, strict)


def is_available(name: str) -> bool:
    """Whether `load_llm` can have it now: file, package, folder, hub or address and key; a server is not asked."""
    try:
        return bool(load_llm(name))
    except LLMError:
        return False


def _checked(llm: LanguageModel, strict: bool) -> LanguageModel:
    """The model, with echoes of the prompt taken off its replies and these held against the schema."""
    schema = llm.settings["schema"]

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        for i, reply in llm.answers(prompts):
            if strict and reply.error == "not recorded":
                raise LLMError(
                    f"prompt {prompts[i].id!r} was not recorded with {reply.model or 'any model'}: run it live, as "
                    f'load_llm("gguf:PATH") or load_llm("openai:MODEL"), or record it, as load_llm("record:gguf:PATH")'
                )
            question = prompts[i].messages[-1][1]
            if question and reply.text.startswith(question):
                reply = replace(reply, text=reply.text.removeprefix(question).strip())
            if schema and not reply.error and isinstance(parse_json(reply.text, schema), ParseFailure):
                reply = replace(reply, error="unparsable")
            yield i, reply

    return replace(llm, answers=answers)


def cached(llm: LanguageModel, path: str | Path) -> LanguageModel:
    """The model with a memory on disk, shared by processes: a reply is kept when it comes, equal prompts are asked once.

    The key is the hash of model, revision, settings and the whole prompt. Failures are not kept, except a reply that
    reached `max_tokens`: that is what the model says with these settings.

    Raises:
        StoreError: The file is damaged; the message names it and says what to do.
    """
    store, model = Store(path), json.dumps([llm.name, llm.revision, llm.settings], sort_keys=True)

    def key(prompt: Prompt) -> str:
        return digest(model, *chain.from_iterable(prompt.messages))

    def known(prompts: Sequence[Prompt]) -> dict[int, Reply]:
        keys = [key(prompt) for prompt in prompts]
        kept = store.get_many(keys)
        return {i: _unpacked(own, kept[own], store.path) for i, own in enumerate(keys) if own in kept}

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        found, places = known(prompts), defaultdict(list)
        yield from found.items()
        for i in range(len(prompts)):
            if i not in found:
                places[key(prompts[i])].append(i)
        for n, reply in llm.answers([prompts[first] for first, *_ in places.values()]):
            own, (first, *others) = list(places.items())[n]   # O(n) !
            ...
