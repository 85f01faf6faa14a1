"""Schemas as Gemini takes them: JSON Schema, or on elder servers the subset of OpenAPI's. Pure: no I/O.

Schemas of tools come from strangers' servers too, so that references in circles, or ones that multiply, must not cost
more than a bounded tree.

Format: https://ai.google.dev/api/caching#Schema
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["declaration", "json_schema", "openapi_schema", "with_openapi_schemas"]

_DEEPEST: Final = 40
_MOST_NODES: Final = 5000
_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset({"additionalProperties", "items", "not"})
_KEPT: Final = frozenset(
    {
        "description",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "title",
    }
)
_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
    "string": frozenset({"date-time", "enum"}),
}


# JSON Schema


def json_schema(schema: Any, _depth: int = 0) -> Any:
    """Give a JSON schema without what Gemini does not read in one: `const` becomes an `enum` of one, `$schema` goes.

    Args:
        schema: a JSON schema; what is none is returned as it is.
    """
    if not isinstance(schema, Mapping) or _depth > _DEEPEST:
        return schema
    out = {key: _below(key, value, _depth + 1) for key, value in schema.items() if key != "$schema"}
    if isinstance(out.get("const"), str | int | float) and not isinstance(out["const"], bool):
        out["enum"] = [out.pop("const")]
    return out


def _below(key: str, value: Any, depth: int) -> Any:
    if key in _MAPS and isinstance(value, Mapping):
        return {name: json_schema(inner, depth) for name, inner in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [json_schema(inner, depth) for inner in value]
    return json_schema(value, depth) if key in _SINGLE else value


# OpenAPI's subset


@dataclass(slots=True)
class _Translation:
    """One schema on its way into OpenAPI's subset: its definitions, and how much may still be written."""

    definitions: Mapping[str, Any]
    left: int = _MOST_NODES
    path: list[str] = field(default_factory=list)

    def schema(self, schema: Any) -> dict[str, Any]:
        """Translate a schema, its references put in their place."""
        self.left -= 1
        if not isinstance(schema, Mapping) or len(self.path) > _DEEPEST or self.left < 0:
            return {"type": "object"} if isinstance(schema, Mapping) else {"type": "string"}
        name = str(schema.get("$ref", ""))
        if name in self.path and name:
            return {"type": "object"}
        self.path.append(name)
        if name:
            schema = {**self._target(name), **{key: value for key, value in schema.items() if key != "$ref"}}
            translated = self.schema(schema)
        else:
            translated = self._plain(_merged(schema))
        self.path.pop()
        return translated

    def _target(self, name: str) -> Mapping[str, Any]:
        target = self.definitions.get(name.rpartition("/")[2])
        return target if isinstance(target, Mapping) else {"type": "object"}

    def _plain(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if isinstance(kind, str)]
        named = [kind for kind in kinds if kind != "null"]
        out = {key: value for key, value in schema.items() if key in _KEPT}
        if "null" in kinds:
            out["nullable"] = True
        if len(named) > 1:
            return out | {"anyOf": [self.schema({**schema, "type": kind}) for kind in named]}
        branches = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(branches, list):
            return out | self._any_of(branches)
        return out | self._of_kind(named[0] if named else _implied(schema), schema)

    def _any_of(self, branches: list[Any]) -> dict[str, Any]:
        named = [one for one in branches if not (isinstance(one, Mapping) and one.get("type") == "null")]
        null = {"nullable": True} if len(named) < len(branches) else {}
        translated = [self.schema(one) for one in named] or [{"type": "string"}]
        return (translated[0] if len(translated) == 1 else {"anyOf": translated}) | null

    def _of_kind(self, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {"type": kind}
        if kind == "object":
            return out | self._object(schema)
        if kind == "array":
            return out | {"items": self._items(schema)}
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
        if kind == "string" and values and all(isinstance(value, str) and value for value in values):
            out |= {"enum": list(values), "format": "enum"}
        elif schema.get("format") in _FORMATS.get(kind, frozenset()):
            out["format"] = schema["format"]
        return out | _bounds(kind, schema)

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return {}
        required = schema.get("required")
        known = [name for name in required if name in properties] if isinstance(required, list) else []
        out: dict[str, Any] = {"properties": {name: self.schema(inner) for name, inner in properties.items()}}
        return out | ({"required": known} if known else {})

    def _items(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        places = schema.get("prefixItems")
        if isinstance(places, list) and places:
            kinds = [self.schema(place) for place in places]
            different = [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]
            return different[0] if len(different) == 1 else {"anyOf": different}
        return self.schema(schema.get("items") or {"type": "string"})


def _merged(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a schema with the parts of its `allOf` in it, later ones over earlier, properties and required together."""
    parts = [part for part in schema.get("allOf") or () if isinstance(part, Mapping)]
    if len(parts) == 1 and "$ref" in parts[0]:
        return {**{key: value for key, value in schema.items() if key != "allOf"}, "anyOf": parts}
    merged: dict[str, Any] = {}
    for part in (*parts, {key: value for key, value in schema.items() if key != "allOf"}):
        joined = {**merged.get("properties", {}), **(part.get("properties") or {})}
        required = [*merged.get("required", []), *(part.get("required") or [])]
        merged |= {**part, **({"properties": joined} if joined else {}), **({"required": required} if required else {})}
    return merged


def _implied(schema: Mapping[str, Any]) -> str:
    """Name the type of a schema that does not say it."""
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    values = schema.get("enum") or [schema.get("const")]
    first = values[0]
    kinds = {bool: "boolean", int: "integer", float: "number"}
    return kinds.get(type(first), "string")


def _bounds(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give bounds that exclude their value as ones that include the next whole number, or else the value itself."""
    found: dict[str, Any] = {}
    for strict, name, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        value = schema.get(strict)
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in schema:
            found[name] = value + step if kind == "integer" else value
    return found


def openapi_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a JSON schema into the subset of OpenAPI's that elder servers take.

    References are put in their place (one that leads back to itself becomes an object of any kind), what the subset has
    no word for is left out: the tool checks its arguments anyway.

    Args:
        schema: a JSON schema.

    Example:
        >>> openapi_schema({"type": ["integer", "null"], "exclusiveMinimum": 0})
        {'nullable': True, 'type': 'integer', 'minimum': 1}
    """
    definitions = {**(schema.get("definitions") or {}), **(schema.get("$defs") or {})}
    return _Translation(definitions).schema(schema)


# Requests


def declaration(function: Mapping[str, Any]) -> dict[str, Any]:
    """Declare a function, given in OpenAI's form; one without parameters has no schema, which must not be empty."""
    parameters = function.get("parameters")
    out = {key: function[key] for key in ("name", "description") if function.get(key)}
    if isinstance(parameters, Mapping) and parameters.get("properties"):
        out["parametersJsonSchema"] = json_schema(parameters)
    return out


def with_openapi_schemas(body: Mapping[str, Any]) -> dict[str, Any]:
    """Give a request with its JSON schemas in OpenAPI's form, for a server that does not know the others."""
    out = dict(body)
    out["tools"] = [
        {**tool, "functionDeclarations": [_elder(one) for one in tool["functionDeclarations"]]}
        if "functionDeclarations" in tool
        else tool
        for tool in body.get("tools", ())
    ]
    if not out["tools"]:
        del out["tools"]
    settings = dict(body.get("generationConfig", {}))
    if "responseJsonSchema" in settings:
        settings["responseSchema"] = openapi_schema(settings.pop("responseJsonSchema"))
        out["generationConfig"] = settings
    return out


def _elder(function: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in function.items() if key != "parametersJsonSchema"}
    if "parametersJsonSchema" in function:
        out["parameters"] = openapi_schema(function["parametersJsonSchema"])
    return out
