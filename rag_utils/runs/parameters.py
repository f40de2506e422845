"""The cell tagged `parameters`, read without running it, and the values that may be put in its place.

papermill only warns about a name it does not know, does not see annotated unions, and leaves derived values as they were;
here each of these is an error before anything runs.
"""

import ast
import datetime
import io
import math
import operator
import tokenize
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from os import PathLike, fspath
from typing import Any, get_args, get_origin

import yaml

from rag_utils.runs.notebooks import Cell

_TYPES: dict[str, Any] = {t.__name__: t for t in (int, float, str, bool, list, dict)} | {"tuple": list}


class Typed(str):
    """A value as typed on the command line: what it means depends on the type of the parameter."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name of the parameters cell, its default and the comment beside it; `kind` is a type such as `int | None`."""

    name: str
    kind: Any
    default: Any
    comment: str

    def fit(self, value: Any) -> Any:
        """The value as a notebook can receive it.

        Text from the command line (`Typed`) is read as YAML unless the parameter is a text, which stays as typed; paths
        and dates become text, pairs and sets lists, NumPy scalars plain numbers, an int a float where one is expected.

        Raises:
            TypeError: Naming the parameter, the value and the type expected.
        """
        try:
            return _fit(plain(_read(value, self.kind) if isinstance(value, Typed) else value), self.kind)
        except (TypeError, yaml.YAMLError) as error:
            expected = "a plain value" if self.kind is Any else kind_name(self.kind)
            reason = f" ({error})" if str(error) else ""
            raise TypeError(f"{self.name} = {value!r} does not fit: {expected} is expected{reason}") from None


def kind_name(kind: Any) -> str:
    """`int`, `list[str]`, `int | None`; "any" where neither default nor annotation says more."""
    if kind is Any:
        return "any"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def parameters_cell(cells: Sequence[Cell]) -> Cell | None:
    """The cell tagged `parameters`, or None.

    Raises:
        ValueError: Two cells carry the tag; papermill would fill the first and let the second overwrite it.
    """
    tagged = [cell for cell in cells if cell.kind == "code" and "parameters" in cell.tags]
    if len(tagged) > 1:
        numbers = " and ".join(str(cell.number) for cell in tagged)
        raise ValueError(f"two tagged cells ({numbers}): put all parameters into one cell")
    return tagged[0] if tagged else None


def read_parameters(cells: Sequence[Cell]) -> tuple[dict[str, Parameter], list[str]]:
    """Every parameter by name, and what is wrong with the cell, in words.

    Wrong is: a statement that is not `name = literal`, a value derived from another, a default that does not fit its
    annotation, and a parameter that no later cell reads before it is overwritten.
    """
    found: dict[str, Parameter] = {}
    problems: list[str] = []
    try:
        cell = parameters_cell(cells)
        if cell is None:
            return {}, []
        comments = _comments(cell.source)
        for statement in ast.parse(cell.source).body:
            _take(statement, comments, found, problems)
    except (ValueError, SyntaxError, tokenize.TokenError) as error:
        return {}, [str(error)]
    return found, problems + _unread(list(found), cells[cell.number :])


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


def _take(statement: ast.stmt, comments: Mapping[int, str], found: dict[str, Parameter], problems: list[str]) -> None:
    """Add the statement's parameter to `found`, or what is wrong with it to `problems`."""
    text = ast.unparse(statement)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=node):
            annotation = None
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as node):
            pass
        case _:
            problems.append(f"`{text}` is not `name = literal`: other code belongs in the next cell")
            return
    if name in found:
        problems.append(f"{name} is assigned twice")
        return
    try:
        value = plain(ast.literal_eval(node))
    except (ValueError, TypeError):
        problems.append(f"{name} is derived (`{text}`): only literals may stand here, derived values belong in the next cell")
        return
    try:
        kind = _annotated(annotation) if annotation else _kind_of(value)
        comment = next((comments[n] for n in range(statement.lineno, node.end_lineno + 1) if n in comments), "")  # type: ignore[operator]
        found[name] = Parameter(name, kind, value, comment)
        found[name].fit(value)
    except (TypeError, ValueError) as error:
        problems.append(str(error))


def _comments(source: str) -> dict[int, str]:
    """Line number -> comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def _annotated(node: ast.expr) -> Any:
    """The type that an annotation names, read without evaluating it."""
    match node:
        case ast.Constant(value=None):
            return types.NoneType
        case ast.Name(id=name) if name in _TYPES:
            return _TYPES[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _annotated(left) | _annotated(right)
        case ast.Subscript(value=ast.Name(id="list" | "tuple"), slice=inner):
            members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            kinds = [_annotated(m) for m in members if not (isinstance(m, ast.Constant) and m.value is ...)]
            return list[reduce(operator.or_, kinds)]  # type: ignore[misc]
        case ast.Subscript(value=ast.Name(id="dict")):
            return dict
    raise ValueError(f"annotation `{ast.unparse(node)}` is not understood: use {', '.join(_TYPES)}, None and unions of them")


def _kind_of(value: Any) -> Any:
    """The type that a default asks for; `list[...]` where all items are of one type."""
    if value is None:
        return Any
    kinds = {_kind_of(item) for item in value} if isinstance(value, list) else set()
    return list[kinds.pop()] if len(kinds) == 1 else type(value)  # type: ignore[misc]


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


def _unread(names: Sequence[str], later: Sequence[Cell]) -> list[str]:
    """Parameters that no later cell reads, or that the first cell to use them overwrites: changing them would do nothing."""
    waiting, problems = set(names), []
    for cell in later:
        read, written = _names(cell)
        lost = waiting & (written - read)
        problems += [f"{name} is overwritten in cell {cell.number} before it is read" for name in sorted(lost)]
        waiting -= read | lost
    return problems + [f"{name} is read by no later cell: use it or remove it" for name in names if name in waiting]


def _names(cell: Cell) -> tuple[set[str], set[str]]:
    """Names that the cell reads, and names that it assigns."""
    if cell.kind != "code":
        return set(), set()
    nodes = [node for node in _walk(cell) if isinstance(node, ast.Name)]
    read = {node.id for node in nodes if isinstance(node.ctx, ast.Load)}
    return read, {node.id for node in nodes if isinstance(node.ctx, ast.Store)}


def _walk(cell: Cell) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(cell.source))
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager  # a magic or a shell line

        return ast.walk(ast.parse(TransformerManager().transform_cell(cell.source)))
