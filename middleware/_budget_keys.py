"""What runs with one key have spent together: one record a run in the store, and their sum.

A run writes only its own record, and always as a whole, so no two runs write over each other and writing twice changes
nothing. A subagent is a run of its own.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from langgraph.store.base import BaseStore

from agentgraph.errors import ConfigurationError

from ._budget_usage import Usage

__all__ = ["Place", "StoreCall", "aanswering", "answering", "place_of", "reading", "writing"]

_PAGE = 500


class Place(NamedTuple):
    """Where the records of a key are."""

    store: BaseStore
    namespace: tuple[str, ...]


@dataclass(frozen=True)
class StoreCall:
    """What a flow yields to ask a store.

    Attributes:
        store: whom.
        method: the name of the sync method; that of its twin begins with an a.
        arguments: in order.
        options: by keyword.
    """

    store: BaseStore
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def run(self) -> Any:
        """Ask in sync code."""
        return getattr(self.store, self.method)(*self.arguments, **self.options)

    async def arun(self) -> Any:
        """Ask in async code."""
        return await getattr(self.store, f"a{self.method}")(*self.arguments, **self.options)


def answering(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook's handler that asks stores as well."""
    return lambda asked: asked.run() if isinstance(asked, StoreCall) else handler(asked)


def aanswering(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """As `answering`, for async runs."""

    async def answer(asked: Any) -> Any:
        return await (asked.arun() if isinstance(asked, StoreCall) else handler(asked))

    return answer


def place_of(store: BaseStore | None, namespace: tuple[str, ...]) -> Place:
    """Where the records of a key are.

    Raises:
        ConfigurationError: the agent has no store.
    """
    if store is None:
        raise ConfigurationError(
            "A Budget whose scope is a BudgetKey keeps what was spent in the store, and this agent has none. Give "
            "create_agent(store=...)."
        )
    return Place(store, namespace)


def reading(places: Iterable[Place], run: str) -> Generator[Any, Any, dict[Place, Usage]]:
    """A flow that sums up what all runs but one have spent, for each place."""
    found: dict[Place, Usage] = {}
    for place in dict.fromkeys(places):
        records: dict[str, Any] = {}
        while True:
            options = {"limit": _PAGE, "offset": len(records)}
            page = yield StoreCall(place.store, "search", (place.namespace,), options)
            known = len(records)
            # Keys that begin with this one are found, too.
            records.update({f"{item.namespace}{item.key}": item for item in page})
            if len(page) < _PAGE or len(records) == known:
                break
        own = [item for item in records.values() if tuple(item.namespace) == place.namespace and item.key != run]
        found[place] = sum((Usage.of(item.value) for item in own), Usage())
    return found


def writing(places: Iterable[Place], run: str, spent: Usage) -> Generator[Any, Any, None]:
    """A flow that writes the record of a run."""
    for place in dict.fromkeys(places):
        yield StoreCall(place.store, "put", (place.namespace, run, spent.as_dict()), {"index": False})
