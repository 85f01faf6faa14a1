"""The protocols with a real model of 135 million parameters."""

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import message_chunk_to_message

from agentgraph.protocols import ProtocolChatModel, TextProtocol
from agentgraph.protocols.react import ReActProtocol
from agentgraph.protocols.tool_tags import ToolTagsProtocol
from agentgraph.protocols.xml import XMLProtocol

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def tool(name: str, description: str, **kinds: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties, "required": list(kinds)}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS = [
    tool("get_weather", "Get the current weather in a city.", city="string"),
    tool("add", "Add two integers.", a="integer", b="integer"),
    tool("search", "Search the web for a query.", query="string"),
]

PROMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "What is the weather in Paris?": ("get_weather", {"city": "paris"}),
    "How is the weather in Tokyo today?": ("get_weather", {"city": "tokyo"}),
    "Is it raining in London?": ("get_weather", {"city": "london"}),
    "Tell me the weather for Berlin.": ("get_weather", {"city": "berlin"}),
    "Add 12 and 30.": ("add", {"a": 12, "b": 30}),
    "What is 7 plus 8?": ("add", {"a": 7, "b": 8}),
    "Please sum 100 and 250.": ("add", {"a": 100, "b": 250}),
    "Search the web for python tutorials.": ("search", {"query": "python tutorials"}),
    "Look up the history of jazz.": ("search", {"query": "history of jazz"}),
    "Find articles about solar panels.": ("search", {"query": "solar panels"}),
}

TASKS: dict[str, tuple[str, str]] = {
    "What is the weather in Paris?": ("12 C, rain", "rain"),
    "What is the weather in Oslo?": ("-3 C, snow", "snow"),
    "What is 7 plus 8?": ("15", "15"),
    "Please sum 100 and 250.": ("350", "350"),
    "Look up the history of jazz.": ("Jazz began in New Orleans around 1900.", "New Orleans"),
}


@pytest.fixture(scope="module")
def model(local_model: BaseChatModel) -> Any:
    return ProtocolChatModel(model=local_model, protocol="json").bind_tools(TOOLS, max_tokens=64)


def plain(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments without what does not matter: case, an article, a full stop."""
    return {
        key: value.lower().strip(" .").removeprefix("the ") if isinstance(value, str) else value
        for key, value in args.items()
    }


def test_at_least_nine_of_ten_requests_become_the_right_call(model: Any) -> None:
    right = 0
    for prompt, expected in PROMPTS.items():
        answer = model.invoke(prompt)
        assert answer.invalid_tool_calls == []
        right += [(call["name"], plain(call["args"])) for call in answer.tool_calls] == [expected]

    assert right >= 9


def test_a_task_takes_one_call_and_an_answer_that_holds_the_result(model: Any) -> None:
    done = 0
    for task, (result, expected) in TASKS.items():
        history: list[BaseMessage] = [HumanMessage(task)]
        for _ in range(4):
            answer = model.invoke(history)
            history.append(answer)
            if not answer.tool_calls:
                break
            history += [ToolMessage(result, tool_call_id=call["id"]) for call in answer.tool_calls]
        called = [message for message in history if isinstance(message, ToolMessage)]
        done += len(called) == 1 and expected in history[-1].text

    assert done >= 4


@pytest.mark.parametrize("prompt", ["What is the weather in Paris?", "Thank you, goodbye."])
def test_the_streamed_answer_is_the_whole_one(model: Any, prompt: str) -> None:
    whole = model.invoke(prompt)
    chunks = list(model.stream(prompt))
    streamed: Any = message_chunk_to_message(chunks[0] + chunks[1:])

    assert streamed.content == whole.content
    assert [(c["name"], c["args"]) for c in streamed.tool_calls] == [(c["name"], c["args"]) for c in whole.tool_calls]
    assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"] > 0


def test_a_required_call_comes(local_model: BaseChatModel) -> None:
    chosen = ProtocolChatModel(model=local_model, protocol="json").bind_tools(TOOLS, tool_choice="add", max_tokens=64)

    answer = chosen.invoke("Good morning! I have 4 apples and 3 pears.")

    assert [call["name"] for call in answer.tool_calls] == ["add"]


# Protocol -> how many of the ten requests have to become readable calls, and how many the right ones.
MARKED: dict[type[TextProtocol], tuple[int, int]] = {
    XMLProtocol: (10, 8),
    ReActProtocol: (10, 6),
    ToolTagsProtocol: (8, 5),
}


def speaking(local_model: BaseChatModel, protocol: type[TextProtocol]) -> Any:
    return ProtocolChatModel(model=local_model, protocol=protocol).bind_tools(TOOLS, max_tokens=64)


@pytest.mark.parametrize("protocol", MARKED, ids=lambda protocol: protocol.name)
def test_requests_become_calls_under_a_grammar(local_model: BaseChatModel, protocol: type[TextProtocol]) -> None:
    model = speaking(local_model, protocol)
    readable = right = 0
    for prompt, expected in PROMPTS.items():
        answer = model.invoke(prompt)
        calls = [(call["name"], plain(call["args"])) for call in answer.tool_calls]
        readable += bool(calls) and not answer.invalid_tool_calls
        right += calls == [expected]

    assert (readable, right) >= MARKED[protocol]
    assert right >= MARKED[protocol][1]


@pytest.mark.parametrize("protocol", MARKED, ids=lambda protocol: protocol.name)
def test_a_task_ends_within_four_turns(local_model: BaseChatModel, protocol: type[TextProtocol]) -> None:
    model = speaking(local_model, protocol)
    history: list[BaseMessage] = [HumanMessage("What is the weather in Paris?")]
    for _ in range(4):
        answer = model.invoke(history)
        history.append(answer)
        if not answer.tool_calls:
            break
        history += [ToolMessage("12 C, rain", tool_call_id=call["id"]) for call in answer.tool_calls]

    assert [type(message) for message in history].count(ToolMessage) >= 1
    assert not answer.tool_calls
    assert "12" in history[-1].text


@pytest.mark.parametrize("protocol", MARKED, ids=lambda protocol: protocol.name)
def test_a_streamed_call_is_the_whole_one(local_model: BaseChatModel, protocol: type[TextProtocol]) -> None:
    model = speaking(local_model, protocol)
    whole = model.invoke("What is 7 plus 8?")
    chunks = list(model.stream("What is 7 plus 8?"))
    streamed: Any = message_chunk_to_message(chunks[0] + chunks[1:])

    assert streamed.content == whole.content
    assert [(c["name"], c["args"]) for c in streamed.tool_calls] == [(c["name"], c["args"]) for c in whole.tool_calls]
