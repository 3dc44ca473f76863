"""The blocks of a page as one script: what a reader types, in order, in one shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from tests.site.documents import Block, Page

MARK = "-- end of block"


def script_of(page: Page, addresses: dict[str, str]) -> str:
    """Return a script for bash that runs the blocks of a page, and prints a mark after each.

    Args:
        page: the page.
        addresses: by the addresses that the page names, those that they have here.
    """
    parts = []
    program = ""
    used = [block for block in page.blocks if block.is_run or block.says("file") is not None]
    for block, following in zip(used, [*used[1:], None], strict=True):
        code = substituted(block.code, addresses)
        if (name := block.says("file")) is not None:
            parts.append(f'mkdir -p "$(dirname {shlex.quote(name)})"\n{heredoc(f"cat > {shlex.quote(name)}", code)}')
        elif block.is_run and block.language == "python":
            program += code
            if following is not None and following.says("continues") is not None:
                continue
            parts.append(heredoc("python -W error -", program))
            program = ""
        else:
            parts.append("\n".join(typed(code)) if block.language == "console" else code)
        parts.append(f"echo; echo '{MARK} {block.line}'\n")
    return "\n".join(parts)


def substituted(code: str, addresses: dict[str, str]) -> str:
    """Return code with the addresses of this run."""
    for usual, here in addresses.items():
        code = re.sub(rf"{re.escape(usual)}(?!\d)", here, code)
    return code


def heredoc(command: str, text: str) -> str:
    """Return a command with a text as its input."""
    return f"{command} <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n"


def typed(session: str) -> Iterator[str]:
    """Yield the commands of a session: lines after `$ `, with their continuations after `> `."""
    for line in session.splitlines():
        if line.startswith(("$ ", "> ")):
            yield line[2:]


def unexpected(block: Block, output: str, addresses: dict[str, str]) -> str | None:
    """Return the first line that a session shows and the output lacks; `...` stands for any text."""
    lines = iter(output.splitlines())
    for line in substituted(block.code, addresses).splitlines():
        if line.startswith(("$ ", "> ")) or not line.strip() or line.strip() == "...":
            continue
        pattern = ".*".join(re.escape(part.strip()) for part in line.split("..."))
        if not any(re.search(pattern, " ".join(printed.split())) or re.search(pattern, printed) for printed in lines):
            return line
    return None


def outputs(page: Page, printed: str) -> dict[int, str]:
    """Return the output of each block, by its line."""
    found = re.split(rf"^{MARK} (\d+)\n", printed, flags=re.MULTILINE)
    return {int(line): text for text, line in zip(found[::2], found[1::2], strict=False)}
