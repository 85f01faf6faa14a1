"""Which format holds in a call: strategies, raw schemas, models with structured output of their own, narrowing."""

import doctest
import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

import langchain.agents.structured_output as original
import pytest
from pydantic import BaseModel

import agentgraph.structured_output as package
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.structured_output import (
    AutoStrategy,
    Format,
    NativeFormat,
    Plain,
    ProviderStrategy,
    ResponseFormat,
    ResponsePlan,
    ToolFormat,
    ToolStrategy,
    resolve,
    supports_native,
)


class Contact(BaseModel):
    name: str


class Refusal(BaseModel):
    reason: str


class Elsewhere(BaseModel):
    name: str


CITY = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}}


@dataclass
class Model:
    """The attributes of a chat model that are looked at."""

    model_name: Any = None
    model: Any = None
    model_id: Any = None
    profile: Any = None


def plan_of(response_format: Any) -> ResponsePlan:
    plan = ResponsePlan.of(response_format)
    assert plan is not None
    return plan


def resolved(plan: ResponsePlan, asked: Any = ..., *, model: Any = "unknown", **options: Any) -> Format:
    asked = plan.initial if asked is ... else asked
    return resolve(asked, model=model, declared=plan.declared, **{"tools_bound": False, **options})


@pytest.mark.parametrize(
    ("response_format", "strategy", "declared"),
    [
        (Contact, AutoStrategy, ["Contact"]),
        (Contact | Refusal, AutoStrategy, ["Contact", "Refusal"]),
        (CITY, AutoStrategy, ["City"]),
        (AutoStrategy(Contact), AutoStrategy, ["Contact"]),
        (ToolStrategy(Contact), ToolStrategy, ["Contact"]),
        (ProviderStrategy(Contact), ProviderStrategy, []),
    ],
)
def test_a_plan_shows_the_strategy_and_declares_its_tools(
    response_format: Any, strategy: type[Any], declared: list[str]
) -> None:
    plan = plan_of(response_format)
    assert (type(plan.initial), list(plan.declared)) == (strategy, declared)
    assert [binding.tool.name for binding in plan.declared.values()] == declared
    if isinstance(response_format, strategy):
        assert plan.initial is response_format


def test_without_a_response_format_there_is_no_plan() -> None:
    assert ResponsePlan.of(None) is None
    assert resolve(None, model=Model(), tools_bound=True, declared={}) == Plain()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ToolStrategy, r"the class ToolStrategy. Expected an object: ToolStrategy\(YourSchema\)"),
        (ProviderStrategy[Contact], r"the class ProviderStrategy. Expected an object"),
        (AutoStrategy, "the class AutoStrategy"),
        (str, "is not a schema"),
        ("Contact", "is not a schema"),
        ([Contact], "is not a schema"),
        (Contact(name="A"), "give its class, Contact"),
        (0, "is not a schema"),
        (ToolStrategy(Contact).schema_specs[0], "is not a schema"),
    ],
)
def test_what_is_no_response_format_is_refused_when_the_agent_is_built(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationTypeError, match=told):
        ResponsePlan.of(given)


@pytest.mark.parametrize("union", [Contact | Refusal, {"oneOf": [CITY, {**CITY, "title": "Town"}]}])
def test_a_union_for_the_provider_is_refused_and_the_way_out_named(union: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match=r"was given a union \(\w+, \w+\).*Use ToolStrategy"):
        ProviderStrategy(union)


@pytest.mark.parametrize(
    ("model", "options", "expected"),
    [
        ("unknown", {}, ToolFormat),
        ("gpt-4o", {}, NativeFormat),
        ("gpt-4o", {"native": False}, ToolFormat),
        ("unknown", {"native": True}, NativeFormat),
        (Model(profile={"structured_output": True}), {"tools_bound": True}, NativeFormat),
        (Model(model="gemini-2.5-pro", profile={"structured_output": True}), {"tools_bound": True}, ToolFormat),
    ],
)
def test_a_raw_schema_is_decided_at_each_call_by_the_requests_model(
    model: Any, options: dict[str, Any], expected: type[Any]
) -> None:
    plan = plan_of(Contact)
    for asked in (plan.initial, Contact):
        found = resolved(plan, asked, model=model, **options)
        assert type(found) is expected


def test_a_raw_union_takes_tools_whatever_the_model_can() -> None:
    assert isinstance(resolved(plan_of(Contact | Refusal), native=True), ToolFormat)


@pytest.mark.parametrize("native", [True, False, None])
def test_an_explicit_strategy_is_never_exchanged(native: bool | None) -> None:
    assert isinstance(resolved(plan_of(ToolStrategy(Contact)), model="gpt-4o", native=native), ToolFormat)
    assert isinstance(resolved(plan_of(ProviderStrategy(Contact)), native=native), NativeFormat)


@pytest.mark.parametrize(
    ("declared", "asked", "offered"),
    [
        (ToolStrategy(Contact | Refusal), ToolStrategy(Refusal), ["Refusal"]),
        (ToolStrategy(Contact | Refusal), Refusal, ["Refusal"]),
        (ToolStrategy(Contact | Refusal), ToolStrategy(Refusal | Contact), ["Refusal", "Contact"]),
        (Contact | Refusal, ToolStrategy(Contact), ["Contact"]),
        (ToolStrategy({"oneOf": [CITY, {**CITY, "title": "Town"}]}), {**CITY, "title": "Town"}, ["Town"]),
        (
            ToolStrategy({"oneOf": [{**CITY, "description": "1"}, {**CITY, "description": "2"}]}),
            ToolStrategy({**CITY, "description": "2"}),
            ["City_2"],
        ),
    ],
)
def test_a_request_can_narrow_what_was_declared(declared: Any, asked: Any, offered: list[str]) -> None:
    plan = plan_of(declared)
    binding = resolved(plan, asked).bind()
    assert [tool.name for tool in binding.tools] == offered
    assert all(tool is plan.declared[tool.name].tool for tool in binding.tools)


@pytest.mark.parametrize(
    ("declared", "asked", "told"),
    [
        (ToolStrategy(Contact | Refusal), ToolStrategy(Elsewhere), "'Elsewhere'.*Declared: Contact, Refusal"),
        (ToolStrategy(Contact), Elsewhere, "'Elsewhere'.*Declared: Contact"),
        (ToolStrategy(Contact), ToolStrategy(type("Contact", (Contact,), {})), "'Contact'.*Declared: Contact"),
        (ProviderStrategy(Contact), ToolStrategy(Contact), "'Contact'.*Declared: none"),
    ],
)
def test_a_schema_that_was_not_declared_is_refused_with_those_that_were(declared: Any, asked: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        resolved(plan_of(declared), asked)
    assert isinstance(caught.value, ValueError)


def test_the_provider_can_be_asked_for_a_schema_that_was_not_declared() -> None:
    found = resolved(plan_of(ToolStrategy(Contact)), Elsewhere, model="gpt-4o")
    assert found.bind().settings["response_format"]["json_schema"]["name"] == "Elsewhere"


def test_an_unchanged_strategy_is_not_analysed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan_of(form) for form in (Contact, CITY, ToolStrategy(Contact), ProviderStrategy(Contact))]
    for plan in plans:
        resolved(plan, model="gpt-4o")
    monkeypatch.setattr("agentgraph.structured_output.strategies.specs_of", None)
    for plan in plans:
        resolved(plan, model="unknown").bind()
        resolved(plan, model="gpt-4o").bind()


def test_a_raw_class_in_every_request_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(ToolStrategy(Contact))
    resolved(plan, Contact)
    monkeypatch.setattr("agentgraph.structured_output.strategies.specs_of", None)
    assert [tool.name for tool in resolved(plan, Contact).bind().tools] == ["Contact"]


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (original.ToolStrategy(Contact, handle_errors="Again."), ToolStrategy(Contact, handle_errors="Again.")),
        (original.ProviderStrategy(Contact, strict=True), ProviderStrategy(Contact, strict=True)),
        (original.AutoStrategy(Contact), AutoStrategy(Contact)),
    ],
)
def test_a_strategy_of_the_original_library_is_taken_over(foreign: Any, expected: Any) -> None:
    assert plan_of(foreign).initial == expected


def test_the_response_format_is_a_union_that_takes_the_schemas_type() -> None:
    alias: Any = ResponseFormat
    assert alias[Contact] == ToolStrategy[Contact] | ProviderStrategy[Contact] | AutoStrategy[Contact]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4o", True),
        ("GPT-4o-mini", True),
        ("openai/gpt-4o-mini", True),
        ("openai:gpt-4.1-nano", True),
        ("ft:gpt-4o-2024-08-06:org::id", True),
        ("gpt-5", True),
        ("gpt-5.2-codex", True),
        ("o3-mini", True),
        ("claude-sonnet-4-5-20250929", True),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", True),
        ("x-ai/grok-4", True),
        ("my-gpt-4over", False),
        ("gpt-4over", False),
        ("not-gpt-4o", False),
        ("gpt-4", False),
        ("gpt-4-1106-preview", False),
        ("gpt-4o-2024-05-13", False),
        ("gpt-4o-audio-preview", False),
        ("gpt-5.2-pro", False),
        ("gpt-50", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-50", False),
        ("gro3-mini", False),
        ("llama3.2", False),
        ("", False),
    ],
)
def test_a_name_is_known_part_by_part(name: str, expected: bool) -> None:
    assert supports_native(name) is expected
    assert supports_native(Model(model=name)) is expected


@pytest.mark.parametrize(
    ("model", "tools_bound", "expected"),
    [
        (Model(profile={"structured_output": True}), True, True),
        (Model(model_name="gpt-4o", profile={"structured_output": False}), False, False),
        (Model(model_name="gpt-4o", profile={"max_input_tokens": 5}), False, True),
        (Model(model_name="gpt-4o", profile={}), False, True),
        (Model(model_id="gpt-4o"), False, True),
        (Model(model_name="", model=5, model_id="gpt-4o"), False, True),
        (Model(model_name="gpt-4o", profile=lambda: None), False, True),
        (Model(model="gemini-2.5-pro", profile={"structured_output": True}), False, True),
        (Model(model="gemini-2.5-pro", profile={"structured_output": True}), True, False),
        (Model(model="models/gemini-pro", profile={"structured_output": True}), True, False),
        (Model(model="gemini-3-pro", profile={"structured_output": True}), True, True),
        (object(), False, False),
        (None, True, False),
    ],
)
def test_the_profile_decides_where_it_is_known(model: Any, tools_bound: bool, expected: bool) -> None:
    assert supports_native(model, tools_bound=tools_bound) is expected


@pytest.mark.parametrize("name", [found.name for found in pkgutil.iter_modules(package.__path__)])
def test_the_examples_of_the_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"{package.__name__}.{name}")).failed == 0
