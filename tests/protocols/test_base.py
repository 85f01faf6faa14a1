"""What every text protocol shares: tools, choices, histories, and finding a protocol by its name."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import tool
from pydantic import BaseModel

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.protocols import (
    JSONProtocol,
    StreamParser,
    TextProtocol,
    ToolOffer,
    ToolSpec,
    WrittenCall,
    resolve_protocol,
)

OBJECT = {"type": "object", "properties": {}}
A, B = ToolSpec("a", "", OBJECT), ToolSpec("b", "", OBJECT)


class Plain(TextProtocol):
    name = "plain"

    def render(self, offer: ToolOffer) -> str:
        return "..."

    def parser(self, offer: ToolOffer) -> StreamParser:
        raise NotImplementedError

    def call_text(self, calls: Sequence[WrittenCall], text: str) -> str:
        return " ".join([text, *(f"{call.name}={call.args}" for call in calls)]).strip()


def weather(city: str) -> str:
    """Tell the weather."""
    return city


class Weather(BaseModel):
    """Tell the weather."""

    city: str


PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Tell the weather.", "parameters": PARAMETERS}
FORMS = [tool(weather), weather, Weather, FUNCTION, {"type": "function", "function": FUNCTION}]


@pytest.mark.parametrize("given", FORMS)
def test_a_tool_is_read_in_every_form(given: Any) -> None:
    spec = ToolSpec.of(given)

    assert (spec.name.lower(), spec.description) == ("weather", "Tell the weather.")
    assert list(spec.parameters["properties"]) == ["city"]


def test_a_tool_without_arguments_takes_an_empty_object() -> None:
    assert ToolSpec.of({"name": "now", "description": "The time."}) == ToolSpec("now", "The time.", OBJECT)


@pytest.mark.parametrize("given", [{"type": "web_search"}, {"type": "function", "function": {}}, {"x": "y" * 9999}])
def test_a_tool_that_cannot_be_written_down_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be offered through a text protocol") as caught:
        ToolSpec.of(given)

    assert len(str(caught.value)) < 600


CHOICES = {
    "None": (None, ToolOffer((A, B))),
    "auto": ("auto", ToolOffer((A, B))),
    "any": ("any", ToolOffer((A, B), required=True)),
    "required": ("required", ToolOffer((A, B), required=True)),
    "True": (True, ToolOffer((A, B), required=True)),
    "none": ("none", ToolOffer(())),
    "False": (False, ToolOffer(())),
    "a name": ("b", ToolOffer((B,), required=True)),
    "an Anthropic mode": ({"type": "any"}, ToolOffer((A, B), required=True)),
    "an OpenAI dict": ({"type": "function", "function": {"name": "b"}}, ToolOffer((B,), required=True)),
    "an Anthropic dict": ({"type": "tool", "name": "b"}, ToolOffer((B,), required=True)),
}


@pytest.mark.parametrize(("choice", "offer"), CHOICES.values(), ids=CHOICES)
def test_a_tool_choice_becomes_an_offer(choice: Any, offer: ToolOffer) -> None:
    assert ToolOffer.of([A, B], choice) == offer


@pytest.mark.parametrize("choice", ["c", {"type": "function"}, {"type": ["any"]}, {}, 7, 1, ["a"]])
def test_a_choice_that_names_no_tool_is_refused_with_the_names(choice: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{re.escape(repr(choice))} names no bound tool. Bound are: a, b"):
        ToolOffer.of([A, B], choice)


def test_nothing_is_required_where_there_are_no_tools() -> None:
    assert ToolOffer.of([], "any") == ToolOffer(())


def call(name: str, args: dict[str, Any], call_id: str) -> Any:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def test_calls_and_results_of_a_history_become_text_in_alternating_turns() -> None:
    history: list[BaseMessage] = [
        SystemMessage("Be brief."),
        HumanMessage("Go."),
        AIMessage("I look.", tool_calls=[call("a", {"x": 1}, "1"), call("b", {}, "2")], id="m1", name="bot"),
        ToolMessage("one", tool_call_id="1", name="a"),
        ToolMessage("two", tool_call_id="2", status="error"),
        AIMessage("Done."),
        HumanMessage("Again."),
        AIMessage("", invalid_tool_calls=[invalid_tool_call(name="a", args="{", id="3")]),
        ToolMessage("broken", tool_call_id="3", status="error"),
        HumanMessage("Stop."),
    ]

    assert Plain().rewrite(history, ToolOffer((A,))) == [
        SystemMessage("Be brief."),
        HumanMessage("Go."),
        AIMessage("I look. a={'x': 1} b={}", id="m1", name="bot"),
        HumanMessage("Result of a: one\nError of b: two"),
        AIMessage("Done."),
        HumanMessage("Again."),
        AIMessage("a={"),
        HumanMessage("Error of a: broken\n\nStop."),
    ]


def test_results_at_the_end_and_without_a_call_are_told_too() -> None:
    assert Plain().rewrite([ToolMessage("one", tool_call_id="9")], ToolOffer(())) == [
        HumanMessage("Result of unknown: one")
    ]


def test_pictures_in_results_stay_pictures() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    history: list[BaseMessage] = [
        AIMessage("", tool_calls=[call("a", {}, "1")]),
        ToolMessage(["see", {"type": "text", "text": " it"}, picture], tool_call_id="1"),
        HumanMessage("What is it?"),
    ]

    assert Plain().rewrite(history, ToolOffer((A,)))[1:] == [
        HumanMessage(
            [{"type": "text", "text": "Result of a: see it"}, picture, {"type": "text", "text": "What is it?"}]
        )
    ]


def test_a_message_of_parts_behind_results_keeps_its_parts() -> None:
    history: list[BaseMessage] = [ToolMessage("one", tool_call_id="1", name="a"), HumanMessage(["x", "y"], id="h")]

    assert Plain().rewrite(history, ToolOffer((A,))) == [
        HumanMessage([{"type": "text", "text": "Result of a: one"}, "x", "y"], id="h")
    ]


def test_a_history_is_not_changed_by_rewriting_it() -> None:
    message = AIMessage("", tool_calls=[call("a", {}, "1")])

    Plain().rewrite([message, ToolMessage("one", tool_call_id="1"), HumanMessage("x")], ToolOffer((A,)))

    assert message == AIMessage("", tool_calls=[call("a", {}, "1")])


def test_a_protocol_is_found_by_name_object_and_class() -> None:
    own = Plain()

    assert isinstance(resolve_protocol("json"), JSONProtocol)
    assert resolve_protocol(own) is own
    assert isinstance(resolve_protocol(Plain), Plain)
    assert repr(own) == "Plain()"


def test_defaults_of_a_protocol_constrain_nothing_and_leave_answers_alone() -> None:
    assert Plain().settings(ToolOffer((A,))) == {}
    assert Plain().answer_text("Hi.") == "Hi."


@pytest.mark.parametrize(("name", "hint"), [("Jason", " Did you mean 'json'?"), ("yaml", ""), ("", "")])
def test_an_unknown_name_is_answered_with_the_known_ones(name: str, hint: str) -> None:
    known = "json, react, react-original, structured_chat, tool_tags, xml"
    expected = f"tool_protocol={name!r} is not known.{hint} Known are: {known}."

    with pytest.raises(ConfigurationError, match=re.escape(expected)):
        resolve_protocol(name)


@pytest.mark.parametrize("wrong", [7, None, str, ["json"]])
def test_what_is_no_protocol_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match="Expected a name"):
        resolve_protocol(wrong)


def test_the_package_offers_what_it_lists_and_nothing_else() -> None:
    import agentgraph.protocols as package  # noqa: PLC0415 - the object under test

    assert dir(package) == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'ReAct'"):
        package.ReAct  # noqa: B018 - the access is the test
