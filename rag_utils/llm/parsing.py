"""JSON out of what a language model wrote: slips of form are forgiven, content is never guessed."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

_START = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|$)|\[\s*(?:["'{\[\]\d-]|$)""")
"""A bracket that opens JSON; those of prose ("{note}", "[see above]") do not look so."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[][{}:,])|(?P<word>[^][{}:,"'\s]+))""", re.DOTALL
)
_ESCAPE_OR_QUOTE = re.compile(r'\\(.)|"', re.DOTALL)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(frozen=True)
class ParseFailure:
    """Why a text gave no value ("empty", "cut off", "ambiguous: ...", "schema: ..." with the field); it is false."""

    reason: str

    def __bool__(self) -> bool:
        return False


def parse_json(text: str | None, schema: Mapping[str, Any] | None = None) -> Any:
    """The one JSON value in a reply.

    Forgiven: code fences and words around it, single quotes, True, False, None, keys without quotes, trailing commas,
    line ends in a string, the case, blanks and underscores of keys. Not repaired: what is cut off or misspelt, numbers
    written as text, NaN, a key given twice with two values, several different values that the schema accepts.

    Args:
        text: What the model wrote; None counts as empty.
        schema: JSON Schema of an object or an array, which may hold "aliases" (other spelling of a key -> the schema's)
            beside its "properties"; None = any object.

    Returns:
        The value or a `ParseFailure`.
    """
    wanted = {"type": "object", **(schema or {})}
    own = {name: name for name in wanted.get("properties", {})}
    names = {_letters(key): name for key, name in (own | wanted.get("aliases", {})).items()}
    accepted, problem = {}, f"no JSON {wanted['type']}" if text and text.strip() else "empty"
    try:
        for value in _values(text or "", names):
            if isinstance(value, list if wanted["type"] == "array" else dict):
                try:
                    accepted[json.dumps(value)] = _validator(json.dumps(wanted))(value)
                except ValueError as error:
                    problem = f"schema: {error}"
    except (ValueError, RecursionError) as error:
        return ParseFailure(str(error))
    if len(accepted) > 1:
        return ParseFailure(f"ambiguous: {len(accepted)} different values")
    return accepted.popitem()[1] if accepted else ParseFailure(problem)


def _values(text: str, names: Mapping[str, str]) -> Iterator[Any]:
    """The values at the top level; one that is broken or cut off spoils the text, since its parts are no answers."""
    position = 0
    while start := _START.search(text, position):
        strict, position = _strict_json(text, start.start())
        value = json.loads(strict, strict=False, object_pairs_hook=partial(_object, names))
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # refuses NaN and halves of surrogate pairs
        yield value


def _strict_json(text: str, start: int) -> tuple[str, int]:
    """The value that starts there, its tokens spelt as JSON wants them, and where it ends."""
    tokens: list[str] = []
    depth, position = 0, start
    while token := _TOKEN.match(text, position):
        position, mark = token.end(), token["mark"]
        if token["string"]:
            tokens.append(_strict_string(token["string"]))
        elif token["word"]:
            tokens.append(_WORDS.get(token["word"], token["word"]))
        elif mark == ":" and tokens[-1].isidentifier():
            tokens[-1:] = [f'"{tokens[-1]}"', mark]
        elif mark in "]}" and tokens[-1] == ",":
            tokens[-1] = mark
        else:
            tokens.append(mark)
        depth += _DEPTH.get(mark, 0)
        if depth == 0:
            return " ".join(tokens), position
    raise ValueError("cut off")  # at the end of the text, or in a string that is not closed


def _strict_string(token: str) -> str:
    """The string in double quotes; a backslash that escapes nothing stands for itself."""

    def strict(found: re.Match[str]) -> str:
        if found[1] in (None, "'"):
            return "'" if found[1] else '\\"'
        return found[0] if found[1] in '"\\/bfnrtu' else "\\" + found[0]

    return f'"{_ESCAPE_OR_QUOTE.sub(strict, token[1:-1])}"'


def _object(names: Mapping[str, str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = names.get(_letters(key), key)
        if name in found and found[name] != value:
            raise ValueError(f"ambiguous: {name!r} is given twice")
        found[name] = value
    return found


def _letters(key: str) -> str:
    return re.sub(r"[\s_-]", "", key).casefold()


@cache
def _validator(schema: str) -> Any:
    import fastjsonschema

    return fastjsonschema.compile(json.loads(schema), use_default=False)
