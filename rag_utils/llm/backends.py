"""Live models: the only file that touches openai, xllamacpp and transformers; weights are loaded for the first reply.

Inside, everything speaks OpenAI's form of requests and answers.
"""

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from rag_utils.llm.asking import LanguageModel, LLMError
from rag_utils.llm.parsing import ParseFailure, parse_json
from rag_utils.schema import Prompt, Reply
from rag_utils.store import digest

Settings = Mapping[str, Any]
Messages = list[dict[str, Any]]
"""Requests or answers; an answer may be {"error": {"code": HTTP status, "message": text}}."""

_CONTEXT = 8192  # tokens of prompt and reply that llama.cpp makes room for
_FAILURES = {408: "timeout", 504: "timeout", 429: "rate limit"}


def openai_server(model: str, settings: Settings) -> LanguageModel:
    """Any server with OpenAI's interface, asked from threads; the revision is the hash of its address."""
    import openai

    address, key = os.environ.get("OPENAI_BASE_URL", ""), os.environ.get("OPENAI_API_KEY", "")
    if not address and not key:
        raise LLMError(f"openai:{model} needs OPENAI_API_KEY (or OPENAI_BASE_URL of a keyless server) to be set")
    client = openai.OpenAI(  # tries again after `Retry-After`, else after twice as long each time
        api_key=key or "none", timeout=_limit("TIMEOUT", 300), max_retries=int(_limit("RETRIES", 4))
    )
    wait, unknown = _pace(_limit("TOKENS_A_MINUTE", float("inf")) / 60), set[str]()

    def ask(requests: Messages) -> Messages:
        request = {name: part for name, part in requests[0].items() if name not in unknown}
        wait(sum(len(message["content"]) for message in request["messages"]) // 4 + request["max_tokens"])
        answer = _completion(client, model=model, **request)
        if answer.get("error", {}).get("code") in (400, 422) and "response_format" in request:
            unknown.add("response_format")  # to a server without schemas; replies are checked all the same
            return ask(requests)
        return [answer]

    return _model(f"openai:{model}", digest(address), settings, ask, at_once=int(_limit("IN_FLIGHT", 32)))


def _completion(client: Any, **request: Any) -> dict[str, Any]:
    import openai

    try:
        answer = client.chat.completions.create(**request).model_dump()
        if not isinstance(answer["choices"][0]["message"], dict):
            raise TypeError("the answer holds no message")
        return answer
    except (openai.OpenAIError, AttributeError, LookupError, TypeError, ValueError) as error:  # failure or garbage
        code = 408 if isinstance(error, openai.APITimeoutError) else getattr(error, "status_code", 500)
        return {"error": {"code": code, "message": str(error).replace(client.api_key, "***")}}


def llama_cpp(path: str, settings: Settings) -> LanguageModel:
    """A GGUF file in this process, one prompt at a time; the revision is the file's SHA-256."""
    import xllamacpp  # noqa: F401 - if it is missing, say so before the first reply

    file = Path(path).expanduser()
    if not file.is_file():
        raise LLMError(f"there is no file {path}: give the path of a model after gguf:")

    def ask(requests: Messages) -> Messages:
        # Nothing of the prompt before is used again: a reply must not depend on it.
        return [_llama(file).handle_chat_completions({**request, "cache_prompt": False}) for request in requests]

    return _model(f"gguf:{file.stem}", _sha256(file), settings, ask)


@cache
def _llama(file: Path) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.verbosity = str(file), _CONTEXT, 0
    threads = int(_limit("THREADS", max(1, (os.cpu_count() or 2) - 1)))  # with all cores it collapses under load
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(parameters)


def transformers_model(name: str, settings: Settings) -> LanguageModel:
    """A folder or a hub id, in batches padded on the left; the revision is the hub's commit or the weights' hash."""
    import transformers

    try:
        commit = getattr(transformers.AutoConfig.from_pretrained(name), "_commit_hash", None)
    except (OSError, ValueError) as error:
        raise LLMError(f"hf:{name} cannot be had, give a folder or a hub id in reach: {error}") from error
    revision = commit or digest(*map(_sha256, sorted(Path(name).glob("*.safetensors"))))
    full_name = f"hf:{name if commit else Path(name).name}"
    return _model(full_name, revision, settings, lambda requests: _generated(*_network(name), requests), batch=8)


@cache
def _network(name: str) -> tuple[Any, Any]:
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(name, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(name, use_safetensors=True)


def _generated(tokenizer: Any, model: Any, requests: Messages) -> Messages:
    import torch

    limit, heat = requests[0]["max_tokens"], requests[0]["temperature"]
    form = {"add_generation_prompt": True, "padding": True, "return_tensors": "pt", "return_dict": True}
    read = tokenizer.apply_chat_template([request["messages"] for request in requests], **form)
    torch.manual_seed(requests[0]["seed"])
    sampling = {"do_sample": True, "temperature": heat} if heat else {"do_sample": False}
    rows = model.generate(**read, max_new_tokens=limit, pad_token_id=tokenizer.pad_token_id, **sampling)
    end, answers = model.generation_config.eos_token_id, []
    ends = end if isinstance(end, list) else [end]
    for mask, row in zip(read["attention_mask"], rows[:, read["input_ids"].shape[1] :].tolist(), strict=True):
        length = next((n for n, token in enumerate(row) if token in ends), limit)
        message = {"content": tokenizer.decode(row[:length], skip_special_tokens=True)}
        choice = {"message": message, "finish_reason": "length" if length == limit else "stop"}
        answers.append({"choices": [choice], "usage": {"prompt_tokens": int(mask.sum()), "completion_tokens": length}})
    return answers


def _model(
    name: str, revision: str, settings: Settings, ask: Callable[[Messages], Messages], at_once: int = 1, batch: int = 1
) -> LanguageModel:
    """The model that asks in batches, several at once."""
    schema = {key: part for key, part in (settings["schema"] or {}).items() if key != "aliases"}
    form = {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}}
    common = {key: part for key, part in settings.items() if key != "schema"} | (form if schema else {})

    def replies(prompts: Sequence[Prompt]) -> list[Reply]:
        chats = [[{"role": role, "content": text} for role, text in prompt.messages] for prompt in prompts]
        start = time.perf_counter()
        answers = ask([{"messages": chat, **common} for chat in chats])
        seconds, pairs = (time.perf_counter() - start) / len(prompts), zip(prompts, answers, strict=True)
        return [replace(_read(answer, prompt, settings["schema"], name), seconds=seconds) for prompt, answer in pairs]

    def answers(prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        with ThreadPoolExecutor(at_once) as pool:
            calls = {pool.submit(replies, prompts[i : i + batch]): i for i in range(0, len(prompts), batch)}
            try:
                for call in as_completed(calls):
                    yield from enumerate(call.result(), calls[call])
            finally:
                pool.shutdown(cancel_futures=True)

    return LanguageModel(name=name, revision=revision, settings=settings, answers=answers)


def _read(answer: Mapping[str, Any], prompt: Prompt, schema: Settings | None, model: str) -> Reply:
    if error := answer.get("error"):
        failure = _FAILURES.get(error["code"], "server" if error["code"] >= 500 else "refused")
        warnings.warn(f"{model}: {failure}: {error['message'][:200]}", stacklevel=2)
        return Reply(text="", model=model, error=failure)
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    text, question = choice["message"].get("content") or "", prompt.messages[-1][1]
    if question and text.startswith(question):  # some servers give the prompt back
        text = text.removeprefix(question).strip()
    ended = {"length": "truncated", "content_filter": "refused"}.get(choice.get("finish_reason"))
    if choice["message"].get("refusal"):
        ended = "refused"
    elif schema and not ended and isinstance(parse_json(text, schema), ParseFailure):
        ended = "unparsable"
    tokens_in, tokens_out = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return Reply(text=text, model=model, tokens_in=tokens_in, tokens_out=tokens_out, error=ended)


def _pace(tokens_a_second: float) -> Callable[[int], None]:
    """A wait until the tokens of earlier calls have had their time."""
    lock, free = Lock(), 0.0

    def wait(tokens: int) -> None:
        nonlocal free
        with lock:
            begin = max(free, time.monotonic())
            free = begin + tokens / tokens_a_second
        time.sleep(max(0.0, begin - time.monotonic()))

    return wait


def _limit(name: str, default: float) -> float:
    return float(os.environ.get(f"RAG_LLM_{name}", default))


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
