"""The cell tagged `parameters`, read without running it.

papermill only warns about a name it does not know, does not see annotated unions, and leaves derived values as they
were; here the first and the last are errors before anything runs, and unions are read.
"""

import ast
import io
import operator
import re
import tokenize
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from rag_utils.runs.notebooks import Cell
from rag_utils.runs.values import fit, kind_name, kind_of, plain

_TYPES: dict[str, Any] = {t.__name__: t for t in (int, float, str, bool, list, dict)} | {"tuple": list}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name of the parameters cell, its default and the comment beside it; `kind` is a type such as `int | None`."""

    name: str
    kind: Any
    default: Any
    comment: str

    def fit(self, value: Any) -> Any:
        """The value as `values.fit` gives it.

        Raises:
            TypeError: Naming the parameter, the value and the type expected.
        """
        try:
            return fit(value, self.kind)
        except TypeError as error:
            raise TypeError(f"{self.name} = {value!r}: {error}, {kind_name(self.kind)} is expected") from None


def parameters_cell(cells: Sequence[Cell]) -> Cell | None:
    """The cell tagged `parameters`, or None.

    Raises:
        ValueError: Two cells carry the tag; papermill would fill the first and let the second overwrite it.
    """
    tagged = [cell for cell in cells if cell.is_code and "parameters" in cell.metadata.get("tags", ())]
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
        problems.append(f"{name} is derived (`{text}`): literals only, derived values belong in the next cell")
        return
    try:
        kind = _annotated(annotation) if annotation else kind_of(value)
        beside = (comments.get(line) for line in range(statement.lineno, (node.end_lineno or 0) + 1))
        found[name] = Parameter(name, kind, value, next(filter(None, beside), ""))
        found[name] = replace(found[name], default=found[name].fit(value))
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
    known = ", ".join(_TYPES)
    raise ValueError(f"annotation `{ast.unparse(node)}` is not understood: use {known}, None and unions of them")


def _unread(names: Sequence[str], later: Sequence[Cell]) -> list[str]:
    """Parameters that no later cell reads, or that are overwritten first: changing them would do nothing."""
    waiting, problems = set(names), []
    for cell in later:
        read, written = _names(cell)
        lost = waiting & (written - read)
        problems += [f"{name} is overwritten in cell {cell.number} before it is read" for name in sorted(lost)]
        waiting -= read | lost
    return problems + [f"{name} is read by no later cell: use it or remove it" for name in names if name in waiting]


def _names(cell: Cell) -> tuple[set[str], set[str]]:
    """Names that the cell reads, and names that it assigns; every word counts as read where there is a magic."""
    if not cell.is_code:
        return set(), set()
    try:
        nodes = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)]
    except SyntaxError:
        return set(re.findall(r"\w+", cell.source)), set()
    read = {node.id for node in nodes if isinstance(node.ctx, ast.Load)}
    return read, {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
