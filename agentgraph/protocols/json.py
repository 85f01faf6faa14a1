"""The JSON protocol: a turn is one JSON object, a call `{"tool": ..., "args": {...}}` or `{"final": "..."}`.

The most reliable of the text protocols where the server takes a JSON schema (`response_format`): then even models of
100 million parameters cannot write anything else. Where it does not, the reader forgives what can be read in one way
only, and never guesses.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agentgraph.protocols.base import TextProtocol, ToolOffer, ToolResult, WrittenCall
from agentgraph.protocols.json_reader import JSONTurnParser
from agentgraph.protocols.schemas import grammar_schema, signature

__all__ = ["JSONProtocol"]


class JSONProtocol(TextProtocol):
    """Tool calls as JSON objects.

    Args:
        constrain: whether to send a JSON schema of the turn as `response_format`. A server that refuses it is asked
            without from then on.

    Example:
        >>> JSONProtocol().call_text([WrittenCall("add", {"a": 1, "b": 2})], "")
        '{"tool": "add", "args": {"a": 1, "b": 2}}'
    """

    name: ClassVar[str] = "json"
    reminder = 'Write one JSON object: {"tool": NAME, "args": {...}} to use a tool, or {"final": "..."} to answer.'

    def __init__(self, *, constrain: bool = True) -> None:
        self.constrain = constrain

    def render(self, offer: ToolOffer) -> str:
        """Describe the two objects and the tools, one line a tool."""
        lines = ['Write one JSON object and nothing else. To use a tool: {"tool": NAME, "args": {...}}.']
        if offer.parallel:
            lines.append('For several tools at once: {"calls": [{"tool": NAME, "args": {...}}, ...]}.')
        if offer.required:
            lines.append("Use a tool now.")
        else:
            lines.append('To answer the user: {"final": "..."}. Use a tool whenever one fits.')
        return " ".join(lines) + "\n\nTools:\n" + "\n".join(signature(tool) for tool in offer.tools)

    def settings(self, offer: ToolOffer) -> Mapping[str, Any]:
        """Give the schema of a turn as `response_format`."""
        if not self.constrain:
            return {}
        return {
            "response_format": {"type": "json_schema", "json_schema": {"name": "turn", "schema": turn_schema(offer)}}
        }

    def parser(self, offer: ToolOffer) -> JSONTurnParser:  # noqa: ARG002 -- unknown names are the agent's to answer
        """Make a reader of one turn."""
        return JSONTurnParser()

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        """Write the calls of a turn: one object, or several under "calls"."""
        written = [{"tool": call.name, "args": call.args} for call in calls]
        turn = _dump(written[0] if len(written) == 1 else {"calls": written})
        return f"{text}\n{turn}" if text.strip() else turn

    def answer_text(self, text: str) -> str:
        """Write an answer."""
        return _dump({"final": text})

    def result_text(self, results: Sequence[ToolResult]) -> str:
        """Write each result as an object of its own line, so that no result can pose as something else."""
        return "\n".join(
            _dump({"error_of" if result.failed else "result_of": result.name, "text": result.text})
            for result in results
        )


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def turn_schema(offer: ToolOffer) -> dict[str, Any]:
    """Give the JSON schema of a turn: any of the calls or, unless a call is required, a final answer.

    Keys are in the order in which they are to be written, which servers that build a grammar keep.
    """
    calls = [_closed({"tool": {"const": tool.name}, "args": grammar_schema(tool.parameters)}) for tool in offer.tools]
    turns = list(calls)
    if offer.parallel:
        several = {"type": "array", "minItems": 2, "items": {"anyOf": calls}}
        turns.append(_closed({"calls": several}))
    if not offer.required:
        turns.append(_closed({"final": {"type": "string"}}))
    return {"type": "object", "anyOf": turns}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
