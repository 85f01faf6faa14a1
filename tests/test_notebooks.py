"""The notebooks run from top to bottom, in a kernel of their own, without a key and without an error."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 100

# The last line that each cell prints. None: something, since it depends on what is installed.
LAST_LINES: dict[str, list[str | None]] = {
    "01-first-agent": [
        "ai: It is sunny in Rome.",
        "tool weather: sunny in Rome",
        None,
        "[model] ai: Sunny in both.",
        "ai: Sunny; the radar is down.",
        "ai: You are Ada.",
        'tool Forecast: Accepted as the final answer: {"city":"Rome","degrees":20}',
        None,
    ],
    "02-middleware": [
        "",
        "ai: Done.",
        "BudgetMiddleware -> limit run_tool_calls",
        "ai: Sunny.",
        "12000 characters; the model was sent under 300: True",
        "marked: pay {'defer_loading': True} added: tool_search_tool_bm25",
        "ai: It is 42.",
        "ai: Sunny.",
        "left out: none",
    ],
    "03-approvals": [
        "paid so far: []",
        "paid so far: [('Ann', 500)]",
        "paid: {'edit': [('Ann', 5)], 'reject': [], 'respond': []}",
        "open after each answer: [1, 1, 0, 0] paid: [('Ann', 500)]",
        "paid: [('Ann', 5)]",
        "paid: [('Ann', 5)]",
        "ai: Booked.",
        "left: 0 paid: []",
    ],
    "04-resume-fork-rewind": [
        "['radar of Rome', 'weather of Rome'] error ('tools',)",
        "['radar of Rome'] answer",
        "ran again: []",
        "ai: Sunny, and no rain.",
        "the first thread still ends with: Sunny, and no rain.",
        "ai: It is north of Rome.",
        "was sound: False - checkpoints: 5",
        "ai: Sunny, it seems.",
    ],
    "05-in-a-service": [
        "",
        "{'error': 'ModelError', 'status': 502, 'message': 'down'}",
        "",
        "",
        "paid: []",
        "[422, 200, 422] paid: [('Ann', 500)]",
        "404 RunCancelledError",
        "answer 404",
    ],
    "06-models": [
        "any server: ChatOpenAI http://localhost:8000/v1",
        "ai: Sunny.",
        "Oslo is colder. 14",
        "partial: Sunny retryable: True",
        "['web_search', 'weather']",
        "another: OverloadedError True 503",
        None,
        "other's thread  B          B          B          B          B",
    ],
    "07-budgets-and-policies": [
        "limit run_model_calls",
        "{'type': 'budget', 'event': 'exceeded', 'limit': 'run_tokens', 'spent': 220, 'allowed': 250}",
        "answer - Nothing.",
        "total 0.00402",
        "thread 4 other answer",
        "scout: 2 model calls, 220 tokens, tools: ['look']",
        "paid: [('Ann', 5), ('Ann', 500)]",
        "paid: [('Ann', 5), ('Ann', 500), ('Ann', 500)]",
        "14294 characters; the model was sent under 400: True",
    ],
    "08-your-own-middleware": [
        "",
        "You talk to Ada.",
        "ai: It is sunny in Rome.",
        "Enough. - turns: 2",
        "Here I am.",
        "['RetryTool', 'Log'] logged 2",
        "Log ['model', 'tools', 'model']",
        "ai: It is sunny in Rome.",
    ],
}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def last_line(cell: Any) -> str:
    """The end of what a cell printed."""
    text = "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout")
    return text.rstrip().rpartition("\n")[2].strip()


def test_the_notebooks_are_numbered_without_a_gap() -> None:
    assert [path.name[:3] for path in NOTEBOOKS] == ["01-", "02-", "03-", "04-", "05-", "06-", "07-", "08-"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_answers_one_question_in_under_ten_cells(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = re.findall(r"^#+ .*", prose, re.MULTILINE)
    assert (len(headings), headings[0][-1]) == (1, "?")
    assert len(code_cells(notebook)) < 10


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = code_cells(json.loads(path.read_text(encoding="utf-8"), object_hook=nbformat.from_dict))
    assert [(cell.execution_count, cell.outputs) for cell in cells] == [(None, [])] * len(cells)


@pytest.fixture
def kernel_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels keep their files, so that nothing of the user's is read or written."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


async def execute(path: Path, folder: Path) -> list[Any]:
    """The code cells with what they gave."""
    notebook = read(path)
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    await asyncio.wait_for(client.async_execute(), SECONDS)
    return code_cells(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
async def test_a_notebook_runs_without_a_warning_and_prints_what_it_tells(path: Path, kernel_home: Path) -> None:
    cells = await execute(path, kernel_home)
    outputs = [output for cell in cells for output in cell.outputs]
    unwanted = [one for one in outputs if one.output_type == "error" or one.get("name") == "stderr"]
    assert unwanted == []
    expected = LAST_LINES[path.stem]
    lines = [last_line(cell) for cell in cells]
    assert [None if end is None and line else line for line, end in zip(lines, expected, strict=True)] == expected
