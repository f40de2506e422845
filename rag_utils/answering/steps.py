"""Context steps, hits -> hits: what happens between retrieval and the context plug-in, by name and in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rag_utils.schema import Hit


@dataclass(frozen=True, slots=True)
class Step:
    """A context step with the name that results and failures give it."""

    name: str
    run: Callable[[list[Hit]], Sequence[Hit]]

    def __call__(self, hits: list[Hit]) -> Sequence[Hit]:
        """The hits that are left or put in their place."""
        return self.run(hits)


class StepError(ValueError):
    """A step raised, or gave something else than hits; the message has its name and the reason."""


def named_steps(names: Sequence[str], known: Mapping[str, Callable[[list[Hit]], Sequence[Hit]]]) -> list[Step]:
    """The steps of these names, in this order; a name may come twice.

    Args:
        names: As a notebook's parameter gives them.
        known: The notebook's own steps by name.

    Raises:
        ValueError: A name is unknown; the message has the nearest known one.
    """
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.0)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"there is no step {name!r}: {hint}known: {', '.join(sorted(known)) or 'none'}")
    return [Step(name, known[name]) for name in names]


def apply_steps(hits: Sequence[Hit], steps: Sequence[Callable[[list[Hit]], Sequence[Hit]]]) -> list[Hit]:
    """The hits after all steps, each of which gets a list of its own: the caller's is never changed.

    Raises:
        StepError: A step fails.
    """
    found = list(hits)
    for step in steps:
        try:
            found = list(step(found.copy()))
        except Exception as error:
            raise StepError(f"step {step_name(step)}: {type(error).__name__}: {error}") from error
        for hit in found:
            if not isinstance(hit, Hit):
                raise StepError(f"step {step_name(step)}: gave a {type(hit).__name__} instead of a hit")
    return found


def step_name(step: Any) -> str:
    """What results call a step: the name it was chosen by, or that of the function."""
    return getattr(step, "name", "") or getattr(step, "__name__", "") or repr(step)


def drop_duplicates(hits: Sequence[Hit]) -> list[Hit]:
    """The first of the hits with equal text, in its place."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        kept.setdefault(hit.chunk.fields["text"], hit)
    return list(kept.values())


def first(n: int) -> Step:
    """The step that keeps the first n hits."""
    return Step(f"first({n})", lambda hits: hits[:n])


def within_words(budget: int) -> Step:
    """The step that keeps whole passages, in order, while they have at most `budget` words in all.

    One that would not fit is left out, and later ones that do fit are kept: of 60, 50, 30, 10 words and a budget of
    100 those of 60, 30, 10. Words are what white space parts.
    """

    def keep(hits: list[Hit]) -> list[Hit]:
        kept, left = [], budget
        for hit in hits:
            length = len(hit.chunk.fields["text"].split())
            if length <= left:
                kept.append(hit)
                left -= length
        return kept

    return Step(f"within_words({budget})", keep)
