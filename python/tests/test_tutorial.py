"""The tutorial runs from its first cell to its last, and shows what it says."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIAL = Path(__file__).parent.parent / "tutorial.ipynb"


def test_tutorial_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "kept without outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    shown = "".join(out.get("text", "") for out in outputs)
    assert "the append landed at byte 4096" in shown
    assert "must begin at the write pointer" in shown
    assert 'did you mean "iodepth"?' in shown
    assert "MB/s, 99% within" in shown
    pictures = [out for out in outputs if "image/png" in out.get("data", {})]
    assert len(pictures) == 3
