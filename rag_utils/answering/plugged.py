"""QA-RAG's responses: from retrieved text (V), or with the plug-ins from questions and answers (Type1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rag_utils.answering.pairs import QAPair
from rag_utils.answering.plugins import fill, object_schema, read_reply
from rag_utils.answering.steps import StepError, apply_steps, step_name
from rag_utils.schema import LLM, MISSING, Answer, Hit, Prompt, Query, Reply, Retriever

REFUSAL = "I do not know"
RESPONSE_SCHEMA = object_schema({"Response": {"type": "string"}})
"""What a response should look like; the answering model is loaded without it, so that form is its own."""


def from_context(question: str, texts: Sequence[str]) -> Prompt:
    """A response from retrieved text as JSON, or "I do not know" (section 2); also for `LLMAnswerer(ask=...)`."""
    return fill("qa_rag_answer_context", query=question, context="\n=====\n".join(texts))


def from_pairs(question: str, subqueries: Sequence[str], pairs: Sequence[str]) -> Prompt:
    """A response from questions with their answers as JSON, or "I do not know" (section 3.2)."""
    return fill("qa_rag_answer_pairs", query=question, subqueries="\n".join(subqueries), pair=list(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What an answer is made from."""

    query: Query
    hits: tuple[Hit, ...]
    """After the context steps."""
    subqueries: tuple[str, ...]
    pairs: tuple[QAPair, ...] = ()
    prompt: Prompt | None = None
    """None = there is nothing to answer from."""
    error: str | None = None
    """Why there is nothing, if it is not for want of evidence: the failed step, or the missing reply."""

    @property
    def evidence(self) -> list[str]:
        """The texts of the pairs or, without a context plug-in, of the hits."""
        return [pair.text for pair in self.pairs] or _texts(self.hits)


class PluginAnswerer:
    """Retrieves for the question as asked, and answers from the hits by way of the plug-ins.

    Without plug-ins (V) the prompt holds the hits' texts; with both (Type1) the sub-questions and the pairs. With one
    of them the prompt is that of Type1: the question stands for its sub-questions, or the hits' texts for the pairs.
    Without hits or pairs no model is asked, and the answer is `REFUSAL`.

    Args:
        retriever: Finds the hits.
        llm: Answers; `load_llm(name, max_tokens=64)`.
        k: Hits (3 in the authors' baselines).
        queries: Questions to their sub-questions: `QueryPlugin`, `ClauseSplitter`.
        context: Hits of each question to pairs: `ContextPlugin`, `ClozePairs`.
        steps: Context steps between retrieval and plug-in, in order; see `named_steps`. Where one fails, so does the
            question: no text, the reply's error says which step and why, and the answer counts as wrong.

    Attributes:
        outcomes: By query id "answered", "unparsed" (a reply that is not the JSON asked for: taken as it stands),
            "no context", "failed" (a context step) or "missing" (no reply to be had).
    """

    def __init__(
        self,
        retriever: Retriever,
        llm: LLM,
        k: int = 3,
        *,
        queries: Callable[[Sequence[str]], Sequence[tuple[str, ...]]] | None = None,
        context: Callable[[Sequence[Sequence[Hit]]], Sequence[tuple[QAPair, ...]]] | None = None,
        steps: Sequence[Callable[[list[Hit]], Sequence[Hit]]] = (),
    ):
        self.retriever, self.llm, self.k = retriever, llm, k
        self.queries, self.context, self.steps = queries, context, tuple(steps)
        self.outcomes: dict[str, str] = {}

    @property
    def step_names(self) -> list[str]:
        """The context steps in their order, for the results."""
        return [step_name(step) for step in self.steps]

    def answer(self, queries: Sequence[Query]) -> list[Answer]:
        """One answer a query, in order."""
        return self.write(self.prepare(queries))

    def prepare(self, queries: Sequence[Query]) -> list[Material]:
        """What each answer will be made from; each plug-in is called once, with all questions."""
        found, errors = self._hits(queries)
        questions = [query.text for query in queries]
        split = self.queries(questions) if self.queries else [(question,) for question in questions]
        pairs: Sequence[tuple[QAPair, ...]] = self.context(found) if self.context else [()] * len(queries)
        return [
            self._material(Material(query=query, hits=tuple(hits), subqueries=subqueries, pairs=own, error=error))
            for query, hits, subqueries, own, error in zip(queries, found, split, pairs, errors, strict=True)
        ]

    def write(self, materials: Sequence[Material]) -> list[Answer]:
        """An answer from each material; all are asked for in one call."""
        prompts = [material.prompt for material in materials if material.prompt]
        replies = iter(self.llm(prompts) if prompts else ())
        return [self._answer(material, next(replies) if material.prompt else None) for material in materials]

    def _hits(self, queries: Sequence[Query]) -> tuple[list[list[Hit]], list[str | None]]:
        """Hits after the steps, and why there are none where a step failed."""
        found: list[list[Hit]] = []
        errors: list[str | None] = []
        for hits in self.retriever.retrieve(queries, self.k):
            try:
                found.append(apply_steps(hits, self.steps))
                errors.append(None)
            except StepError as error:
                found.append([])
                errors.append(str(error))
        return found, errors

    def _material(self, material: Material) -> Material:
        """With its prompt; without one, with the reason where a reply of the context plug-in is missing."""
        question, texts = material.query.text, _texts(material.hits)
        if not (material.pairs if self.context else texts):
            failures = getattr(self.context, "failures", {})
            lost = (failures.get(hit.chunk.id) for hit in material.hits)
            return replace(material, error=material.error or next((why for why in lost if why in MISSING), None))
        if self.queries or self.context:
            return replace(material, prompt=from_pairs(question, material.subqueries, material.evidence))
        return replace(material, prompt=from_context(question, texts))

    def _answer(self, material: Material, reply: Reply | None) -> Answer:
        text, outcome = "", "answered"
        if reply is None and not material.error:
            text, outcome = REFUSAL, "no context"
        elif reply is None:
            reply = Reply(text="", model="", error=material.error)
            outcome = "missing" if reply.missing else "failed"
        elif reply.missing:
            outcome = "missing"
        elif value := read_reply(reply, RESPONSE_SCHEMA):
            text = value["Response"].strip()
        else:
            text, outcome = reply.text.strip(), "unparsed"
        self.outcomes[material.query.id] = outcome
        return Answer(query_id=material.query.id, text=text, hits=material.hits, reply=reply)


def _texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.fields["text"] for hit in hits if hit.chunk.fields["text"].strip()]
