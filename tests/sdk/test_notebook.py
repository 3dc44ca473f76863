"""The notebook `examples/notebook/orders.ipynb`, run in a kernel as Jupyter runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.site.documents import ROOT

if TYPE_CHECKING:
    import nbformat

NOTEBOOK = ROOT / "examples/notebook/orders.ipynb"


def read() -> nbformat.NotebookNode:
    # Imported here: every worker of the tests imports this file, and nbformat takes three seconds.
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert isinstance(notebook, nbformat.NotebookNode)
    return notebook


def texts(cell: nbformat.NotebookNode) -> str:
    """The output of a cell: printed lines and the text of its value."""
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.long
@pytest.mark.timeout(200)
def test_the_notebook_runs_from_the_first_cell_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbclient import NotebookClient

    monkeypatch.delenv("HEADRACE_URL", raising=False)
    notebook = read()
    # A cell that raises ends the run with its traceback.
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    articles, customers, part, new, stop = code[3:]
    assert "shape: (4, 3)" in texts(articles)
    assert "honey" in texts(articles)
    assert "shape: (5, 3)" in texts(customers)
    assert "shape: (4, 2)" in texts(part)
    assert texts(new) == "20000 new orders\n"
    assert not stop.outputs


def test_the_notebook_is_kept_without_outputs() -> None:
    for cell in read().cells:
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None), cell.id
