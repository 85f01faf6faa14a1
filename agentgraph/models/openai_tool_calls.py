"""Tool calls of OpenAI-compatible answers, put together from what servers send. Pure: no I/O.

Servers repeat names, send ids late or never, leave out the index, send one call's pieces between another's, and stop
amid arguments. A call may run only if its arguments are one JSON object; every other one becomes an invalid tool call
that says why.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langchain_core.messages import InvalidToolCall, ToolCall, ToolCallChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk

from agentgraph.models.json_text import SplitText, parse_sendable, whole_text

__all__ = ["ToolCallAssembly", "ToolCallDraft", "as_text", "given", "read_arguments", "sort_calls"]

_EXCERPT = 200
_CUT_OFF = "cut off: the answer reached its limit of tokens before the arguments were complete"


def given(value: Any) -> str | None:
    """Read an optional string as servers send it: null, "" and the text "null" mean that there is none."""
    return whole_text(value) if isinstance(value, str) and value not in {"", "null"} else None


def read_arguments(raw: Any) -> tuple[dict[str, Any] | None, str | None]:
    """Read a tool call's arguments, which servers send as a JSON string, an object, "" or null.

    Returns:
        The arguments and None, or None and what is wrong with them.
    """
    if raw is None or raw in ("", "null"):
        return {}, None
    if isinstance(raw, dict):
        return dict(raw), None
    if not isinstance(raw, str):
        return None, f"the arguments are a {type(raw).__name__}, not a JSON object"
    try:
        value = parse_sendable(raw)
    except UnicodeEncodeError:
        return None, "the arguments hold half of a surrogate pair"
    except (ValueError, RecursionError) as error:
        return None, f"the arguments are not valid JSON ({str(error)[:_EXCERPT]})"
    if not isinstance(value, dict):
        return None, f"the arguments are a JSON {type(value).__name__}, not an object"
    return value, None


def as_text(raw: Any) -> str:
    """Show arguments as the text they should have been sent as."""
    if isinstance(raw, str):
        return raw
    return "" if raw is None else json.dumps(raw, ensure_ascii=False)


@dataclass(slots=True)
class ToolCallDraft:
    """A tool call while it is put together."""

    slot: int
    id: str | None = None
    name: str | None = None
    # Pieces, because adding each to one text would copy all that came before it.
    pieces: list[str] = field(default_factory=list)
    # The server's word; `id` is another where the server calls several calls by one id.
    server_id: str | None = None
    text: SplitText = field(default_factory=SplitText)

    @property
    def arguments(self) -> str:
        """The arguments as far as they came."""
        return "".join(self.pieces)

    @property
    def complete(self) -> bool:
        """Whether the arguments are one whole JSON object, so that nothing can follow."""
        text = self.arguments.rstrip()
        return text.endswith("}") and read_arguments(text)[0] is not None

    def fault(self, *, cut: bool) -> str | None:
        """Say why this call must not run, None if it may. `cut`: the answer ended at its limit of tokens, here."""
        if not self.name:
            return "the call names no tool"
        _, error = read_arguments(self.arguments)
        if cut and (error or not self.arguments):
            return _CUT_OFF
        return error


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


def sort_calls(calls: Sequence[ToolCallDraft], names: Mapping[str, str], *, cut: bool) -> dict[str, Any]:
    """Part the calls into those that may run and those that may not, as fields of an AIMessage."""
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for call in calls:
        fault = call.fault(cut=cut and call is calls[-1])
        name = names.get(call.name or "", call.name)
        if fault is None:
            arguments, _ = read_arguments(call.arguments)
            valid.append(tool_call(name=name or "", args=arguments or {}, id=call.id or _new_id()))
        else:
            invalid.append(invalid_tool_call(name=name, args=call.arguments, id=call.id or _new_id(), error=fault))
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


def _spoil(arguments: str, fault: str) -> str:
    """Give a text that, put after broken arguments, keeps a reader of partial JSON from completing them to a call.

    Adding up chunks, langchain-core closes open strings and braces, so that half a JSON, or none, becomes a call with
    other arguments than the model meant. A closing bracket that does not match stops it.
    """
    stack: list[str] = []
    quoted = escaped = False
    for char in arguments:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]" and stack:
            stack.pop()
    closing = ('""' if escaped else '"') if quoted else ""
    wrong = "}" if stack and stack[-1] == "]" else "]"
    return f"{closing}{wrong} <- {fault}"


def _index_of(delta: Mapping[str, Any]) -> int | None:
    index = delta.get("index")
    if isinstance(index, str) and re.fullmatch("[0-9]{1,4}", index):
        return int(index)
    return index if isinstance(index, int) and not isinstance(index, bool) else None


class ToolCallAssembly:
    """Which call a delta belongs to.

    A known id beats the index, a new id on a used index is a new call, and without either the open call goes on
    (see `_find`). Names and ids count once, arguments are appended.
    """

    def __init__(self) -> None:
        self.calls: list[ToolCallDraft] = []
        self._by_index: dict[int, ToolCallDraft] = {}

    def feed(self, delta: Mapping[str, Any]) -> ToolCallChunk | None:
        """Take one delta; returns what it adds, None if nothing."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        text = as_text(function.get("arguments"))
        call = self._find(delta, given(delta.get("id")), given(function.get("name")), has_text=bool(text))
        new_id = self._new_id(call, given(delta.get("id")))
        new_name = self._new_name(call, given(function.get("name")))
        # "null" as a beginning is a server's way to say "nothing yet"; inside a string it is text.
        new_text = "" if text == "null" and not call.pieces else call.text.feed(text)
        if new_text:
            call.pieces.append(new_text)
        if new_id is None and new_name is None and not new_text:
            return None
        return tool_call_chunk(name=new_name, args=new_text, id=new_id, index=call.slot)

    def _find(self, delta: Mapping[str, Any], id_: str | None, name: str | None, *, has_text: bool) -> ToolCallDraft:
        index = _index_of(delta)
        known = self._known(id_, index, name)
        if known is not None:
            return known
        if index is None and id_ is None:
            found = self.calls[-1] if self.calls else None
        else:
            found = None if index is None else self._by_index.get(index)
        if found is None or self._starts_another(found, id_, name, has_text=has_text):
            found = ToolCallDraft(len(self.calls))
            self.calls.append(found)
        if index is not None:
            self._by_index[index] = found
        return found

    def _known(self, id_: str | None, index: int | None, name: str | None) -> ToolCallDraft | None:
        """Find the call that has this id, unless the server gives one id to all its calls and this is the next."""
        named = [call for call in self.calls if id_ is not None and call.server_id == id_]
        at = None if index is None else self._by_index.get(index)
        if not named or at in named:
            return at if named else None
        # Two calls taken for one could run with arguments that nobody meant; one taken for two never runs.
        opens = index is not None and at is None and name is not None and named[-1].name is not None
        return None if opens else named[-1]

    @staticmethod
    def _starts_another(call: ToolCallDraft, id_: str | None, name: str | None, *, has_text: bool) -> bool:
        """Whether a delta that points at `call`, but not by its id, begins a new one."""
        if id_ is not None and call.id is not None:
            # Some servers make a new id for every delta: without a name, amid arguments, it is the same call.
            return name is not None or not call.pieces or call.complete
        return (
            name is not None
            and call.name is not None
            and bool(call.pieces)
            and has_text
            and (name != call.name or call.complete)
        )

    def _new_id(self, call: ToolCallDraft, id_: str | None) -> str | None:
        if id_ is None or call.id is not None:
            return None
        call.server_id = id_
        call.id = _new_id() if any(other.id == id_ for other in self.calls) else id_
        return call.id

    @staticmethod
    def _new_name(call: ToolCallDraft, name: str | None) -> str | None:
        """What `name` adds: all, the rest of one that grows or comes in pieces, or nothing when it is repeated."""
        if name is None or (call.name is not None and (call.pieces or call.name.startswith(name))):
            return None
        added = name.removeprefix(call.name or "")
        call.name = (call.name or "") + added
        return added

    def close(self, *, cut: bool) -> list[ToolCallChunk]:
        """Give the chunks that complete the calls: missing ids, and the spoiling of those that must not run."""
        chunks = []
        for call in self.calls:
            fault = call.fault(cut=cut and call is self.calls[-1])
            tail = "" if fault is None else _spoil(call.arguments, fault)
            new_id = self._new_id(call, _new_id() if call.id is None else None)
            if tail or new_id:
                chunks.append(tool_call_chunk(name=None, args=tail, id=new_id, index=call.slot))
        return chunks
