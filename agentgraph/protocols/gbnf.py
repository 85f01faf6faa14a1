"""Grammars (GBNF, as llama.cpp reads them) of turns whose inputs are JSON objects of a tool's schema.

They hold a small model to the format; what a grammar cannot say is still checked when the tool is called.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgraph.protocols.base import ToolOffer
from agentgraph.protocols.schemas import grammar_schema

__all__ = ["Grammar", "call_rule", "literal"]

_CALLS = 8  # in one turn: a small model that is free to go on goes on

_BASE = {
    "char": r'[^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])',
    "string": r'"\"" char* "\""',
    "integer": '"-"? ("0" | [1-9] [0-9]*)',
    "number": 'integer ("." [0-9]+)? ([eE] [-+]? [0-9]+)?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "array": '"[" (value (", " value)*)? "]"',
    "object": '"{" (string ": " value (", " string ": " value)*)? "}"',
    "value": "string | number | boolean | null | array | object",
}


def literal(text: str) -> str:
    """Write a text as a grammar's literal."""
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, char)


class Grammar:
    """Gathers rules.

    Example:
        >>> Grammar().text(literal("yes")).splitlines()[0]
        'root ::= "yes"'
    """

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}

    def rule(self, body: str) -> str:
        """Add a rule, once; return its name."""
        return self._rules.setdefault(body, f"r{len(self._rules)}")

    def text(self, root: str) -> str:
        """Write the grammar out."""
        rules = {"root": root, **{name: body for body, name in self._rules.items()}, **_BASE}
        return "\n".join(f"{name} ::= {body}" for name, body in rules.items()) + "\n"

    def arguments(self, parameters: Mapping[str, Any]) -> str:
        """Give the rule for the arguments of a tool."""
        return self._value({"type": "object", "properties": {}, **grammar_schema(parameters)})

    def turn(self, calls: Sequence[str], answer: str, offer: ToolOffer) -> str:
        """Write out a grammar of a turn: one of the calls, several in lines where allowed, or the answer."""
        call = self.rule(" | ".join(calls))
        several = f'{call} ("\\n" {call}){{0,{_CALLS - 1}}}' if offer.parallel else call
        return self.text(several if offer.required else f"{several} | {self.rule(answer)}")

    def _value(self, schema: Mapping[str, Any]) -> str:
        if "const" in schema:
            return literal(_dump(schema["const"]))
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self.rule(" | ".join(literal(_dump(value)) for value in schema["enum"]))
        if schema.get("anyOf"):
            return self.rule(" | ".join(dict.fromkeys(self._value(branch) for branch in schema["anyOf"])))
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            return self.rule(" | ".join(dict.fromkeys(self._value({**schema, "type": one}) for one in kind)))
        if kind == "object" and isinstance(schema.get("properties"), Mapping):
            return self._object(schema) if schema["properties"] or "additionalProperties" not in schema else "object"
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            item = self._value(schema["items"])
            return self.rule(f'"[" ({item} (", " {item})*)? "]"')
        return kind if isinstance(kind, str) and kind in _BASE else "value"

    def _object(self, schema: Mapping[str, Any]) -> str:
        """Required members in their order, then any of the others in theirs."""
        members = {
            name: f"{literal(_dump(name) + ': ')} {self._value(of)}" for name, of in schema["properties"].items()
        }
        needed = [members.pop(name) for name in schema.get("required", ())]
        tail = ""
        for member in reversed(list(members.values())):
            tail = self.rule(f'(", " {member})? {tail}'.strip())
        inner = [' ", " '.join(needed), tail] if needed else [self._optional(list(members.values()))]
        return self.rule(" ".join(['"{"', *filter(None, inner), '"}"']))

    def _optional(self, members: Sequence[str]) -> str:
        branches: list[str] = []
        tail = ""
        for member in reversed(members):
            branches.append(f"{member} {tail}".strip())
            tail = self.rule(f'(", " {member})? {tail}'.strip())
        return f"({' | '.join(reversed(branches))})?" if branches else ""


def call_rule(grammar: Grammar, before: str, parameters: Mapping[str, Any], after: str) -> str:
    """Give the rule of a call: what stands before its arguments, they, and what stands behind."""
    return grammar.rule(f"{literal(before)} {grammar.arguments(parameters)} {literal(after)}")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
