"""Public classes of the native module and their public attributes have docstrings, at run time and in the stub."""

import ast
import importlib.resources
import itertools

import pytest

import headrace_core

CLASSES = {
    name: value for name, value in vars(headrace_core).items() if isinstance(value, type) and not name.startswith("_")
}


def stub() -> dict[str, dict[str, str | None]]:
    """Public attributes of each class of the stub, with their docstrings."""
    package = importlib.resources.files("headrace_core")
    parts = (package.joinpath(name).read_text(encoding="utf-8") for name in ("__init__.pyi", "_protocol.pyi"))
    classes = (node for part in parts for node in ast.parse(part).body if isinstance(node, ast.ClassDef))
    return {node.name: {name: text for name, text in attributes(node) if not name.startswith("_")} for node in classes}


def attributes(definition: ast.ClassDef) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for node, following in itertools.pairwise([*definition.body, None]):
        match node, following:
            case ast.FunctionDef(), _:
                found.append((node.name, ast.get_docstring(node)))
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found.append((name, text))
            case ast.AnnAssign(target=ast.Name(id=name)), _:
                found.append((name, None))
    return found


STUB = stub()


@pytest.mark.parametrize("name", CLASSES)
def test_public_attributes_are_described(name: str) -> None:
    kind = CLASSES[name]
    members = {attribute: value for attribute, value in vars(kind).items() if not attribute.startswith("_")}
    assert kind.__doc__, f"{name} has no docstring"
    assert [attribute for attribute, value in members.items() if not value.__doc__] == []
    assert [attribute for attribute, text in STUB[name].items() if not text] == []
    # An exception has its attributes on instances: its own docstring is what `help` shows of them.
    on_instances = STUB[name].keys() - members.keys()
    assert not on_instances or issubclass(kind, Exception)
    assert [attribute for attribute in on_instances if f"`{attribute}`" not in (kind.__doc__ or "")] == []
    assert members.keys() <= STUB[name].keys()
