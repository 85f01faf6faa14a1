"""How a structured answer is asked for and read: tool calls, enforced JSON, error policies, what the model is told."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, Field, SecretStr, ValidationError, model_validator

from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError
from agentgraph.structured_output import (
    Binding,
    Format,
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    Reading,
    ResponsePlan,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
    prose_feedback,
    resolve,
)


class Contact(BaseModel):
    """A contact."""

    name: str
    age: int = Field(ge=0)


class Refusal(BaseModel):
    reason: str


ANN = {"name": "Ann", "age": 3}
WRONG = {"name": "Ann", "age": -4}


def call(tool: str, identity: str = "a", /, **args: Any) -> dict[str, Any]:
    return {"name": tool, "args": args, "id": identity, "type": "tool_call"}


def ai(*calls: dict[str, Any], text: Any = "", **fields: Any) -> AIMessage:
    return AIMessage(text, tool_calls=list(calls), **fields)


def format_of(response_format: Any, *, native: bool | None = None, request: Any = ...) -> Format:
    """The format of a call: of an agent with this response format, whose request may ask for another."""
    plan = ResponsePlan.of(response_format)
    assert plan is not None
    asked = plan.initial if request is ... else request
    return resolve(asked, model="unknown", tools_bound=False, declared=plan.declared, native=native)


def shown(reading: Reading) -> list[tuple[str, str | None, str]]:
    return [(message.tool_call_id, message.name, message.status) for message in reading.messages]


def test_a_tool_strategy_binds_a_tool_for_each_member_and_demands_a_call() -> None:
    binding = format_of(ToolStrategy(Contact | Refusal)).bind()
    assert [(tool.name, tool.description) for tool in binding.tools] == [
        ("Contact", "A contact."),
        ("Refusal", "Give the final answer as Refusal."),
    ]
    assert binding.tools[0].tool_call_schema == Contact.model_json_schema()
    assert (binding.tool_choice, binding.settings) == ("any", {})


def test_a_provider_strategy_binds_settings_and_no_tools() -> None:
    strategy = ProviderStrategy(Contact)
    assert format_of(strategy).bind() == Binding(settings=strategy.to_model_kwargs())


def test_no_response_format_binds_nothing() -> None:
    assert resolve(None, model="gpt-4o", tools_bound=True, declared={}).bind() == Binding()


def test_one_good_call_is_the_answer_and_is_confirmed_with_its_value() -> None:
    reading = format_of(ToolStrategy(Contact | Refusal)).read(ai(call("Contact", **ANN)))
    content = 'Accepted as the final answer: {"name":"Ann","age":3}'
    confirmed = ToolMessage(content, name="Contact", tool_call_id="a", status="success")
    assert reading == Reading([confirmed], structured_response=Contact(name="Ann", age=3))
    assert reading.ok


def test_the_confirmation_can_be_given() -> None:
    reading = format_of(ToolStrategy(Contact, tool_message_content="Thank you.")).read(ai(call("Contact", **ANN)))
    assert [message.content for message in reading.messages] == ["Thank you."]


@dataclass
class Loose:
    name: str
    secret: SecretStr


@pytest.mark.parametrize(
    ("schema", "args", "told"),
    [
        (Contact, {"name": "Größe 連", "age": 1}, '{"name":"Größe 連","age":1}'),
        (Contact, {"name": "\ud800", "age": 1}, r"Contact(name='\ud800', age=1)"),
        (Loose, {"name": "A", "secret": "hunter2"}, '{"name":"A","secret":"**********"}'),
        (Contact, {"name": "x" * 1_000_000, "age": 1}, '{"name":"xxx'),
    ],
)
def test_the_confirmation_is_bounded_readable_and_sendable(schema: Any, args: dict[str, Any], told: str) -> None:
    (message,) = format_of(ToolStrategy(schema)).read(ai(call(schema.__name__, **args))).messages
    text = str(message.content).removeprefix("Accepted as the final answer: ")
    assert text.startswith(told)
    assert len(text.encode()) <= 2000


def test_an_ordinary_call_beside_a_good_answer_is_left_alone() -> None:
    reading = format_of(ToolStrategy(Contact)).read(ai(call("weather", "w"), call("Contact", **ANN)))
    assert (shown(reading), reading.structured_response) == ([("a", "Contact", "success")], Contact(name="Ann", age=3))


def test_ordinary_calls_alone_are_no_answer_and_no_error() -> None:
    message = ai(call("weather", "w"))
    assert format_of(ToolStrategy(Contact)).read(message) == Reading()
    assert format_of(ProviderStrategy(Contact)).read(message) == Reading()
    assert resolve(None, model="", tools_bound=True, declared={}).read(message) == Reading()


def test_unreadable_calls_alone_are_left_to_the_loop() -> None:
    broken = {"name": "Contact", "args": "{", "id": "a", "error": None, "type": "invalid_tool_call"}
    message = AIMessage("", invalid_tool_calls=[broken])
    assert format_of(ToolStrategy(Contact)).read(message) == Reading()
    assert format_of(ProviderStrategy(Contact)).read(message) == Reading()


def test_an_answer_that_does_not_fit_is_told_field_by_field_with_what_to_do() -> None:
    reading = format_of(ToolStrategy(Contact)).read(ai(call("weather", "w"), call("Contact", **WRONG)))
    assert shown(reading) == [("a", "Contact", "error")]
    assert reading.messages[0].content == (
        "The answer does not fit the schema 'Contact':\n"
        "- age: Input should be greater than or equal to 0 (given: -4)\n"
        "Call 'Contact' again, with arguments that fit its schema."
    )
    assert isinstance(reading.error, StructuredOutputValidationError)
    assert (reading.ok, reading.structured_response, reading.instruction) == (False, None, None)


def test_two_answers_in_a_turn_are_each_refused() -> None:
    calls = (call("Contact", "a", **ANN), call("weather", "w"), call("Refusal", "b", reason="none"))
    reading = format_of(ToolStrategy(Contact | Refusal)).read(ai(*calls))
    assert shown(reading) == [("a", "Contact", "error"), ("b", "Refusal", "error")]
    told = "The model gave 2 structured answers in one turn: Contact, Refusal. Expected exactly one. "
    again = "Call one tool for the final answer again, exactly once."
    assert {message.content for message in reading.messages} == {told + again}
    assert isinstance(reading.error, MultipleStructuredOutputsError)
    assert reading.error.tool_names == ["Contact", "Refusal"]


def test_a_thousand_answers_in_a_turn_are_told_briefly() -> None:
    reading = format_of(ToolStrategy(Contact)).read(ai(*(call("Contact", f"c{i}", **ANN) for i in range(1000))))
    assert len(reading.messages) == 1000
    assert max(len(message.content) for message in reading.messages) < 600


BAD = ai(call("Contact", **WRONG))
TWICE = ai(call("Contact", "a", **ANN), call("Contact", "b", **ANN))
DEFAULT = "Call"


@pytest.mark.parametrize(
    ("policy", "message", "told"),
    [
        (True, BAD, DEFAULT),
        (True, TWICE, DEFAULT),
        ("Try again.", BAD, "Try again."),
        ("", BAD, DEFAULT),
        (StructuredOutputValidationError, BAD, DEFAULT),
        (StructuredOutputError, TWICE, DEFAULT),
        (ValidationError, BAD, DEFAULT),
        (ValueError, BAD, DEFAULT),
        ((KeyError, MultipleStructuredOutputsError), TWICE, DEFAULT),
        (lambda error: f"No: {type(error).__name__}", BAD, "No: StructuredOutputValidationError"),
        (lambda error: f"No: {type(error).__name__}", TWICE, "No: MultipleStructuredOutputsError"),
    ],
)
def test_handle_errors_says_what_the_model_is_told(policy: Any, message: AIMessage, told: str) -> None:
    reading = format_of(ToolStrategy(Contact, handle_errors=policy)).read(message)
    assert {answer.status for answer in reading.messages} == {"error"}
    assert all(told in str(answer.content) for answer in reading.messages)
    assert [answer.tool_call_id for answer in reading.messages] == [each["id"] for each in message.tool_calls]


@pytest.mark.parametrize(
    ("policy", "message", "error"),
    [
        (False, BAD, StructuredOutputValidationError),
        (False, TWICE, MultipleStructuredOutputsError),
        (MultipleStructuredOutputsError, BAD, StructuredOutputValidationError),
        ((), BAD, StructuredOutputValidationError),
        (ValueError, TWICE, MultipleStructuredOutputsError),
        ((KeyError, ValidationError), TWICE, MultipleStructuredOutputsError),
    ],
)
def test_handle_errors_says_what_is_raised(policy: Any, message: AIMessage, error: type[StructuredOutputError]) -> None:
    with pytest.raises(error) as caught:
        format_of(ToolStrategy(Contact, handle_errors=policy)).read(message)
    assert caught.value.ai_message is message


def test_a_callable_that_returns_no_text_is_named() -> None:
    reading = format_of(ToolStrategy(Contact, handle_errors=lambda _: None))  # type: ignore[arg-type, return-value]  # the mistake
    with pytest.raises(ConfigurationTypeError, match=r"returned None\. Expected the text"):
        reading.read(BAD)


@pytest.mark.parametrize("policy", [None, 5, object(), KeyboardInterrupt, dict, (ValueError, "text"), [ValueError]])
def test_a_handle_errors_that_cannot_work_is_refused_when_it_is_given(policy: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match=r"handle_errors is .* Expected True, False, a text"):
        ToolStrategy(Contact, handle_errors=policy)


def test_a_tool_message_content_that_is_no_text_is_refused_when_it_is_given() -> None:
    content: Any = 5
    with pytest.raises(ConfigurationTypeError, match=r"tool_message_content is 5\. Expected a text"):
        ToolStrategy(Contact, tool_message_content=content)


def test_an_interrupt_out_of_a_schema_is_no_bad_answer() -> None:
    class Asking(BaseModel):
        @model_validator(mode="before")
        @classmethod
        def _ask(cls, data: Any) -> Any:
            raise GraphInterrupt

    with pytest.raises(GraphInterrupt):
        format_of(ToolStrategy(Asking)).read(ai(call("Asking")))


def test_prose_in_place_of_the_call_is_asked_for_again() -> None:
    reading = format_of(ToolStrategy(Contact | Refusal)).read(ai(text="Ann is 3."))
    assert reading.messages == []
    assert reading.instruction == prose_feedback(["Contact", "Refusal"])
    assert reading.instruction == (
        "The final answer has to be a call of the tool 'Contact' or 'Refusal', not text. "
        "Call it now, exactly once, with your answer as its arguments."
    )
    assert str(reading.error) == (
        "The model gave no structured answer. Expected 'Contact' or 'Refusal'; it wrote: 'Ann is 3.'. "
        "Try a more capable model, a system prompt that asks for this answer, or another strategy: "
        "ProviderStrategy(...) where the server keeps answers to a schema, else ToolStrategy(...)."
    )


@pytest.mark.parametrize("strategy", [ToolStrategy(Contact), ProviderStrategy(Contact)])
@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (ai(text="", additional_kwargs={"refusal": "I cannot."}), "I cannot."),
        (ai(text=[{"type": "refusal", "refusal": "I will not."}]), "I will not."),
        (ai(text=[{"type": "refusal"}, "no"]), "no reason given"),
    ],
)
def test_a_refusal_is_not_asked_for_again(strategy: Any, message: AIMessage, refusal: str) -> None:
    reading = format_of(strategy).read(message)
    assert isinstance(reading.error, MissingStructuredOutputError)
    assert (reading.error.refusal, reading.instruction, reading.messages) == (refusal, None, [])
    assert f"it refused: {refusal!r}" in str(reading.error)


FENCED = '```json\n{"name": "Ann", "age": 3}\n```'
THOUGHT = '<think>{"name": "Bob"}</think>\n{"name": "Ann", "age": 3}'


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ann", "age": 3}',
        '\ufeff\n {"name": "Ann", "age": 3} \n',
        FENCED,
        FENCED.replace("json", ""),
        FENCED.replace("\n", " "),
        f"Here it is:\n{FENCED}\nAnything else?",
        THOUGHT,
        f"hm, {FENCED} is wrong</think>" + THOUGHT.partition("</think>")[2],
        f"hm</thinking>{FENCED}",
        '```\n{"age": 3, "name": "Ann"}\n```',
        [{"type": "thinking", "thinking": "{}"}, {"type": "text", "text": '{"name": "Ann",'}, ' "age": 3}'],
        [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": FENCED}],
    ],
)
def test_enforced_json_is_read_out_of_whatever_text_it_stands_in(text: Any) -> None:
    reading = format_of(ProviderStrategy(Contact)).read(ai(text=text))
    assert reading == Reading(structured_response=Contact(name="Ann", age=3))


def test_a_fence_inside_of_the_answer_is_part_of_it() -> None:
    text = '```json\n{"name": "```py```", "age": 3}\n```'
    assert format_of(ProviderStrategy(Contact)).read(ai(text=text)).structured_response.name == "```py```"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ann is 3.", "not JSON: Expecting value: line 1 column 1 (char 0) (given: Ann is 3.)"),
        ('{"name": "Ann", "age": -4}', "age: Input should be greater than or equal to 0 (given: -4)"),
        ('{"name": "Ann", "age": NaN}', "not JSON: NaN is not JSON"),
        ('{"name": "Ann", "a', "not JSON: Unterminated string"),
        ("[1]", "the answer: Input should be an object (given: [1])"),
        ("```json\n{```", "not JSON: Expecting property name"),
        ("[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("9" * 10_000, "not JSON: Exceeds the limit"),
        ("```" + "a" * 200_000, "not JSON: Expecting value"),
        ("<think>" + "a" * 200_000, "not JSON: Expecting value"),
        ("\ud800", "not JSON: Expecting value"),
    ],
)
def test_enforced_json_that_does_not_fit_is_asked_for_again(text: str, told: str) -> None:
    message = ai(text=text)
    reading = format_of(ProviderStrategy(Contact)).read(message)
    assert isinstance(reading.error, StructuredOutputValidationError)
    assert (reading.error.tool_name, reading.error.ai_message) == ("Contact", message)
    assert f"- {told}" in str(reading.instruction)
    assert str(reading.instruction).endswith(prose_feedback(["Contact"], native=True))
    assert len(str(reading.instruction).encode()) < 800


@pytest.mark.parametrize("text", ["", " \n", [{"type": "thinking", "thinking": "hm"}]])
def test_no_text_where_json_was_due_is_a_missing_answer(text: Any) -> None:
    reading = format_of(ProviderStrategy(Contact)).read(ai(text=text))
    assert isinstance(reading.error, MissingStructuredOutputError)
    assert reading.instruction == (
        "The final answer has to be one JSON object that fits the schema 'Contact', without text around it. "
        "Give it now."
    )


@pytest.mark.parametrize(
    ("asked", "native"),
    [(None, None), (ToolStrategy(Refusal), None), (ProviderStrategy(Contact), None), (Contact, True)],
)
def test_a_call_of_a_declared_tool_that_was_not_offered_is_answered(asked: Any, native: bool | None) -> None:
    reading = format_of(ToolStrategy(Contact | Refusal), request=asked, native=native).read(
        ai(call("Contact", **ANN), call("weather", "w"))
    )
    assert shown(reading) == [("a", "Contact", "error")]
    assert reading.messages[0].content == "The tool 'Contact' is not available in this turn."
    assert isinstance(reading.error, MissingStructuredOutputError)
    assert reading.structured_response is None


def test_a_call_that_was_not_offered_does_not_spoil_the_answer_beside_it() -> None:
    calls = (call("Refusal", "r", reason="no"), call("Contact", "a", **ANN))
    reading = format_of(ToolStrategy(Contact | Refusal), request=ToolStrategy(Contact)).read(ai(*calls))
    assert shown(reading) == [("r", "Refusal", "error"), ("a", "Contact", "success")]
    assert reading.structured_response == Contact(name="Ann", age=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultipleStructuredOutputsError(["A", "B"], BAD),
        lambda: StructuredOutputValidationError("A", ValueError("x" * 100_000), BAD),
        lambda: MissingStructuredOutputError(["A"], ai(text="y" * 100_000)),
        lambda: MissingStructuredOutputError([], BAD, refusal="z" * 100_000),
    ],
)
def test_errors_are_bounded_and_survive_a_process_border(make: Callable[[], StructuredOutputError]) -> None:
    error = make()
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled here
    assert isinstance(error, RunError)
    assert not isinstance(error, ConfigurationError)
    assert (type(again), str(again), again.ai_message) == (type(error), str(error), error.ai_message)
    assert len(str(error)) < 5000
