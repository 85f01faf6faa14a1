"""Where large results are kept: the agent's store, or a folder. Sync and async, each a thin shell over one layout."""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from langgraph.store.base import BaseStore

__all__ = ["FolderKeeping", "Keeping", "StoreKeeping", "is_id", "is_scope"]

NAMESPACE = "large_results"

_ID = re.compile(r"r[0-9a-f]{16}")
_SCOPE = re.compile(r"[0-9a-f]{32}")


def is_id(given: object) -> bool:
    """Whether this is an id of a kept result; a model may send anything."""
    return isinstance(given, str) and _ID.fullmatch(given) is not None


def is_scope(given: object) -> bool:
    """Whether this is the scope of a thread; a state can be edited."""
    return isinstance(given, str) and _SCOPE.fullmatch(given) is not None


class Keeping(Protocol):
    """Keeps texts by scope (of a thread) and id; both were checked by `is_scope` and `is_id`."""

    def put(self, scope: str, name: str, text: str) -> None:
        """Keep a text. Keeping it again under the same id changes nothing."""

    def get(self, scope: str, name: str) -> str | None:
        """Give a kept text, None where there is none."""

    async def aput(self, scope: str, name: str, text: str) -> None:
        """As `put`, without blocking the event loop."""

    async def aget(self, scope: str, name: str) -> str | None:
        """As `get`, without blocking the event loop."""


@dataclass(frozen=True)
class StoreKeeping:
    """Keeps them in a langgraph store, under the namespace ("large_results", scope).

    Attributes:
        store: the agent's store.
        ttl: minutes after which the store may forget them; None leaves it to the store.
    """

    store: BaseStore
    ttl: float | None = None

    def put(self, scope: str, name: str, text: str) -> None:
        """Keep a text."""
        self.store.put((NAMESPACE, scope), name, _item(text), index=False, **self._lasting())

    def get(self, scope: str, name: str) -> str | None:
        """Give a kept text."""
        return _text(self.store.get((NAMESPACE, scope), name))

    async def aput(self, scope: str, name: str, text: str) -> None:
        """As `put`."""
        await self.store.aput((NAMESPACE, scope), name, _item(text), index=False, **self._lasting())

    async def aget(self, scope: str, name: str) -> str | None:
        """As `get`."""
        return _text(await self.store.aget((NAMESPACE, scope), name))

    def _lasting(self) -> dict[str, Any]:
        # A store without expiry refuses the argument, even as None.
        return {} if self.ttl is None else {"ttl": self.ttl}


@dataclass(frozen=True)
class FolderKeeping:
    """Keeps them as files `<folder>/<scope>/<id>.txt`, readable by this user only.

    Attributes:
        folder: made when the first result is kept.
    """

    folder: Path

    def put(self, scope: str, name: str, text: str) -> None:
        """Keep a text, written whole before it has its name."""
        place = self.folder / scope
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                # Text of a tool may hold halves of characters, which UTF-8 proper refuses.
                file.write(text.encode("utf-8", "surrogatepass"))
            Path(written).replace(self._file(scope, name))
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise

    def get(self, scope: str, name: str) -> str | None:
        """Give a kept text."""
        try:
            return self._file(scope, name).read_bytes().decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None

    async def aput(self, scope: str, name: str, text: str) -> None:
        """As `put`, in a thread."""
        await asyncio.to_thread(self.put, scope, name, text)

    async def aget(self, scope: str, name: str) -> str | None:
        """As `get`, in a thread."""
        return await asyncio.to_thread(self.get, scope, name)

    def _file(self, scope: str, name: str) -> Path:
        return self.folder / scope / f"{name}.txt"


def _item(text: str) -> dict[str, Any]:
    """A text as a store can hold it: JSON columns refuse the character 0 and halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"escaped": json.dumps(text)}
    return {"escaped": json.dumps(text)} if "\0" in text else {"text": text}


def _text(item: Any) -> str | None:
    value = getattr(item, "value", None)
    if not isinstance(value, Mapping):
        return None
    return json.loads(value["escaped"]) if "escaped" in value else value.get("text")
