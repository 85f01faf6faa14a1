"""JSON schemas of tools, made fit for a grammar and for a prompt.

Both are bounded in size, as schemas come from anywhere (a remote tool server, a user's own dict).
"""

import json
from collections.abc import Mapping
from typing import Any

from agentgraph.protocols.base import ToolSpec

__all__ = ["grammar_schema", "inlined", "notation", "signature"]

_NODES = 4000
_DEPTH = 24
_REPETITIONS = 128  # converters unroll repetitions into the grammar and refuse long ones

_COPIED = ("type", "const", "enum")
_BOUNDS = ("minItems", "maxItems", "minLength", "maxLength")
_FORMATS = {"date", "time", "date-time", "uuid"}
_LIMITS = ("minimum", "maximum")


class _Budget:
    """Ends the expansion of schemas that grow without bound (references that double at each level)."""

    def __init__(self) -> None:
        self.left = _NODES

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace local references by what they point to; where one leads back to itself, anything goes."""
    value = _inline(schema, schema, (), _Budget())
    return value if isinstance(value, dict) else {}


def _inline(node: Any, root: Mapping[str, Any], trail: tuple[str, ...], budget: _Budget) -> Any:
    if isinstance(node, list | tuple):
        return [_inline(item, root, trail, budget) for item in node]
    if not isinstance(node, Mapping):
        return node
    if not budget.spend() or len(trail) > _DEPTH:
        return {}
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = {} if reference in trail else _pointed(root, reference)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _inline({**target, **beside}, root, (*trail, reference), budget)
    return {
        key: _inline(value, root, trail, budget) for key, value in node.items() if key not in {"$defs", "definitions"}
    }


def _pointed(root: Mapping[str, Any], reference: str) -> Mapping[str, Any]:
    node: Any = root
    if not reference.startswith("#"):
        return {}
    for part in reference.lstrip("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        node = node.get(name) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def grammar_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Cut a schema down to what the grammar converters of servers take: structure, constants, small bounds.

    What is left out (patterns, long bounds, titles, conditions) is still checked when the tool is called.
    """
    return _cut(inlined(schema))


def _cut(node: Any) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {}
    if isinstance(node.get("allOf"), list) and len(node["allOf"]) == 1 and isinstance(node["allOf"][0], Mapping):
        return _cut({**node["allOf"][0], **{key: value for key, value in node.items() if key != "allOf"}})
    kept: dict[str, Any] = {key: node[key] for key in _COPIED if key in node}
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list) and node[key]:
            kept["anyOf"] = [_cut(branch) for branch in node[key]]
    kept |= _cut_object(node) | _cut_array(node)
    kept |= {key: node[key] for key in _BOUNDS if isinstance(node.get(key), int) and node[key] <= _REPETITIONS}
    if node.get("type") == "integer":
        kept |= {key: node[key] for key in _LIMITS if isinstance(node.get(key), int)}
    if isinstance(node.get("format"), str) and node["format"] in _FORMATS:
        kept["format"] = node["format"]
    return kept


def _cut_object(node: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {str(name): _cut(value) for name, value in properties.items()}
        required = node.get("required")
        named = [name for name in required if name in properties] if isinstance(required, list) else []
        if named:
            kept["required"] = named
    extra = node.get("additionalProperties")
    if isinstance(extra, bool):
        kept["additionalProperties"] = extra
    elif isinstance(extra, Mapping):
        kept["additionalProperties"] = _cut(extra)
    return kept


def _cut_array(node: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if isinstance(node.get("items"), Mapping):
        kept["items"] = _cut(node["items"])
    if isinstance(node.get("prefixItems"), list):
        kept["prefixItems"] = [_cut(item) for item in node["prefixItems"]]
    return kept


def signature(tool: ToolSpec) -> str:
    """Write a tool as one line, e.g. `- add(a: integer, b?: integer): ...`, for a prompt.

    Descriptions of arguments follow, indented, one line each.
    """
    schema = inlined(tool.parameters)
    properties = schema.get("properties")
    described = properties.items() if isinstance(properties, Mapping) else ()
    notes = [
        f"    {_one_line(name)}: {_one_line(value['description'])}"
        for name, value in described
        if isinstance(value, Mapping) and value.get("description")
    ]
    about = f": {_one_line(tool.description)}" if tool.description else ""
    return "\n".join([f"- {_one_line(tool.name)}({_members(schema)}){about}", *notes])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _members(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    return ", ".join(
        f"{_one_line(name)}{'' if name in required else '?'}: {notation(value)}" for name, value in properties.items()
    )


def notation(schema: Any) -> str:
    """Write the type of a value as programmers write it: `"c" | "f"`, `string[]`, `{zip: string}`.

    Args:
        schema: a schema without references, see `inlined`.
    """
    if not isinstance(schema, Mapping):
        return "any"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False, default=str)
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(value, ensure_ascii=False, default=str) for value in schema["enum"])
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list):
        return " | ".join(dict.fromkeys(notation(branch) for branch in branches))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(map(_one_line, kind))
    if kind == "array":
        inner = notation(schema.get("items"))
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    members = _members(schema) if kind == "object" else ""
    return f"{{{members}}}" if members else _one_line(kind)
