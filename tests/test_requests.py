"""Requests and responses as values."""

import copy
import warnings

import pytest
from langchain.agents.middleware import ExtendedModelResponse as LangChainExtended
from langchain.agents.middleware import ModelResponse as LangChainResponse
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.types import Command

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.requests import (
    CallRecord,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    lift_response,
    record_in,
    record_of,
)
from agentgraph.testing import ScriptedModel

MODEL = ScriptedModel("x")
MESSAGES = [HumanMessage("hi")]


def parts_of(request):
    return {name: getattr(request, name) for name in ModelRequest.__dataclass_fields__}


def test_a_request_of_the_least_has_the_documented_defaults():
    request = ModelRequest(model=MODEL, messages=MESSAGES)
    assert parts_of(request) == {
        "model": MODEL,
        "messages": MESSAGES,
        "system_message": None,
        "tool_choice": None,
        "tools": [],
        "response_format": None,
        "state": {"messages": []},
        "runtime": None,
        "model_settings": {},
    }
    assert request.system_prompt is None


def test_system_prompt_is_the_text_of_the_system_message():
    request = ModelRequest(model=MODEL, messages=MESSAGES, system_prompt="Be brief.")
    assert (request.system_prompt, request.system_message) == ("Be brief.", SystemMessage("Be brief."))


def test_system_prompt_and_system_message_together_are_an_error():
    both = {"system_prompt": "a", "system_message": SystemMessage("b")}
    request = ModelRequest(model=MODEL, messages=MESSAGES)
    for build in (lambda: ModelRequest(model=MODEL, messages=MESSAGES, **both), lambda: request.override(**both)):
        with pytest.raises(ValueError, match="Both system_prompt and system_message"):
            build()


def test_override_gives_a_new_request_whose_other_parts_are_the_same_objects():
    request = ModelRequest(model=MODEL, messages=MESSAGES, tools=[{"type": "x"}], model_settings={"a": 1}, state={})
    changed = request.override(tool_choice="any")
    assert changed is not request
    assert (request.tool_choice, changed.tool_choice) == (None, "any")
    for name in parts_of(request):
        if name != "tool_choice":
            assert getattr(changed, name) is getattr(request, name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system_prompt": "new"}, SystemMessage("new")),
        ({"system_prompt": None}, None),
        ({"system_message": SystemMessage("new")}, SystemMessage("new")),
        ({"system_prompt": "new", "system_message": None}, SystemMessage("new")),
        ({}, SystemMessage("old")),
    ],
)
def test_override_takes_the_system_message_in_both_forms(changes, message):
    request = ModelRequest(model=MODEL, messages=MESSAGES, system_prompt="old")
    assert request.override(**changes).system_message == message


def test_override_of_an_unknown_part_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigurationTypeError, match=r"no part 'mesages' \(did you mean 'messages'\?\)"):
        ModelRequest(model=MODEL, messages=MESSAGES).override(mesages=[])
    with pytest.raises(TypeError, match=r"no part 'zzz'; its parts are messages, model, .*tools"):
        ModelRequest(model=MODEL, messages=MESSAGES).override(zzz=1)


def test_assigning_works_with_a_deprecation_warning():
    request = ModelRequest(model=MODEL, messages=MESSAGES)
    with pytest.warns(DeprecationWarning, match=r"request\.override\(tool_choice=\.\.\.\)"):
        request.tool_choice = "any"
    with pytest.warns(DeprecationWarning, match="ModelRequest.system_prompt"):
        request.system_prompt = "new"
    assert (request.tool_choice, request.system_message) == ("any", SystemMessage("new"))


def test_building_and_copying_a_request_and_its_dunder_names_never_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        request = ModelRequest(model=MODEL, messages=MESSAGES, system_prompt="a")
        request.__orig_class__ = "set by typing"
        copied = copy.copy(request.override(tool_choice="any"))
    assert (copied.tool_choice, request.__orig_class__) == ("any", "set by typing")


RESPONSE = ModelResponse(result=[AIMessage("a")], structured_response=1)
COMMAND = Command(update={"x": 1})


@pytest.mark.parametrize(
    ("result", "lifted"),
    [
        (RESPONSE, (RESPONSE, None)),
        (AIMessage("a"), (ModelResponse([AIMessage("a")]), None)),
        (ExtendedModelResponse(RESPONSE, COMMAND), (RESPONSE, COMMAND)),
        (ExtendedModelResponse(RESPONSE), (RESPONSE, None)),
        (ExtendedModelResponse(AIMessage("a"), COMMAND), (ModelResponse([AIMessage("a")]), COMMAND)),
        (LangChainResponse(result=[AIMessage("a")], structured_response=1), (RESPONSE, None)),
        (
            LangChainExtended(LangChainResponse(result=[AIMessage("a")]), COMMAND),
            (ModelResponse([AIMessage("a")]), COMMAND),
        ),
    ],
)
def test_every_form_of_a_result_becomes_a_response_and_a_command(result, lifted):
    assert lift_response(result) == lifted


@pytest.mark.parametrize("result", [None, "text", 3, HumanMessage("x"), {"messages": []}])
def test_what_is_no_result_is_refused_with_its_type(result):
    with pytest.raises(ConfigurationTypeError, match=f"returned {type(result).__name__}; expected was a ModelResponse"):
        lift_response(result)


@pytest.mark.parametrize("messages", ["text", AIMessage("a"), [{"role": "ai"}], None])
def test_a_response_without_a_list_of_messages_is_refused(messages):
    for made in (ModelResponse(messages), LangChainResponse(messages), ExtendedModelResponse(ModelResponse(messages))):
        with pytest.raises(ConfigurationTypeError, match="expected was a list of messages"):
            lift_response(made)


@pytest.mark.parametrize(
    "command",
    [Command(goto="x"), Command(resume=1), Command(graph=Command.PARENT), Command(update=[("jump_to", "end")])],
)
def test_a_command_that_is_more_than_an_update_is_refused(command):
    with pytest.raises(NotImplementedError, match="jump_to"):
        lift_response(ExtendedModelResponse(RESPONSE, command))


def test_the_record_of_a_call_goes_along_with_every_request_made_from_it():
    request, record = ModelRequest(model=MODEL, messages=MESSAGES), CallRecord(checked=MESSAGES)
    assert record_of(record_in(request, record).override(tool_choice="any").override(tools=[])) is record
    assert record_of(ModelRequest(model=MODEL, messages=[])) == CallRecord()


@pytest.mark.parametrize(
    "change", [lambda m: m.append(HumanMessage("more")), lambda m: m.__setitem__(0, HumanMessage("hi")), list.clear]
)
def test_a_record_vouches_no_more_for_messages_that_were_changed_in_place(change):
    messages = [HumanMessage("hi")]
    request = record_in(ModelRequest(model=MODEL, messages=messages), CallRecord(checked=messages))
    assert record_of(request).checked is messages
    change(messages)
    assert record_of(request).checked is None


def test_errors_of_requests_are_configuration_errors():
    with pytest.raises(ConfigurationError):
        ModelRequest(model=MODEL, messages=[], system_prompt="a", system_message=SystemMessage("b"))
