"""JSON schema documents: are they sound, what are their variants, can they be made strict, what does an answer violate.

All functions are pure: documents are never changed, new ones are returned. Only references inside the document are
followed; nothing is ever fetched.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.structured_output.validation import answer_validator, drafted

__all__ = [
    "check_json_schema",
    "json_mismatches",
    "json_variants",
    "rooted_at_object",
    "strict_schema",
    "without_filler",
]

Document = Mapping[str, Any]

_DEFINITIONS = ("$defs", "definitions")
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Their values are data of the user's, in which "$ref" or "properties" are plain words.
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})
_NAMED_SUBSCHEMAS = frozenset({*_DEFINITIONS, "properties", "patternProperties", "dependentSchemas"})
# Keywords of JSON schema that no provider accepts in a strict schema, since they cannot be decoded under a grammar.
_NEVER_STRICT = frozenset(
    {
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "patternProperties",
        "prefixItems",
        "dependentSchemas",
        "dependentRequired",
    }
)


def check_json_schema(document: Document) -> None:
    """Refuse what is no sound JSON schema, when the agent is built instead of at the first answer.

    Args:
        document: the schema, of the draft its `$schema` names, else 2020-12.

    Raises:
        ConfigurationError: it is not JSON, breaks the rules of its draft, refers to something outside of itself, or
            refers to itself without end.
    """
    from jsonschema import SchemaError  # noqa: PLC0415 - 60 ms that only a raw JSON schema has to pay

    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The JSON schema holds what is not JSON ({error}). Expected dicts with string keys, lists, strings, "
            "numbers, booleans and None. Give Python types as a pydantic class instead."
        ) from error
    try:
        drafted(document).check_schema(document)
    except SchemaError as error:
        raise ConfigurationError(
            f"Not a valid JSON schema, at {_path(error.absolute_path)}: {_bounded(error.message)}. "
            "Correct the schema; the rules are those of JSON schema draft 2020-12 unless `$schema` names another."
        ) from error
    for reference in set(_references(document)):
        if _applies_itself(document, _lookup(document, reference)):
            raise ConfigurationError(
                f"What the JSON schema refers to as {_bounded(reference)!r} applies itself to the same value again, "
                "without end, so that no answer could fit it. Let it refer to itself only for the parts of a value, "
                "in `properties` or `items`."
            )


def json_variants(document: Document) -> Iterator[tuple[Document, Document]]:
    """Split a schema whose root is a `oneOf` or `anyOf` of objects.

    A root that has `properties` of its own stays whole: there, the branches are conditions, not alternatives.

    Args:
        document: a schema that `check_json_schema` accepted.

    Yields:
        For each alternative, the part as the user wrote it, and that part completed with the definitions it refers to.

    Raises:
        ConfigurationError: a part refers to another part of the document than its definitions, and cannot be cut out.
    """
    branches = None if "properties" in document else document.get("oneOf") or document.get("anyOf")
    if not branches:
        yield document, document
        return
    shared = {key: document[key] for key in ("$schema", *_DEFINITIONS) if key in document}
    for branch in branches:
        _require_movable(branch)
        whole = {**shared, **branch}
        for part, completed in json_variants(whole):
            yield (branch if part is whole else part), completed


def rooted_at_object(document: Document, *, name: str) -> dict[str, Any]:
    """Give the document a root that says `"type": "object"`, as every provider demands of a tool or an answer.

    A root that only refers to a definition (so pydantic writes recursive models) is replaced by that definition.

    Args:
        document: a schema with resolvable references.
        name: what the schema is called in an error.

    Returns:
        A new document; the given one is not changed.

    Raises:
        ConfigurationError: the schema describes something else than an object.
    """
    root = copy.deepcopy(dict(document))
    seen: set[str] = set()
    while (reference := root.get("$ref")) is not None and reference not in seen:
        seen.add(reference)
        siblings = {key: value for key, value in root.items() if key != "$ref"}
        root = {**copy.deepcopy(dict(_lookup(root, reference))), **siblings}
    implied = "type" not in root and any(key in root for key in ("properties", "allOf"))
    if not implied and "object" not in _types(root):
        raise ConfigurationError(
            f"Schema {name!r} describes {root.get('type', 'anything')!r} at its root. Expected an object, since tools "
            "and providers take nothing else. Wrap the value in a model with one field."
        )
    root["type"] = "object"
    return root


def json_mismatches(document: Document, data: Any, *, at_most: int) -> list[str]:
    """Say where an answer violates a JSON schema.

    Args:
        document: a schema that `check_json_schema` accepted.
        data: the answer, as decoded from JSON.
        at_most: how many violations are collected.

    Returns:
        One line for each violation, with its place; empty if the answer fits.
    """
    errors = islice(answer_validator(document).iter_errors(data), at_most)
    return [f"{_path(error.absolute_path)}: {error.message}" for error in errors]


def strict_schema(document: Document, *, name: str) -> dict[str, Any]:
    """Make a schema one that a provider can enforce token by token.

    Every object forbids further properties and requires all of its own; what was optional may be null instead (and
    `without_filler` takes these nulls out of the answer). Rules: OpenAI, "Structured model outputs", supported schemas.

    Args:
        document: a schema with an object at its root.
        name: what the schema is called in an error.

    Returns:
        A new document; the given one is not changed.

    Raises:
        ConfigurationError: a part of the schema cannot be said strictly; the error names it.
    """
    return _strict(document, (name,))


def without_filler(data: Any, document: Document) -> Any:
    """Take out the nulls that stand for an absent optional property in an answer to a strict schema.

    Args:
        data: the answer, as decoded from JSON.
        document: the schema before it was made strict.

    Returns:
        The answer without them; nulls that the schema allows stay.
    """
    return _without_filler(data, (document,), document)


def _path(path: Iterable[Any]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{_bounded(str(step), 60)}" for step in path)
    return steps.lstrip(".") or "the root"


def _bounded(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _references(node: Any) -> Iterator[str]:
    """Yield each `$ref` of a schema, leaving out what only looks like one: property names and data."""
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in _REFERENCES and isinstance(value, str):
            yield value
        elif key in _NAMED_SUBSCHEMAS and isinstance(value, dict):
            yield from _references(list(value.values()))
        elif key not in _DATA_KEYWORDS:
            yield from _references(value)


def _lookup(document: Document, reference: str) -> Document:
    """Follow a JSON pointer (RFC 6901) inside the document."""
    target: Any = document if reference == "#" or reference.startswith("#/") else None
    try:
        for step in unquote(reference).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            target = target[int(key)] if isinstance(target, list) else target[key]
    except (KeyError, IndexError, ValueError, TypeError):
        target = None
    if isinstance(target, Mapping):
        return target
    raise ConfigurationError(
        f"The JSON schema refers to {_bounded(reference)!r}, which is not in it. Expected a pointer to a part of the "
        "same document, such as '#/$defs/Name'. Copy what it refers to into `$defs`."
    )


def _applies_itself(document: Document, target: Document) -> bool:
    """Whether checking a value against a part of the schema needs checking the same value against that part."""
    left, seen = [target], set[int]()
    while left:
        for part in _applied(document, left.pop()):
            if part is target:
                return True
            if id(part) not in seen:
                seen.add(id(part))
                left.append(part)
    return False


def _applied(document: Document, node: Document) -> Iterator[Document]:
    """Yield the parts of a schema that apply to the same value as it does."""
    parts: list[Any] = [node.get(key) for key in ("not", "if", "then", "else")]
    parts += [*_options(node), *dict(node.get("dependentSchemas", {})).values()]
    yield from (part for part in parts if isinstance(part, Mapping))
    yield from (_lookup(document, node[key]) for key in sorted(_REFERENCES & node.keys()))


def _require_movable(branch: Any) -> None:
    if not isinstance(branch, Mapping):
        raise ConfigurationTypeError(
            f"A branch of the JSON schema's root is {branch!r}. Expected the schema of an object."
        )
    for reference in _references(branch):
        if not reference.startswith(tuple(f"#/{key}/" for key in _DEFINITIONS)):
            raise ConfigurationError(
                f"A branch of the JSON schema's root refers to {_bounded(reference)!r}. Each branch becomes a schema "
                "of its own, so it can only refer to '#/$defs/...'. Move the shared part there."
            )


def _strict(node: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(node, Mapping) and "$ref" in node:
        # Strict servers refuse a reference with siblings; the definitions beside a root are no siblings of it.
        return {"$ref": node["$ref"]}
    node = _in_strict_words(node, path)
    strict = {key: value for key, value in node.items() if key not in {"default", "discriminator", "required"}}
    for key in _DEFINITIONS:
        if key in node:
            strict[key] = {name: _strict(sub, (*path, name)) for name, sub in node[key].items()}
    if "anyOf" in node:
        strict["anyOf"] = [_strict(option, path) for option in node["anyOf"]]
    if "array" in _types(node):
        strict["items"] = _strict(node.get("items", {}), (*path, "[]"))
    if "object" in _types(node):
        strict |= _strict_object(node, path)
    return strict


def _strict_object(node: Document, path: tuple[str, ...]) -> dict[str, Any]:
    properties = node.get("properties", {})
    if node.get("additionalProperties", False) is not False:
        raise _not_strict(path, "an object with free keys")
    if not properties and "additionalProperties" not in node and "properties" not in node:
        raise _not_strict(path, "an object without properties")
    required = node.get("required", ())
    strict = {key: _strict(value, (*path, key)) for key, value in properties.items()}
    return {
        "properties": {key: value if key in required else _nullable(value) for key, value in strict.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _in_strict_words(node: Any, path: tuple[str, ...]) -> Document:
    """Say `oneOf`, and an `allOf` of one (a reference with siblings), with `anyOf`; refuse what has no strict form."""
    if not isinstance(node, Mapping):
        raise _not_strict(path, f"the schema {node!r}")
    if len(node.get("allOf", ())) == 1:
        node = {"anyOf": node["allOf"], **{key: value for key, value in node.items() if key != "allOf"}}
    if "oneOf" in node and "anyOf" not in node:
        node = {"anyOf": node["oneOf"], **{key: value for key, value in node.items() if key != "oneOf"}}
    if forbidden := sorted(_NEVER_STRICT & node.keys()):
        raise _not_strict(path, f"the keyword {forbidden[0]!r}")
    if not {"type", "anyOf", "enum", "const"} & node.keys():
        raise _not_strict(path, "a value of any type")
    return dict(node)


def _types(node: Document) -> tuple[str, ...]:
    named = node.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    if _allows_null(node):
        return node
    if "anyOf" in node:
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    return {"anyOf": [node, {"type": "null"}]}


def _allows_null(node: Document) -> bool:
    """Whether null fits, as far as the node itself says it; a reference is followed by the caller."""
    if "anyOf" in node or "oneOf" in node:
        return any(_allows_null(option) for option in _options(node))
    if "enum" in node or "const" in node:
        return None in (*node.get("enum", ()), node.get("const", ""))
    return "null" in _types(node) or not {"type", "$ref", "allOf"} & node.keys()


def _options(node: Document) -> list[Any]:
    return [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]


def _not_strict(path: tuple[str, ...], what: str) -> ConfigurationError:
    place = ".".join(path)
    return ConfigurationError(
        f"Schema {path[0]!r} cannot be strict: {_bounded(place)} has {_bounded(what)}. Expected objects with fixed, "
        "typed properties throughout. Change that part, or leave `strict` out."
    )


def _without_filler(data: Any, schemas: Iterable[Any], root: Document) -> Any:
    options = list(_expanded(schemas, root, set()))
    if isinstance(data, list):
        items = [option["items"] for option in options if "items" in option]
        return [_without_filler(item, items, root) for item in data]
    if not isinstance(data, dict):
        return data
    kept: dict[str, Any] = {}
    for key, value in data.items():
        listing = [option for option in options if key in option.get("properties", {})]
        schemas_of_key = [option["properties"][key] for option in listing]
        if value is None and listing and not _null_belongs(key, listing, root):
            continue
        kept[key] = _without_filler(value, schemas_of_key, root)
    return kept


def _null_belongs(key: str, listing: Iterable[Document], root: Document) -> bool:
    for option in listing:
        expanded = _expanded([option["properties"][key]], root, set())
        if key in option.get("required", ()) or any(_allows_null(schema) for schema in expanded):
            return True
    return False


def _expanded(schemas: Iterable[Any], root: Document, seen: set[str]) -> Iterator[Document]:
    """Yield the schemas with references followed and alternatives opened, each reference once."""
    for schema in schemas:
        reference = schema.get("$ref")
        if reference is not None and reference not in seen:
            seen.add(reference)
            yield from _expanded([_lookup(root, reference)], root, seen)
        options = _options(schema)
        yield from _expanded(options, root, seen)
        if not options and reference is None:
            yield schema
