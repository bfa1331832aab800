"""The tutorial runs from its first cell to its last, and shows what it says and what is kept with it."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

TUTORIAL = Path(__file__).parent.parent / "tutorial.ipynb"


def outputs(cell: NotebookNode) -> list[tuple[str, bool]]:
    """What a cell shows: its text, and whether there is a picture, whose bytes depend on the fonts."""
    shown = []
    for out in cell.get("outputs", []):
        data = out.get("data", {})
        picture = "image/png" in data
        text = "" if picture else out.get("text", data.get("text/plain", ""))
        # Without either it was a bar of progress.
        if text or picture:
            shown.append((text, picture))
    return shown


def test_tutorial_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    kept = [outputs(cell) for cell in notebook.cells]
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    again = "jupyter execute --inplace python/tutorial.ipynb keeps it anew"
    assert kept == [outputs(cell) for cell in notebook.cells], again
    every = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    shown = "".join(out.get("text", "") for out in every)
    assert "the append landed at byte 4096" in shown
    assert "must begin at the write pointer" in shown
    assert 'did you mean "iodepth"?' in shown
    assert "MB/s, 99% within" in shown
    pictures = [out for out in every if "image/png" in out.get("data", {})]
    assert len(pictures) == 3
    bars = [out for out in every if "<progress" in out.get("data", {}).get("text/html", "")]
    assert bars == [], "bars are gone when the work is done"
