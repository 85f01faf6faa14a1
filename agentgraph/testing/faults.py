"""Faults on demand: functions and tools that fail as often as a test says, and then work."""

import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from langchain_core.tools import BaseTool

from agentgraph.errors import ConfigurationTypeError

__all__ = ["flaky"]

F = TypeVar("F", bound=Callable[..., Any] | BaseTool)


def flaky(target: F, failures: Iterable[BaseException | type[BaseException] | None]) -> F:
    """A function or tool that fails first and works later.

    Args:
        target: a function, sync or async, or a tool made of functions by `@tool`. It is left as it is.
        failures: what the calls raise, in order: the first call the first exception, and so on; None lets a call
            through. When they are used up every call goes through. Calls are counted over sync and async together, also
            in threads.

    Returns:
        The same kind of thing, with the same name, signature and schema.

    Example:
        >>> fetch = flaky(lambda: "page", [ConnectionError("no route")])
        >>> fetch()
        Traceback (most recent call last):
        ConnectionError: no route
        >>> fetch()
        'page'
    """
    fail = _Failures(failures)
    if isinstance(target, BaseTool):
        parts = {name: getattr(target, name, None) for name in ("func", "coroutine")}
        wrapped = {name: _failing(part, fail) for name, part in parts.items() if part is not None}
        if wrapped:
            return cast("F", target.model_copy(update=wrapped))
    elif callable(target):
        return cast("F", _failing(target, fail))
    raise ConfigurationTypeError(f"{target!r:.200} cannot be made flaky: give a function or a tool made by @tool")


class _Failures:
    def __init__(self, failures: Iterable[BaseException | type[BaseException] | None]) -> None:
        self._lock = threading.Lock()
        self._failures = iter(failures)

    def __call__(self) -> None:
        with self._lock:
            failure = next(self._failures, None)
        if failure is not None:
            raise failure


def _failing(function: Callable[..., Any], fail: Callable[[], None]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def afailing(*args: Any, **kwargs: Any) -> Any:
            fail()
            return await function(*args, **kwargs)

        return afailing

    @functools.wraps(function)
    def failing(*args: Any, **kwargs: Any) -> Any:
        fail()
        return function(*args, **kwargs)

    return failing
