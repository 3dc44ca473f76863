"""Docstrings below the fields of a class, read from its source on demand."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise


def docstring_of(model: type, field: str) -> str:
    """Return the docstring of a field without its indentation; empty if there is none.

    Args:
        model: The class, or a subclass of the one that has the field.
        field: Its name.

    Raises:
        OSError: The source of the class is not available.
    """
    return next((found[field] for ancestor in model.__mro__[:-1] if field in (found := _docstrings(ancestor))), "")


@cache
def _docstrings(model: type) -> dict[str, str]:
    if model.__module__.partition(".")[0] == "pydantic":
        return {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    statements = definition.body if isinstance(definition, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
