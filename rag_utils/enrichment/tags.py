"""Tags and titles that a language model writes: asked with a schema, read with care, failures counted and left empty.

The paper's public code asks for "achronyms" and reads "acronyms", and copies a reply that is no JSON into all four
fields; here other spellings are accepted and such a reply gives nothing.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from rag_utils.enrichment.streams import one_line
from rag_utils.llm import LanguageModel, load_prompt, parse_json
from rag_utils.schema import LLM, Prompt, Reply
from rag_utils.store import digest

TAG_FIELDS = ("topics", "phrases", "synonyms", "acronyms")
_SHORT_LIST = {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 5}
TAG_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {field: _SHORT_LIST for field in TAG_FIELDS},
    "required": list(TAG_FIELDS),
    "additionalProperties": False,
    "aliases": {"achronym": "acronyms", "achronyms": "acronyms", "acronym": "acronyms"},
}
"""For `load_llm(name, schema=TAG_SCHEMA, max_tokens=200)`."""


class _LLMEnricher:
    """What both share; a subclass names the prompt with the place of the text, and reads a reply."""

    fields: tuple[str, ...]
    _prompt: tuple[str, str]

    def __init__(self, llm: LLM, **values: str):
        self.llm, self._values = llm, values
        self.failures: dict[str, str] = {}
        self.slips: Counter[str] = Counter()

    def prompts(self, texts: Sequence[str]) -> list[Prompt]:
        """What the model is asked about each text."""
        name, place = self._prompt
        return [load_prompt(name, **{place: text}, **self._values) for text in texts]

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """All that the reply on each text gives, each phrase once."""
        return [tuple(dict.fromkeys(chain.from_iterable(row.values()))) for row in self.rows(texts)]

    def rows(self, texts: Sequence[str]) -> list[dict[str, list[str]]]:
        """The phrases of each text by field; all empty where the reply failed."""
        rows = []
        for text, reply in zip(texts, self.llm(self.prompts(texts)), strict=True):
            values, slips = self._read(reply)
            self.failures.pop(text, None)
            if values:
                self.slips.update(slips)
            else:
                self.failures[text] = reply.error or slips[0]
            rows.append(values or {field: [] for field in self.fields})
        return rows

    def _read(self, reply: Reply) -> tuple[dict[str, list[str]], list[str]]:
        raise NotImplementedError

    @property
    def settings(self) -> str | None:
        """Model and prompt; None for recorded replies, which are on disk already, and for models that are not ours."""
        if not isinstance(self.llm, LanguageModel) or self.llm.name == "replay":
            return None
        model = json.dumps([self.llm.name, self.llm.revision, self.llm.settings], sort_keys=True)
        return digest(model, repr(self.prompts([""])))


class LLMTagEnricher(_LLMEnricher):
    """Topics, phrases, synonyms and acronyms from one reply; `enrich` makes a field of each.

    Args:
        llm: `load_llm(name, schema=TAG_SCHEMA, max_tokens=200)`.
        domain: Whose expert the model is asked to be; the paper's is medicine.

    Attributes:
        failures: Why a text got nothing, by text.
        slips: How often something was not as asked, and was read all the same.
    """

    field, fields = "tags", TAG_FIELDS
    _prompt = "metagen_tags", "text"

    def __init__(self, llm: LLM, *, domain: str = "medicine"):
        super().__init__(llm, domain=domain)

    def _read(self, reply: Reply) -> tuple[dict[str, list[str]], list[str]]:
        return read_values(reply.text, dict.fromkeys(TAG_FIELDS, list), TAG_SCHEMA["aliases"])


class LLMTitleEnricher(_LLMEnricher):
    """A title for each text, as the paper's code asks for on SQuAD; one that was cut off is left out.

    Args:
        llm: `load_llm(name, max_tokens=40)`.

    Attributes:
        failures: Why a text got no title, by text.
    """

    field, fields = "llm_title", ("llm_title",)
    _prompt = "metagen_title", "passage"

    def _read(self, reply: Reply) -> tuple[dict[str, list[str]], list[str]]:
        first = re.sub(r"^\W*title:", "", reply.text.strip().partition("\n")[0], flags=re.IGNORECASE)
        title = one_line(first.strip("\"'“”‘’*#` "))
        return ({self.field: [title]}, []) if title and not reply.error else ({}, ["empty"])


def read_values(
    text: str, shape: Mapping[str, type], aliases: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Lists and texts out of a reply that may have them in another shape.

    Args:
        text: A reply that holds one JSON object.
        shape: By key, `list` (of texts) or `str`.
        aliases: Other spellings of keys.

    Returns:
        A value for every key ([] or "" where there is none) and what was not as asked; a text instead of a list is
        taken apart at its commas. No values and the reason, where the reply has none of the keys.
    """
    given = parse_json(text, {"properties": {name: {} for name in shape}, "aliases": aliases or {}})
    if not isinstance(given, dict) or not given.keys() & shape.keys():
        return {}, [f"none of {', '.join(shape)}" if isinstance(given, dict) else given.reason]
    values, slips = {}, [f"{name} unknown" for name in given if name not in shape]
    for name, kind in shape.items():
        value: Any = given.get(name)
        if not isinstance(value, kind):
            slips.append(f"{name} missing" if value is None else f"{name} was {_SPOKEN.get(type(value), 'no text')}")
            value = value.split(",") if (kind, type(value)) == (list, str) else kind()
        values[name] = _phrases(value) if kind is list else value
    return values, slips


_SPOKEN: Mapping[type, str] = {str: "text", list: "a list", dict: "an object"}


def _phrases(items: Sequence[Any]) -> list[str]:
    lines = (one_line(item) for item in items if isinstance(item, str))
    return list(dict.fromkeys(filter(None, lines)))
