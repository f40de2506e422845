"""The verb: prompts in, replies out, in order; what is known already is never asked again."""

import gzip
import json
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rag_utils.llm.backends import BACKENDS, Answers, LLMError
from rag_utils.llm.parsing import ParseFailure, Schema, parse_json, plain_schema
from rag_utils.provenance import cache_folder, note, recorded
from rag_utils.schema import Prompt, Reply
from rag_utils.store import Store, StoreError, digest

REPLIES = Path(__file__).resolve().parent.parent / "replies"
KNOWN = "openai:MODEL, gguf:PATH, hf:ID-or-folder, replay, replay:FILE, record:NAME"


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A model with its settings. Called with prompts it gives one reply each, in order; a text is one user message.

    A failed reply names its failure: "not recorded", "timeout", "rate limit", "refused" (by server or model), "server",
    "truncated" (cut at `max_tokens`), "unparsable" (not what the schema asks for).
    """

    name: str
    revision: str = ""
    settings: Mapping[str, Any]
    answers: Answers
    """Replies with the positions of their prompts, as they come."""
    known: Callable[[Sequence[Prompt]], dict[int, Reply]] = field(default=lambda prompts: {})
    """Replies that cost nothing, by position."""

    def __call__(self, prompts: Sequence[str | Prompt]) -> list[Reply]:
        """Ask. Calls, tokens and failures are noted for the run.

        Raises:
            TypeError: A single text instead of a list.
        """
        if isinstance(prompts, str | Prompt):
            raise TypeError(f"{self.name} takes a list of prompts: pass [prompt] for a single one")
        asked = as_prompts(prompts)
        found = dict(self.answers(asked))
        replies = [found[i] for i in range(len(asked))]
        live = [reply for reply in replies if not reply.cached and reply.error != "not recorded"]
        failures = Counter(reply.error for reply in replies if reply.error)
        note(
            "llm",
            model=self.name,
            calls=len(live),
            tokens_in=sum(reply.tokens_in for reply in live),
            tokens_out=sum(reply.tokens_out for reply in live),
            cache_hits=sum(reply.cached for reply in replies),
            invalid_replies=failures.total(),
            batch=len(recorded()),  # equal notes are kept once
        )
        if failures:
            counts = ", ".join(f"{n} {error}" for error, n in failures.most_common())
            warnings.warn(f"{self.name}: of {len(replies)} replies {counts}", UserWarning, stacklevel=2)
        return replies


def as_prompts(prompts: Sequence[str | Prompt]) -> list[Prompt]:
    """Texts as prompts of one user message, named by their hash."""
    return [
        Prompt(f"text@{digest(prompt)[:8]}", (("user", prompt),)) if isinstance(prompt, str) else prompt
        for prompt in prompts
    ]


def load_llm(
    name: str,
    *,
    schema: Schema | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
    strict: bool = False,
) -> LanguageModel:
    """A language model by name.

    Args:
        name: "openai:MODEL" (any server with OpenAI's interface), "gguf:PATH" (llama.cpp in process), "hf:ID-or-folder"
            (transformers), "replay" (what was recorded; "replay:FILE" one file of it), or "record:NAME", which asks the
            live model NAME, keeps what it says and writes it to the recorded replies.
        schema: JSON Schema that replies must follow, asked of the model where it can be, checked always.
        max_tokens: Of a reply.
        temperature: 0 = greedy.
        seed: Of the sampling.
        strict: Raise on a prompt that was not recorded, instead of a reply with that error.

    Environment: OPENAI_BASE_URL and OPENAI_API_KEY; RAG_LLM_IN_FLIGHT (requests at once, 32), RAG_LLM_TOKENS_A_MINUTE
    (no limit), RAG_LLM_TIMEOUT (seconds, 300), RAG_LLM_RETRIES (4), RAG_LLM_THREADS (llama.cpp, cores - 1).

    Raises:
        LLMError: The name is not known, or what it needs is missing; the message says what to do.
    """
    settings = {"schema": schema, "max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    kind, _, rest = name.partition(":")
    if kind == "replay":
        return _replay(rest, settings, strict)
    if kind == "record" and rest:
        live = load_llm(rest, schema=schema, max_tokens=max_tokens, temperature=temperature, seed=seed)
        file = REPLIES / f"{Path(live.name.partition(':')[2]).name}.jsonl.gz"
        return record(cached(live, cache_folder() / "recorded.sqlite"), file)
    if kind not in BACKENDS or not rest:
        raise LLMError(f"there is no language model {name!r}: use {KNOWN}")
    model, revision, answers = BACKENDS[kind](rest, settings | {"schema": plain_schema(schema)})
    note("model", role="llm", name=model, revision=revision)
    return _checked(LanguageModel(name=model, revision=revision, settings=settings, answers=answers))


def _checked(llm: LanguageModel) -> LanguageModel:
    """The model, its replies freed of an echo of the prompt and held against the schema."""

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        for i, reply in llm.answers(prompts):
            question = prompts[i].messages[-1][1]
            if question and reply.text.startswith(question):
                reply = replace(reply, text=reply.text.removeprefix(question).strip())
            schema = llm.settings["schema"]
            if schema and not reply.error and isinstance(parse_json(reply.text, schema), ParseFailure):
                reply = replace(reply, error="unparsable")
            yield i, reply

    return replace(llm, answers=answers)


def _remembering(
    llm: LanguageModel, known: Callable[[Sequence[Prompt]], dict[int, Reply]], keep: Callable[[Prompt, Reply], None]
) -> LanguageModel:
    """The model, asked only for what is not known, and only once for equal prompts."""

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        found = known(prompts)
        yield from found.items()
        places = defaultdict(list)
        for i, prompt in enumerate(prompts):
            if i not in found:
                places[prompt.messages].append(i)
        unknown = list(places.values())
        for n, reply in llm.answers([prompts[first] for first, *_ in unknown]):
            first, *others = unknown[n]
            keep(prompts[first], reply)
            yield first, reply
            yield from ((i, replace(reply, cached=not reply.error)) for i in others)

    return replace(llm, answers=answers, known=known)


def cached(llm: LanguageModel, path: str | Path) -> LanguageModel:
    """The model with a memory on disk, shared by processes: a reply is kept the moment it comes.

    The key is the hash of model, revision, settings and the whole prompt. Failures are not kept; the exception is a
    reply that ends at `max_tokens`, which is what the model says with these settings.

    Raises:
        StoreError: The file is damaged; the message names it and says what to do.
    """
    if llm.name == "replay":
        return llm  # is on disk already
    store, model = Store(path), json.dumps([llm.name, llm.revision, llm.settings], sort_keys=True)

    def key(prompt: Prompt) -> str:
        return digest(model, *chain.from_iterable(prompt.messages))

    def known(prompts: Sequence[Prompt]) -> dict[int, Reply]:
        keys = [key(prompt) for prompt in prompts]
        found = store.get_many(keys)
        return {i: _unpacked(found[own], own, store.path) for i, own in enumerate(keys) if own in found}

    def keep(prompt: Prompt, reply: Reply) -> None:
        if not reply.error or (reply.error == "truncated" and reply.tokens_out >= llm.settings["max_tokens"]):
            text = json.dumps([reply.text, reply.model, reply.tokens_in, reply.tokens_out, reply.seconds, reply.error])
            store.put(key(prompt), f"{digest(key(prompt), text)[:16]}{text}".encode())

    return _remembering(llm, known, keep)


def _unpacked(value: bytes, key: str, path: Path) -> Reply:
    stated, text = value[:16].decode(errors="replace"), value[16:].decode(errors="replace")
    if stated != digest(key, text)[:16]:
        raise StoreError(f"{path}: a reply in it was changed; delete the file, with the -wal and -shm files beside it")
    said, model, tokens_in, tokens_out, seconds, error = json.loads(text)
    return Reply(
        text=said, model=model, tokens_in=tokens_in, tokens_out=tokens_out, seconds=seconds, cached=True, error=error
    )


def record(llm: LanguageModel, path: str | Path) -> LanguageModel:
    """The model, writing what it says to a file of recorded replies when a batch ends; as it is, mistakes included."""
    path = Path(path)

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        lines = []
        try:
            for i, reply in llm.answers(prompts):
                if reply.error in (None, "truncated", "unparsable"):
                    lines.append(_line(llm, prompts[i], reply))
                yield i, reply
        finally:
            _add_lines(path, lines)

    return replace(llm, answers=answers)


def _line(llm: LanguageModel, prompt: Prompt, reply: Reply) -> dict[str, Any]:
    """A recorded reply with all that it depended on; contexts stand in the messages."""
    return {
        "key": _recorded_key(prompt, llm.settings),
        "model": reply.model,
        "checksum": llm.revision,
        "settings": llm.settings,
        "schema_hash": digest(json.dumps(llm.settings["schema"], sort_keys=True)),
        "prompt": prompt.id,
        "messages": prompt.messages,
        "text": reply.text,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "seconds": reply.seconds,
        "error": "truncated" if reply.error == "truncated" else None,  # "unparsable" is found again when it is read
    }


def _recorded_key(prompt: Prompt, settings: Mapping[str, Any]) -> str:
    return digest(json.dumps(settings["schema"], sort_keys=True), *chain.from_iterable(prompt.messages))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _add_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Newer lines replace older ones of the same prompt, model and settings; all or nothing, equal bytes for equal lines."""
    by_place = {json.dumps([line[part] for part in ("prompt", "key", "model", "checksum", "settings")]): line for line in _read_lines(path) + lines}
    text = "".join(json.dumps(by_place[place], ensure_ascii=False) + "\n" for place in sorted(by_place))
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_bytes(gzip.compress(text.encode(), mtime=0))
    os.replace(draft, path)


def _replay(name: str, settings: Mapping[str, Any], strict: bool) -> LanguageModel:
    """Recorded replies by prompt and schema; of several, one with the same settings comes first."""
    files = sorted(REPLIES.glob(f"{name or '*'}.jsonl.gz"))
    lines = defaultdict(list)
    for line in chain.from_iterable(map(_read_lines, files)):
        lines[line["key"]].append(line)
    ...
