"""Answers that a language model writes from the first hits, with the prompts of the papers."""

from collections.abc import Callable, Sequence

from rag_utils.llm import load_prompt
from rag_utils.schema import LLM, Answer, Hit, Prompt, Query, Retriever

Ask = Callable[[str, Sequence[str]], Prompt]
"""A question and the texts of its hits, best first, to the prompt that asks for an answer."""


def short_answer(question: str, texts: Sequence[str]) -> Prompt:
    """A word or a name, or "Insufficient Information" (Multi-Meta-RAG, section 4.2)."""
    return load_prompt("multi_meta_rag_answer", question=question, context=f"\n{'-' * 14}\n".join(texts))


def decision(question: str, texts: Sequence[str]) -> Prompt:
    """Yes, no or maybe (MetaGen Blended RAG, section 4.2)."""
    return load_prompt("metagen_decision", question=question, context="\n\n".join(texts))


def long_answer(question: str, texts: Sequence[str], template: str = "no_cot") -> Prompt:
    """A long answer, or "I couldn't find an answer." (RAG-QA Arena, section 5).

    Args:
        question: As asked.
        texts: Of the passages.
        template: "cot" (think first), "no_cot", or "cap" (no thinking, 50 to 60 words, as GPT-4o was asked).
    """
    return load_prompt(f"arena_answer_{template}", query=question, passage=list(texts))


def answer(queries: Sequence[Query], hits: Sequence[Sequence[Hit]], llm: LLM, ask: Ask = short_answer) -> list[Answer]:
    """One answer a query, all asked in one call.

    An answer's text is the reply's without outer blanks; where no reply was had (`Reply.missing`) there is no text, and
    nothing can be said of the model.
    """
    prompts = [
        ask(query.text, [hit.chunk.fields["text"] for hit in found]) for query, found in zip(queries, hits, strict=True)
    ]
    return [
        Answer(query_id=query.id, text=reply.text.strip(), hits=tuple(found), reply=reply)
        for query, found, reply in zip(queries, hits, llm(prompts), strict=True)
    ]


class LLMAnswerer:
    """A retriever and the model that answers from its first k hits (6 in Multi-Meta-RAG, 5 in the others)."""

    def __init__(self, retriever: Retriever, llm: LLM, k: int = 6, ask: Ask = short_answer):
        self.retriever, self.llm, self.k, self.ask = retriever, llm, k, ask

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One answer a query, in order; see `answer`."""
        return answer(queries, self.retriever.retrieve(queries, self.k), self.llm, self.ask)
