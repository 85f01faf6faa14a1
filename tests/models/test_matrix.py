"""The matrix of providers and capabilities in the notebook of models names tests that exist, and leaves nothing out."""

import ast
import json
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE.parents[1] / "notebooks" / "06-models.ipynb"
FORMATS = "CRMGO"  # Chat Completions, Responses, Messages, Gemini, Ollama
CAPABILITIES = {
    "text",
    "stream",
    "tools",
    "parallel",
    "forced choice",
    "structured",
    "images",
    "reasoning",
    "cached usage",
    "errors",
    "cancel",
    "other's thread",
}
WAYS = {"bytes", "llmock", "aimock", "types", "model"}


def rows() -> list[tuple[str, str, str, str]]:
    """The rows of the matrix, as the notebook has them."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    (source,) = [text for cell in cells if (text := "".join(cell["source"])).startswith("TESTED = [")]
    first = ast.parse(source).body[0]
    assert isinstance(first, ast.Assign)
    found: list[tuple[str, str, str, str]] = ast.literal_eval(first.value)
    return found


def names_in(module: str) -> set[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("named", sorted({row[3] for row in rows()}))
def test_each_row_names_a_test_that_exists(named: str) -> None:
    module, _, name = named.partition("::")
    assert name in names_in(module)


def test_the_words_of_the_rows_are_known() -> None:
    assert {row[0] for row in rows()} == CAPABILITIES
    assert {row[2] for row in rows()} <= WAYS
    assert set("".join(row[1] for row in rows())) == set(FORMATS)


def test_no_provider_lacks_a_capability() -> None:
    tested = {(capability, one) for capability, formats, _, _ in rows() for one in formats}
    assert {(capability, one) for capability in CAPABILITIES for one in FORMATS} - tested == set()
