"""What a model said once: a cache of one's own, and the recorded replies that come with the project."""

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rag_utils.llm.asking import LanguageModel, LLMError
from rag_utils.provenance import note
from rag_utils.schema import Prompt, Reply
from rag_utils.store import Store, StoreError, digest

FOLDER = Path(__file__).resolve().parent.parent / "replies"


def cached(llm: LanguageModel, path: str | Path) -> LanguageModel:
    """The model with a memory on disk that processes share; replies are kept as they come, equal prompts asked once.

    The key is the hash of model, revision, settings and the whole prompt. Failures are not kept; a reply that reached
    `max_tokens` is, since that is what the model says with these settings.

    Raises:
        StoreError: The file is damaged; the message names it and says what to do.
    """
    if llm.name == "replay":
        return llm  # is on disk already
    store, model = Store(path), _text([llm.name, llm.revision, llm.settings])

    def known(prompts: Sequence[Prompt]) -> dict[int, Reply]:
        keys = [_key(model, prompt) for prompt in prompts]
        kept = store.get_many(keys)
        return {i: _unpacked(key, kept[key], store.path) for i, key in enumerate(keys) if key in kept}

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        found, places = known(prompts), defaultdict(list)
        yield from found.items()
        for i, prompt in enumerate(prompts):
            if i not in found:
                places[_key(model, prompt)].append(i)
        unknown = list(places.items())
        for n, reply in llm.answers([prompts[first] for _, (first, *_) in unknown]):
            key, (first, *others) = unknown[n]
            if not reply.error or (reply.error == "truncated" and reply.tokens_out >= llm.settings["max_tokens"]):
                text = json.dumps(asdict(reply)).encode()
                store.put(key, _checksum(key, text) + text)
            yield first, reply
            yield from ((i, replace(reply, cached=True)) for i in others)

    return replace(llm, answers=answers, known=known)


def _unpacked(key: str, value: bytes, path: Path) -> Reply:
    if value[:8] != _checksum(key, value[8:]):
        raise StoreError(f"{path}: a reply in it was damaged: delete the file, with the -wal and -shm files beside it")
    return Reply(**json.loads(value[8:].decode()) | {"cached": True})


def _checksum(key: str, text: bytes) -> bytes:
    """SQLite does not notice a changed byte in a value."""
    return b"%08x" % zlib.crc32(text, zlib.crc32(key.encode()))


def record(llm: LanguageModel, path: str | Path) -> LanguageModel:
    """The model, appending what it says, mistakes included, to a compressed file of JSON lines; nothing twice.

    A line holds all that the reply came from: model, checksum, settings and the prompt with its contexts.
    """
    path = Path(path)
    written = {_text({**line, "reply": None}) for line in (_lines(path) if path.exists() else ())}

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        for i, reply in llm.answers(prompts):
            origin = _origin(llm, prompts[i])
            if reply.error in (None, "truncated", "unparsable") and _text(origin) not in written:
                written.add(_text(origin))
                line = _text({**origin, "reply": asdict(replace(reply, cached=True))}) + "\n"
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab", buffering=0) as file:  # in one write: processes do not mix their lines
                    file.write(gzip.compress(line.encode(), mtime=0))
            yield i, reply

    return replace(llm, answers=answers)


def _origin(llm: LanguageModel, prompt: Prompt) -> dict[str, Any]:
    schema = _text(llm.settings["schema"])
    return {
        "key": _key(schema, prompt),
        "prompt": prompt.id,
        "messages": prompt.messages,
        "schema_hash": digest(schema),
        "settings": llm.settings,
        "checksum": llm.revision,
        "quantisation": re.split("[-.]", llm.name)[-1] if llm.name.startswith("gguf:") else None,
        "reply": None,
    }


def replay(name: str, settings: Mapping[str, Any], *, strict: bool) -> LanguageModel:
    """Recorded replies, of all files or one; found by prompt and schema, those with the same settings preferred."""
    files, schema = sorted(FOLDER.glob(f"{name or '*'}.jsonl.gz")), _text(settings["schema"])
    if name and not files:
        raise LLMError(f"nothing is recorded in {FOLDER / name}.jsonl.gz: use replay for all files, or record it")
    lines: dict[str, dict[str, Any]] = {}
    for line in chain.from_iterable(map(_lines, files)):
        if line["key"] not in lines or line["settings"] == settings:
            lines[line["key"]] = line
    models = {line["reply"]["model"]: line["checksum"][:16] for line in lines.values()}
    for model, checksum in models.items():
        note("model", role="llm", name=model, revision=checksum, recorded=True)

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        for i, prompt in enumerate(prompts):
            line = lines.get(_key(schema, prompt))
            if not line and strict:
                raise LLMError(
                    f"prompt {prompt.id!r} was not recorded with {', '.join(models) or 'any model'}: ask a live model, "
                    'as load_llm("gguf:PATH") or load_llm("openai:MODEL"), or record it: load_llm("record:gguf:PATH")'
                )
            yield i, Reply(**line["reply"]) if line else Reply(text="", model="replay", error="not recorded")

    llm = LanguageModel(name="replay", revision="", settings=settings, answers=answers)
    return replace(llm, known=lambda prompts: dict(answers(prompts)))


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    except (OSError, EOFError, ValueError) as error:
        raise LLMError(f"{path} is damaged ({error}): fetch it again, or delete it and record anew") from error


def _key(model: str, prompt: Prompt) -> str:
    return digest(model, *chain.from_iterable(prompt.messages))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
