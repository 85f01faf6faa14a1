"""What is flaky fails as often as told, then works; the original stays as it is."""

import asyncio
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool

from agentgraph.errors import ConfigurationTypeError
from agentgraph.testing import flaky


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def adouble(number: int) -> int:
    """Twice the number."""
    return 2 * number


def outcomes(function: Any, count: int) -> list[Any]:
    results: list[Any] = []
    for number in range(count):
        try:
            value = function(number)
            results.append(asyncio.run(value) if asyncio.iscoroutine(value) else value)
        except Exception as error:
            results.append(repr(error))
    return results


@pytest.mark.parametrize("function", [double, adouble])
def test_a_function_fails_first_and_works_later(function: Any) -> None:
    failing = flaky(function, [ValueError("one"), None, TimeoutError])
    assert outcomes(failing, 4) == ["ValueError('one')", 2, "TimeoutError()", 6]
    assert (failing.__name__, failing.__doc__) == (function.__name__, "Twice the number.")
    assert outcomes(function, 1) == [0]


@pytest.mark.parametrize("function", [double, adouble])
def test_a_tool_keeps_its_schema(function: Any) -> None:
    original = tool(function)
    failing = flaky(original, [ValueError("one")])

    async def call(number: int) -> Any:
        return await failing.ainvoke({"number": number})

    assert outcomes(call, 2) == ["ValueError('one')", 2]
    assert (failing.name, failing.description, failing.args) == (original.name, original.description, original.args)
    assert asyncio.run(original.ainvoke({"number": 4})) == 8


def test_sync_and_async_calls_of_a_tool_are_counted_together() -> None:
    failing = flaky(tool(double), [ValueError("one"), ValueError("two")])
    with pytest.raises(ValueError, match="one"):
        failing.invoke({"number": 1})
    with pytest.raises(ValueError, match="two"):
        asyncio.run(failing.ainvoke({"number": 1}))
    assert failing.invoke({"number": 1}) == 2


class Own(BaseTool):
    """A tool that is a class of its own."""

    name: str = "own"
    description: str = "own"

    def _run(self) -> str:
        return ""


def test_what_has_no_function_cannot_be_flaky() -> None:
    with pytest.raises(ConfigurationTypeError, match="cannot be made flaky"):
        flaky(Own(), [])
    with pytest.raises(ConfigurationTypeError, match="cannot be made flaky"):
        flaky(7, [])  # type: ignore[type-var]  # the mistake is the point
