"""JSON out of what a language model wrote: slips of form are forgiven, content is never guessed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

Schema = Mapping[str, Any]

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


def parse_json(text: str | None, schema: Schema | None = None) -> Any:
    """The one JSON value in a reply.

    Forgiven: code fences and words around it, single quotes, True, False and None, keys without quotes, trailing commas,
    line ends in a string, keys that differ from the schema's in case, blanks or underscores or are one of a property's
    "aliases". Not repaired: what is cut off or misspelt, numbers written as text, NaN, a key given twice with two values.

    Args:
        text: What the model wrote; None counts as empty.
        schema: JSON Schema of an object or an array; None = any object.

    Returns:
        The value, or a `ParseFailure`, also where the schema accepts several different values of the text.
    """
    if not text or not text.strip():
        return ParseFailure("empty")
    wanted = {"type": "object", **(schema or {})}
    accepted, problems = {}, [f"no JSON {wanted['type']}"]
    try:
        for value in _values(text):
            if isinstance(value, list if wanted["type"] == "array" else dict):
                try:
                    accepted[json.dumps(value)] = _validated(value, wanted)
                except ValueError as error:
                    problems.append(f"schema: {error}")
    except (ValueError, RecursionError) as error:
        return ParseFailure(str(error))
    if len(accepted) > 1:
        return ParseFailure(f"ambiguous: {len(accepted)} different values")
    return accepted.popitem()[1] if accepted else ParseFailure(problems[-1])


def plain_schema(schema: Any) -> Any:
    """The schema without our "aliases", as servers take it."""
    if isinstance(schema, list):
        return [plain_schema(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {name: plain_schema(part) for name, part in schema.items() if name != "aliases" or isinstance(part, Mapping)}


def _values(text: str) -> list[Any]:
    """All values at the top level; one that is broken or does not end spoils the text, since its parts are no answers."""
    values, position = [], 0
    while start := _START.search(text, position):
        strict, position = _strict_json(text, start.start())
        value = json.loads(strict, strict=False, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # refuses NaN and halves of surrogate pairs
        values.append(value)
    return values


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
            return '\\"' if found[1] is None else "'"
        return found[0] if found[1] in '"\\/bfnrtu' else "\\" + found[0]

    return f'"{_ESCAPE_OR_QUOTE.sub(strict, token[1:-1])}"'


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise ValueError(f"ambiguous: {key!r} is given twice")
        found[key] = value
    return found


def _validated(value: Any, schema: Schema) -> Any:
    """The value with its keys as the schema spells them; raises what the schema does not accept, naming the field."""
    return _validator(json.dumps(plain_schema(schema)))(_renamed(value, schema))


@cache
def _validator(schema: str) -> Any:
    import fastjsonschema

    return fastjsonschema.compile(json.loads(schema), use_default=False)


def _renamed(value: Any, schema: Schema) -> Any:
    if isinstance(value, list):
        return [_renamed(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    spelling = {_letters(word): name for name, part in properties.items() for word in (name, *part.get("aliases", ()))}
    pairs = [(spelling.get(_letters(key), key), item) for key, item in value.items()]
    return _object([(name, _renamed(item, properties.get(name, {}))) for name, item in pairs])


def _letters(key: str) -> str:
    return re.sub(r"[\s_-]", "", key).casefold()
