"""Answers against a raw JSON schema: jsonschema's validators, with every regular expression on the linear engine.

The keywords that search with `re` there are replaced here: `pattern`, `patternProperties`, and the two that must know
which properties the latter covers. All others are jsonschema's own.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from agentgraph.structured_output.patterns import matches, matches_any

__all__ = ["answer_validator", "drafted"]

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Their values are data of the user's, in which "$schema" is a plain word.
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})


def drafted(document: Mapping[str, Any]) -> Any:
    """The validator class of jsonschema for the draft that a schema names, 2020-12 if none."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - 60 ms that only a raw JSON schema has to pay
    from jsonschema.validators import validator_for  # noqa: PLC0415 - as above

    named = document.get("$schema")
    return validator_for(document, Draft202012Validator) if isinstance(named, str) else Draft202012Validator


def answer_validator(document: Mapping[str, Any]) -> Any:
    """A validator of answers to a schema; it fetches nothing, and its time does not explode with a pattern.

    Args:
        document: a sound schema; the draft of its root holds for all of it.
    """
    from referencing import Registry  # noqa: PLC0415 - comes with jsonschema, which is loaded as late

    # The default registry fetches unknown references over the network; an empty one does not.
    return _linear(drafted(document))(_undrafted(document), registry=Registry())


def _undrafted(node: Any) -> Any:
    """The schema without `$schema`, at which a validator would change back into the draft's own class."""
    if isinstance(node, list):
        return [_undrafted(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    # What has that name among `properties` is a schema and no string.
    kept = {key: value for key, value in node.items() if key != "$schema" or not isinstance(value, str)}
    return {key: value if key in _DATA_KEYWORDS else _undrafted(value) for key, value in kept.items()}


@lru_cache(maxsize=16)
def _linear(draft: Any) -> Any:
    from jsonschema.validators import extend  # noqa: PLC0415 - see drafted

    known = draft.VALIDATORS
    own: dict[str, Keyword] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_by(known.get("additionalProperties")),
        "unevaluatedProperties": _unevaluated_properties,
    }
    # A draft ignores the keywords it does not know.
    return extend(draft, {name: keyword for name, keyword in own.items() if name in known})  # type: ignore[no-untyped-call] # the stubs leave it untyped


def _violation(text: str) -> Any:
    from jsonschema import ValidationError  # noqa: PLC0415 - see drafted

    return ValidationError(text)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield _violation(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, schema in patterns.items():
        for key, value in instance.items():
            if matches(pattern, key):
                yield from validator.descend(value, schema, path=key, schema_path=pattern)


def _additional_by(keyword: Any) -> Keyword:
    """The `additionalProperties` of jsonschema, told by name which properties the patterns cover."""

    def additional(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        patterns = schema.get("patternProperties")
        if patterns and isinstance(instance, dict):
            covered = {key: True for key in instance if matches_any(patterns, key)}
            rest = {key: value for key, value in schema.items() if key != "patternProperties"}
            schema = {**rest, "properties": {**schema.get("properties", {}), **covered}}
        return keyword(validator, allowed, instance, schema)

    return additional


def _unevaluated_properties(validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    own = {key: value for key, value in schema.items() if key != "unevaluatedProperties"}
    left = instance.keys() - _evaluated(validator, instance, own)
    if left and allowed is False:
        yield _violation(f"no other properties are allowed, and given were {', '.join(map(repr, sorted(left)))}")
        return
    for key in sorted(left):
        yield from validator.descend(instance[key], allowed, path=key)


def _evaluated(validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
    """The properties that a schema which fits the instance has something to say about.

    JSON schema 2020-12, section 11.3; parts that apply to the same value count where they fit.
    """
    if not isinstance(schema, Mapping):
        return set()
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)
    names, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    found = {key for key in instance if key in names or matches_any(patterns, key)}
    for inner, part in _applied(validator, instance, schema):
        found |= _evaluated(inner, instance, part)
    return found


def _applied(validator: Any, instance: dict[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The parts of a schema that hold for the same value, each with the validator that finds its references."""
    for reference in _REFERENCES:
        if reference in schema:
            found = validator._resolver.lookup(schema[reference])  # noqa: SLF001 - jsonschema has no public way to follow one
            yield validator.evolve(schema=found.contents, _resolver=found.resolver), found.contents
    for key, part in schema.get("dependentSchemas", {}).items():
        if key in instance:
            yield validator, part
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from ((validator, part) for part in schema.get(keyword, ()) if _fits(validator, instance, part))
    if "if" in schema:
        fits = _fits(validator, instance, schema["if"])
        yield from ((validator, schema.get(keyword)) for keyword in (("if", "then") if fits else ("else",)))


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return bool(validator.evolve(schema=schema).is_valid(instance))
