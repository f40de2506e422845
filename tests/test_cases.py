"""Small inputs from public bug reports with the right value; one test a case, named by the case's id.

The functions stand in `tests/cases/<area>.py`, a file an area, so that a red test names the report it comes from.
"""

import importlib
import inspect
import pkgutil

import pytest

from tests import cases


def _collected():
    for info in pkgutil.iter_modules(cases.__path__):
        module = importlib.import_module(f"tests.cases.{info.name}")
        for name, function in vars(module).items():
            if (
                inspect.isfunction(function)
                and function.__module__ == module.__name__
                and not name.startswith("_")
                and name.isupper()
            ):
                yield pytest.param(function, id=name.replace("_", "-"))


@pytest.mark.parametrize("case", list(_collected()))
def test_case(case, request):
    case(**{name: request.getfixturevalue(name) for name in inspect.signature(case).parameters})


def test_ids_are_unique():
    ids = [param.id for param in _collected()]
    assert ids and len(ids) == len(set(ids))
