"""Context steps between retrieval and response: named, in order, on lists of their own; failures stay visible."""

import pytest

from rag_utils.answering import REFUSAL, PluginAnswerer, drop_duplicates, first, named_steps, within_words
from rag_utils.answering.steps import apply_steps
from rag_utils.schema import Chunk, Hit, Query, Reply


def _hits(*texts):
    return [
        Hit(Chunk(id=f"c{i}", document_id="d", start=0, end=len(text), fields={"text": text}), 1.0 / (i + 1))
        for i, text in enumerate(texts)
    ]


def _texts(hits):
    return [hit.chunk.fields["text"] for hit in hits]


class _Finds:
    """A stand-in for a retriever that finds the same for every question."""

    def __init__(self, hits):
        self.hits = hits

    def retrieve(self, queries, k):
        return [self.hits[:k] for _ in queries]


def _says_lena(prompts):
    return [Reply(text='{"Response": "Lena"}', model="stand-in") for _ in prompts]


def PLU_G01():
    """A typing slip is an error that names it and the nearest known step."""
    known = {"context_dedupe": drop_duplicates, "date_filter": first(1)}
    with pytest.raises(ValueError, match=r"'dat_filter'.*'date_filter'"):
        named_steps(["context_dedupe", "dat_filter"], known)


def PLU_G02():
    """Steps run in the order given, which can be read back for the results."""
    known = {"drop duplicates": drop_duplicates, "keep first 2": lambda hits: hits[:2]}
    for names in (["drop duplicates", "keep first 2"], ["keep first 2", "drop duplicates"]):
        steps = named_steps(names, known)
        assert _texts(apply_steps(_hits("p", "q", "p", "r"), steps)) == ["p", "q"]
        assert PluginAnswerer(_Finds([]), _says_lena, steps=steps).step_names == names
    orders = [["drop duplicates", "keep first 2"], ["keep first 2", "drop duplicates"]]
    found = [_texts(apply_steps(_hits("p", "p", "q"), named_steps(names, known))) for names in orders]
    assert found == [["p", "q"], ["p"]]


def PLU_G03():
    """A step that raises marks its question failed, by name and reason, which counts as wrong; the others go on."""
    calls = []

    def date_filter(hits):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("published_at")
        return hits

    answerer = PluginAnswerer(_Finds(_hits("Lena led it.")), _says_lena, steps=[date_filter])
    answers = answerer.answer([Query(id=id_, text="Who?") for id_ in ("q1", "q2", "q3")])
    assert [answer.text for answer in answers] == ["Lena", "", "Lena"]
    assert answers[1].reply.error == "step date_filter: KeyError: 'published_at'"
    assert not answers[1].reply.missing, "a missing reply would be dropped; this one counts as wrong"
    assert answerer.outcomes == {"q1": "answered", "q2": "failed", "q3": "answered"}


def PLU_G04():
    """A step that appends to its input changes nobody's list."""
    (extra,) = _hits("extra")

    def appends(hits):
        hits.append(extra)
        return hits

    mine = _hits("a", "b")
    assert _texts(apply_steps(mine, [appends])) == _texts(apply_steps(mine, [appends])) == ["a", "b", "extra"]
    assert len(mine) == 2


def PLU_G05():
    """Without context no model is asked; the answer is the fixed refusal, and counted."""

    def fails(prompts):
        raise AssertionError("nothing was to be asked")

    answerer = PluginAnswerer(_Finds([]), fails)
    (answer,) = answerer.answer([Query(id="q", text="Who won?")])
    assert (answer.text, answer.reply) == (REFUSAL, None) and answerer.outcomes == {"q": "no context"}


def PLU_G06():
    """A passage that would not fit is left out, and later ones that do are kept: never above the budget."""
    hits = _hits(*(" ".join([letter] * n) for letter, n in zip("abcd", (60, 50, 30, 10), strict=True)))
    kept = within_words(100)(hits)
    assert [len(text.split()) for text in _texts(kept)] == [60, 30, 10]
