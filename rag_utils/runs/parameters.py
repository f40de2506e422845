"""The cell tagged `parameters`, read without running it, and the values that a run puts in their place.

papermill only warns about a name it does not know, does not see annotated unions, and leaves derived values as they
were; here the first and the last are errors before anything runs, and unions are read.
"""

import ast
import datetime
import io
import math
import tokenize
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any

import yaml

from rag_utils.runs.notebooks import Cell, StudyError


class Typed(str):
    """A value as typed on the command line: what it means depends on the kind of the parameter."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name of the parameters cell; `kind` as Python writes it (`int | None`), "any" for a None not annotated."""

    name: str
    kind: str
    default: Any
    comment: str


def read_parameters(cells: Sequence[Cell]) -> dict[str, Parameter]:
    """Every parameter by name; papermill would fill the first of two tagged cells and let the second overwrite it."""
    tagged = [cell for cell in cells if cell.is_code and "parameters" in cell.tags]
    if len(tagged) > 1:
        raise StudyError(f"two tagged cells ({tagged[0].number} and {tagged[1].number}): put all into one")
    source = tagged[0].source if tagged else ""
    statements = ast.parse(source).body
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    return {parameter.name: parameter for parameter in (_parameter(statement, comments) for statement in statements)}


def fit(name: str, value: Any, kind: str) -> Any:
    """The value as a notebook can receive it and as `kind` demands, else an error that names the parameter.

    Text from the command line (`Typed`) is read as YAML unless a text is expected, which stays as typed; paths and
    dates become text, pairs and sets lists, NumPy scalars plain numbers, an int a float where one is expected.
    """
    try:
        return _fit(_plain(_read(value, kind) if isinstance(value, Typed) else value), kind)
    except (TypeError, yaml.YAMLError) as error:
        raise StudyError(f"{name} = {value!r}: {error}, {kind} is expected") from None


def _parameter(statement: ast.stmt, comments: Mapping[int, str]) -> Parameter:
    text, kind = ast.unparse(statement), ""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=node):
            pass
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as node):
            kind = ast.unparse(annotation)
        case _:
            raise StudyError(f"`{text}` is not `name = literal`: other code belongs in the next cell")
    try:
        value = _plain(ast.literal_eval(node))
    except (ValueError, TypeError):
        remedy = "literals only, derived values belong in the next cell"
        raise StudyError(f"{name} is derived (`{text}`): {remedy}") from None
    kind = kind or _kind_of(value)
    beside = map(comments.get, range(statement.lineno, (statement.end_lineno or 0) + 1))
    return Parameter(name, kind, fit(name, value, kind), next(filter(None, beside), ""))


def _kind_of(value: Any) -> str:
    """What a default asks for; `list[...]` where all items are of one kind."""
    kinds = {_kind_of(item) for item in value} if isinstance(value, list) else set()
    if len(kinds) == 1:
        return f"list[{kinds.pop()}]"
    return "any" if value is None else type(value).__name__


def _read(text: str, kind: str) -> Any:
    """A word of the command line as the kind of parameter asks."""
    if text in ("None", "null"):
        return None
    if "str" in kind.split(" | "):
        return str(text)
    if "float" in kind.split(" | "):
        with suppress(ValueError):  # YAML 1.1 takes 1e-5, without a dot, for a text
            return float(text)
    return yaml.safe_load(text)


def _plain(value: Any) -> Any:
    """The value as JSON holds it."""
    if hasattr(value, "dtype"):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, PathLike | datetime.date):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__} cannot be handed to a notebook")


def _fit(value: Any, kind: str) -> Any:
    name = "None" if value is None else type(value).__name__
    for member in kind.split(" | "):
        outer, _, items = member.partition("[")
        if outer == "any" or (outer == name and (not items or name == "dict")):
            return value
        if member == "float" and name == "int":
            return float(value)
        if outer == name == "list":
            with suppress(TypeError):
                return [_fit(item, items.removesuffix("]")) for item in value]
    raise TypeError(f"it is a {name}")
