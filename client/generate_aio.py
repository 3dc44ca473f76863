"""Write `headrace/aio/awaited`, which git does not have, from `headrace/sdk/blocking`: the same calls, awaited.

- A function that waits is a coroutine, and its calls are awaited. These are the functions of `waiting.py`, which
  `headrace.aio.waiting` has, too; abstract methods; `close`; and every method that calls one of them. A constructor
  cannot wait, and opens nothing.
- Time limits are the caller's: `timeout`, and the time from which on it counts, are left out, but for reads, which
  return when the time is over.
- A `with` statement is an `async with` statement, and an iterator an asynchronous one.
- Imports are those of the same names in `headrace.aio`. Docstrings have no examples: those are not awaited.

`make` runs it if a source has changed, and the build of the distribution always does. It needs nothing but Python.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

PACKAGE: Final = Path(__file__).parent / "src" / "headrace"
SOURCES: Final = PACKAGE / "sdk" / "blocking"
TARGET: Final = PACKAGE / "aio" / "awaited"
BY_HAND: Final = "waiting.py"

TIMES: Final = {"timeout", "open_timeout", "began"}
READS: Final = {"poll", "poll_arrow", "_next_batch"}
RECEIVERS: Final = {"self", "self.client", "consumer"}
"""Objects whose methods are awaited if they wait."""
IMPORTS: Final = {
    "headrace.sdk.blocking.waiting": "headrace.aio.waiting",
    "headrace.sdk.blocking": "headrace.aio.awaited",
    "headrace.sdk.consumer": "headrace.aio.consumer",
    "headrace.sdk.direct_producer": "headrace.aio.direct",
    "headrace.sdk.producer": "headrace.aio.producer",
    "headrace.sdk.results": "headrace.aio.deliveries",
    "headrace.tables.scan": "headrace.aio.scan",
}

Located: TypeAlias = ast.expr | ast.stmt | ast.arg | ast.keyword


def made() -> dict[str, str]:
    """Return the texts of the modules for asyncio, by file name."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.py"))}
    functions = {function.name for function in _functions(ast.parse(texts.pop(BY_HAND)))}
    waits = _waits([function for text in texts.values() for function in _functions(ast.parse(text))], functions)
    return {name: _Module(name, text, waits).awaited() for name, text in texts.items()}


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _waits(methods: list[ast.FunctionDef], functions: set[str]) -> set[str]:
    """Names of functions and methods that wait."""
    found = functions | {"close"}
    found |= {one.name for one in methods if list(map(ast.unparse, one.decorator_list)) == ["abstractmethod"]}
    while True:
        more = {one.name for one in methods if any(_is_wait(node, found) for node in ast.walk(one))} - {"__init__"}
        if more <= found:
            return found
        found |= more


def _is_wait(node: ast.AST, waits: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in waits
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            return name in waits and ast.unparse(value) in RECEIVERS
    return False


class _Module:
    """One module, and the changes of its text."""

    def __init__(self, name: str, text: str, waits: set[str]) -> None:
        self._name, self._text, self._waits = name, text, waits
        self._changes: list[tuple[int, int, str]] = []
        """Start and end of a part of the text, and what replaces it."""
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def awaited(self) -> str:
        """Return the text for asyncio."""
        tree = ast.parse(self._text)
        for function in _functions(tree):
            if function.name in self._waits:
                self._insert(self._start(function), "async ")
            is_limited = function.name not in READS and self._leave_out_times(function)
            self._describe(function, is_limited=is_limited)
            for statement in ast.walk(function):
                if isinstance(statement, ast.With):
                    self._insert(self._start(statement), "async ")
                if (
                    function.name == "__init__"
                    and isinstance(statement, ast.Expr)
                    and _is_wait(statement.value, self._waits)
                ):
                    self._leave_out_lines(statement)
                elif function.name in self._waits:
                    self._await_calls(statement)
        parts, position = [], 0
        # In a part that is left out, nothing else changes.
        for start, end, replacement in sorted(self._changes, key=lambda change: (change[0], -change[1])):
            if end >= position and (replacement or end > position):
                parts += [self._text[position : max(start, position)], replacement]
                position = end
        text = "".join([*parts, self._text[position:]])
        # A star that no argument follows any more.
        text = re.sub(r",\s*\*,?\s*\)", ")", text)
        text = re.sub(r"\bIterator\b", "AsyncIterator", text)
        for blocking, awaited in IMPORTS.items():
            text = re.sub(rf"^(\s*from ){re.escape(blocking)}\b", rf"\1{awaited}", text, flags=re.MULTILINE)
        source = f"headrace.sdk.blocking.{self._name.removesuffix('.py')}".removesuffix(".__init__")
        title, rest = text.split('"""', 2)[1:]
        title = f"{title.splitlines()[0].rstrip('.')}, for asyncio."
        return f'"""{title}\n\nMade by `client/generate_aio.py` from `{source}`: change it there.\n"""{rest}'

    def _await_calls(self, parent: ast.AST) -> None:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Call) and _is_wait(node, self._waits):
                is_part = isinstance(parent, ast.Attribute | ast.Subscript)
                self._insert(self._start(node), "(await " if is_part else "await ")
                if is_part:
                    self._insert(self._end(node), ")")

    def _leave_out_times(self, function: ast.FunctionDef) -> bool:
        """Leave out time limits; returns whether the function had an argument for one."""
        arguments = function.args
        given = [*arguments.args, *arguments.kwonlyargs]
        defaults = [
            *[None] * (len(arguments.args) - len(arguments.defaults)),
            *arguments.defaults,
            *arguments.kw_defaults,
        ]
        for argument, default in zip(given, defaults, strict=True):
            if argument.arg in TIMES:
                self._leave_out_item(self._start(argument), self._end(default or argument))
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) if name in TIMES:
                    self._leave_out_lines(node)
                case ast.Call():
                    for item in node.args:
                        if ast.unparse(item) in TIMES:
                            self._leave_out_item(self._start(item), self._end(item))
                    for keyword in node.keywords:
                        if keyword.arg in TIMES or ast.unparse(keyword.value) in TIMES:
                            self._leave_out_item(self._start(keyword), self._end(keyword))
        return any(argument.arg in TIMES for argument in given)

    def _describe(self, function: ast.FunctionDef, *, is_limited: bool) -> None:
        """Leave out of a docstring what is not said of coroutines."""
        match function.body[0]:
            case ast.Expr(value=ast.Constant(value=str())) as docstring:
                start, end = self._start(docstring), self._end(docstring)
            case _:
                return
        text = re.sub(r"\n\n +Examples:\n.*?(?=\s*\"\"\"$)", "", self._text[start:end], flags=re.DOTALL)
        if is_limited:
            for item in ("timeout", "DeadlineExceeded", "BufferFull"):
                text = re.sub(rf"\n {{12}}{item}: .*(\n {{13,}}\S.*)*", "", text)
            text = re.sub(r"\n\n +(Args|Raises):(?=\n\n|\n +\"\"\")", "", text)
        if text != self._text[start:end]:
            # A single line has its end beside it.
            text = re.sub(r'\A(""".*)\n +"""\Z', r'\1"""', text)
            self._changes.append((start, end, text))

    def _leave_out_item(self, start: int, end: int) -> None:
        """Leave out an item of a list, with the comma before it, or else after it."""
        before = self._text[:start].rstrip()
        if before.endswith(","):
            start = len(before) - 1
        else:
            end += len(re.match(r",?\s*", self._text[end:])[0])  # type: ignore[index] # it matches everything
        self._changes.append((start, end, ""))

    def _leave_out_lines(self, statement: ast.stmt) -> None:
        """Leave out a statement, with the comment above it."""
        first = statement.lineno - 1
        while self._text[self._lines[first - 1] :].lstrip(" ").startswith("#"):
            first -= 1
        self._changes.append((self._lines[first], self._lines[statement.end_lineno or statement.lineno], ""))

    def _insert(self, position: int, text: str) -> None:
        self._changes.append((position, position, text))

    def _start(self, node: Located) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: Located) -> int:
        return self._lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)


def main() -> None:
    """Write the modules, and remove others."""
    TARGET.mkdir(parents=True, exist_ok=True)
    texts = made()
    for path in set(TARGET.glob("*.py")) - {TARGET / name for name in texts}:
        path.unlink()
    for name, text in texts.items():
        # Whole or not there: another process may import it meanwhile.
        unfinished = TARGET / f"{name}.{os.getpid()}.unfinished"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(TARGET / name)


if __name__ == "__main__":
    main()
