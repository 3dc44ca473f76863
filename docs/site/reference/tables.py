"""Cells of tables in Markdown."""

from __future__ import annotations

import re


def cell(text: str) -> str:
    """Return a text as one cell of a table: one line, with bars escaped outside and inside of code."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return f"`{cell(text)}`" if text else ""


def prose(text: str) -> str:
    """Return text of a terminal or a comment as Markdown: outside of code, what could be an element is escaped."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"<(?=[a-zA-Z/])", "&lt;", part) for part in parts)
