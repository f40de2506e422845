"""Live models: the only file that touches openai, xllamacpp and transformers; weights are loaded for the first reply.

A back end takes a model's name and the settings and gives a `Backend`, which speaks OpenAI's form of requests and answers.
"""

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from rag_utils.llm.parsing import ParseFailure, parse_json
from rag_utils.schema import Prompt, Reply
from rag_utils.store import digest

Settings = Mapping[str, Any]
_CONTEXT = 8192  # tokens of prompt and reply that llama.cpp makes room for
_FAILURES = {408: "timeout", 504: "timeout", 429: "rate limit"}


class LLMError(RuntimeError):
    """A model or a reply that cannot be had; the message names it and what to do."""


@dataclass(frozen=True)
class Backend:
    """A live model that can be asked."""

    name: str
    revision: str
    settings: Settings
    ask: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
    """Requests to answers, or to {"error": {"code": HTTP status, "message": text}}."""
    at_once: int = 1
    batch: int = 1

    def answers(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reply]]:
        """Replies with the positions of their prompts, as they come."""
        with ThreadPoolExecutor(self.at_once) as pool:
            starts = range(0, len(prompts), self.batch)
            calls = {pool.submit(self._replies, prompts[start : start + self.batch]): start for start in starts}
            try:
                for call in as_completed(calls):
                    yield from enumerate(call.result(), calls[call])
            finally:
                pool.shutdown(cancel_futures=True)

    def _replies(self, prompts: Sequence[Prompt]) -> list[Reply]:
        start = time.perf_counter()
        answers = self.ask([_request(prompt, self.settings) for prompt in prompts])
        seconds = time.perf_counter() - start
        return [self._reply(prompt, answer, seconds) for prompt, answer in zip(prompts, answers, strict=True)]

    def _reply(self, prompt: Prompt, answer: Mapping[str, Any], seconds: float) -> Reply:
        reply = partial(Reply, model=self.name, seconds=seconds)
        if error := answer.get("error"):
            code = int(error["code"])
            failure = _FAILURES.get(code, "server" if code >= 500 else "refused")
            warnings.warn(f"{self.name}: {failure}: {error['message'][:200]}", stacklevel=2)
            return reply(text="", error=failure)
        choice, usage, schema = answer["choices"][0], answer.get("usage") or {}, self.settings["schema"]
        text, question = choice["message"]["content"] or "", prompt.messages[-1][1]
        if question and text.startswith(question):  # some servers give the prompt back
            text = text.removeprefix(question).strip()
        failure = {"length": "truncated", "content_filter": "refused"}.get(choice["finish_reason"])
        if choice["message"].get("refusal"):
            failure = "refused"
        elif schema and not failure and isinstance(parse_json(text, schema), ParseFailure):
            failure = "unparsable"
        tokens = {"tokens_in": usage.get("prompt_tokens", 0), "tokens_out": usage.get("completion_tokens", 0)}
        return reply(text=text, error=failure, **tokens)


def openai_server(model: str, settings: Settings) -> Backend:
    """Any server with OpenAI's interface, asked from threads; the revision is the hash of its address."""
    import openai

    address, key = os.environ.get("OPENAI_BASE_URL", ""), os.environ.get("OPENAI_API_KEY", "")
    if not address and not key:
        raise LLMError(f"openai:{model} needs OPENAI_API_KEY in the environment, or OPENAI_BASE_URL of a server without keys")
    client = openai.OpenAI(  # tries again after `Retry-After`, else after twice as long each time
        api_key=key or "none", timeout=_limit("TIMEOUT", 300), max_retries=int(_limit("RETRIES", 4))
    )
    wait, refused = _pace(60 / _limit("TOKENS_A_MINUTE", float("inf"))), set[str]()

    def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        request = {name: part for name, part in requests[0].items() if name not in refused}
        wait(sum(len(message["content"]) for message in request["messages"]) // 4 + request["max_tokens"])
        try:
            answer = client.chat.completions.create(model=model, **request).model_dump()
            return [answer] if answer["choices"][0]["message"] else []
        except (openai.OpenAIError, AttributeError, LookupError, TypeError, ValueError) as error:
            code = 408 if isinstance(error, openai.APITimeoutError) else getattr(error, "status_code", 500)
            if code in (400, 422) and "response_format" in request:
                refused.add("response_format")  # a server without schemas; replies are checked all the same
                return ask(requests)
            return [{"error": {"code": code, "message": str(error).replace(key or "none", "***")}}]

    revision = digest(address)
    return Backend(f"openai:{model}", revision, settings, ask, at_once=int(_limit("IN_FLIGHT", 32)))


def llama_cpp(path: str, settings: Settings) -> Backend:
    """A GGUF file in this process, one prompt at a time; the revision is the file's SHA-256."""
    import xllamacpp

    file = Path(path).expanduser()
    if not file.is_file():
        raise LLMError(f"there is no file {path}: give the path of a model after gguf:")

    @cache
    def server() -> Any:
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.verbosity = str(file), _CONTEXT, 0
        threads = int(_limit("THREADS", max(1, (os.cpu_count() or 2) - 1)))  # with all cores it collapses under load
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        return xllamacpp.Server(parameters)

    def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Nothing of the prompt before is used again: a reply must not depend on it.
        return [server().handle_chat_completions({**request, "cache_prompt": False}) for request in requests]

    return Backend(f"gguf:{file.stem}", _sha256(file), settings, ask)


def transformers_model(name: str, settings: Settings) -> Backend:
    """A folder or a hub id, in batches padded on the left; the revision is the hub's commit or the weights' hash."""
    import transformers

    try:
        commit = transformers.AutoConfig.from_pretrained(name)._commit_hash
    except (OSError, ValueError) as error:
        raise LLMError(f"hf:{name} is no model folder and not to be had from the hub: {str(error).splitlines()[0]}") from error

    @cache
    def loaded() -> tuple[Any, Any]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, padding_side="left")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        return tokenizer, transformers.AutoModelForCausalLM.from_pretrained(name, use_safetensors=True)

    revision = commit or digest(*map(_sha256, sorted(Path(name).glob("*.safetensors"))))
    ask = lambda requests: _generated(*loaded(), requests)  # noqa: E731
    return Backend(f"hf:{name if commit else Path(name).name}", revision, settings, ask, batch=8)


def _generated(tokenizer: Any, model: Any, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers of a model of transformers to requests of equal settings."""
    import torch

    limit, heat = requests[0]["max_tokens"], requests[0]["temperature"]
    form = {"add_generation_prompt": True, "padding": True, "return_tensors": "pt", "return_dict": True}
    read = tokenizer.apply_chat_template([request["messages"] for request in requests], **form)
    torch.manual_seed(requests[0]["seed"])
    sampling = {"do_sample": True, "temperature": heat} if heat else {"do_sample": False}
    rows = model.generate(**read, max_new_tokens=limit, pad_token_id=tokenizer.pad_token_id, **sampling)
    ends = torch.tensor(model.generation_config.eos_token_id).flatten().tolist()
    answers = []
    for mask, row in zip(read["attention_mask"], rows[:, read["input_ids"].shape[1] :].tolist(), strict=True):
        length = next((n for n, token in enumerate(row) if token in ends), limit)
        text = tokenizer.decode(row[:length], skip_special_tokens=True)
        choice = {"message": {"content": text}, "finish_reason": "length" if length == limit else "stop"}
        answers.append({"choices": [choice], "usage": {"prompt_tokens": int(mask.sum()), "completion_tokens": length}})
    return answers


def _request(prompt: Prompt, settings: Settings) -> dict[str, Any]:
    schema = {key: part for key, part in (settings["schema"] or {}).items() if key != "aliases"}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    messages = [{"role": role, "content": text} for role, text in prompt.messages]
    others = {name: value for name, value in settings.items() if name != "schema"}
    return {"messages": messages, **others, **({"response_format": form} if schema else {})}


def _pace(seconds_a_token: float) -> Callable[[int], None]:
    """A wait until the tokens of earlier calls have had their time at the allowed rate."""
    lock, free = Lock(), 0.0

    def wait(tokens: int) -> None:
        nonlocal free
        with lock:
            begin = max(free, time.monotonic())
            free = begin + tokens * seconds_a_token
        time.sleep(max(0.0, begin - time.monotonic()))

    return wait


def _limit(name: str, default: float) -> float:
    return float(os.environ.get(f"RAG_LLM_{name}", default))


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
