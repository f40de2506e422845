"""Values that a notebook can be given, and the types they must have.

A kind is a type such as `int`, `list[str]` or `int | None`; `Any` where neither default nor annotation says more.
"""

import datetime
import math
import types
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, get_args, get_origin

import yaml


class Typed(str):
    """A value as typed on the command line: what it means depends on the type of the parameter."""


def kind_name(kind: Any) -> str:
    """`int`, `list[str]`, `int | None`; "any" where neither default nor annotation says more."""
    if kind is Any:
        return "any"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def kind_of(value: Any) -> Any:
    """The type that a default asks for; `list[...]` where all items are of one type."""
    if value is None:
        return Any
    kinds = {kind_of(item) for item in value} if isinstance(value, list) else set()
    return list[kinds.pop()] if len(kinds) == 1 else type(value)  # type: ignore[misc]


def fit(value: Any, kind: Any) -> Any:
    """The value as a notebook can receive it and as `kind` demands.

    Text from the command line (`Typed`) is read as YAML unless a text is expected, which stays as typed; paths and
    dates become text, pairs and sets lists, NumPy scalars plain numbers, an int a float where one is expected.

    Raises:
        TypeError: The value is of another kind.
    """
    try:
        return _fit(plain(_read(value, kind) if isinstance(value, Typed) else value), kind)
    except yaml.YAMLError as error:
        raise TypeError(f"it cannot be read as YAML: {error}") from None


def plain(value: Any) -> Any:
    """The value as JSON holds it: paths and dates as text, pairs and sets as lists, NumPy scalars as numbers.

    Raises:
        TypeError: There is no such form.
    """
    if hasattr(value, "dtype"):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise TypeError(f"{value!r}, a {type(value).__name__}, cannot be handed to a notebook")


def _fit(value: Any, kind: Any) -> Any:
    if kind is Any or type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(kind, types.UnionType):
        for member in get_args(kind):
            try:
                return _fit(value, member)
            except TypeError:
                continue
    if get_origin(kind) is list and isinstance(value, list):
        return [_fit(item, get_args(kind)[0]) for item in value]
    raise TypeError(f"it is a {type(value).__name__}")


def _read(text: str, kind: Any) -> Any:
    """A word of the command line as the kind of parameter asks."""
    kinds = get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if text in ("None", "null"):
        return None
    if str in kinds:
        return str(text)
    if list[str] in kinds:
        node = yaml.compose(text, yaml.SafeLoader)
        return [item.value for item in node.value] if isinstance(node, yaml.SequenceNode) else str(text)
    value = yaml.safe_load(text)
    if float in kinds and isinstance(value, str):  # YAML 1.1 takes 1e-5, without a dot, for a text
        try:
            return float(value)
        except ValueError:
            pass
    return value
