"""Calls to a server with 200 ms latency, 32 in flight against one by one; replies looked up in the cache.

Run: python tests/benchmarks/llm.py   (make bench NAME=llm)

The server runs in a process of its own. Each round asks 10 prompts one by one and 320 together, through the same
`load_llm`; the replies have to be the same and in order. Then 20,000 kept replies are looked up through `cached`,
hashing, reading and checking included. Exit status 1 below 28 times the speed of single calls, below 25,000 replies a
second, or when a reply is wrong.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rag_utils.llm import LanguageModel, cached, load_llm
from rag_utils.schema import Reply

CALLS, SINGLE, KEPT, ROUNDS = 320, 10, 20_000, 5
GOAL, LOOK_UP_GOAL = 28, 25_000
SERVER = Path(__file__).parent.parent / "llm_server.py"


def loaded(in_flight: int) -> LanguageModel:
    os.environ["RAG_LLM_IN_FLIGHT"] = str(in_flight)
    return load_llm("openai:stub")


def seconds(llm: LanguageModel, prompts: list[str]) -> float:
    start = time.perf_counter()
    replies = llm(prompts)
    spent = time.perf_counter() - start
    assert [reply.text for reply in replies] == [prompt.upper() for prompt in prompts], "a reply is wrong or misplaced"
    return spent


def concurrency() -> float:
    """Median over the rounds: how many times faster 32 in flight are."""
    prompts = [f"question {i}" for i in range(CALLS)]
    server = subprocess.Popen([sys.executable, SERVER, "0.2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        os.environ["OPENAI_BASE_URL"] = server.stdout.readline().strip()
        single, together = loaded(1), loaded(32)
        seconds(single, prompts[:1]), seconds(together, prompts[:64])  # connections are made
        return median(
            seconds(single, prompts[:SINGLE]) * CALLS / SINGLE / seconds(together, prompts) for _ in range(ROUNDS)
        )
    finally:
        server.stdin.close()
        server.wait(20)


def look_up() -> float:
    """Median over the rounds: kept replies a second."""

    def answers(prompts):
        yield from ((i, Reply(text=prompt.messages[0][1].upper(), model="stub")) for i, prompt in enumerate(prompts))

    prompts = [f"question {i}: {'who said so? ' * 40}" for i in range(KEPT)]
    with tempfile.TemporaryDirectory() as folder:
        stub = LanguageModel(name="stub", revision="", settings={"max_tokens": 1}, answers=answers)
        llm = cached(stub, Path(folder) / "replies.sqlite")
        seconds(llm, prompts)
        return median(KEPT / seconds(llm, prompts) for _ in range(ROUNDS))


def main() -> int:
    ratio, rate = concurrency(), look_up()
    print(f"{CALLS} calls of 200 ms, 32 in flight: {ratio:.1f} times as fast as one by one (goal {GOAL})")
    print(f"{KEPT} kept replies: {rate:,.0f} looked up a second (goal {LOOK_UP_GOAL:,})")
    return int(ratio < GOAL or rate < LOOK_UP_GOAL)


if __name__ == "__main__":
    sys.exit(main())
