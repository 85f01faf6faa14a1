"""Requests of the Responses API as the provider's own types judge them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from agentgraph.models.responses_codec import read_answer
from agentgraph.models.responses_request import request_body, responses_dialect
from tests.models.openai_responses_asking import ASKED, call, message, response, thought

OPENAI = "https://api.openai.com/v1"
SERVED = "http://localhost:8000/v1"
JUDGE = TypeAdapter(ResponseCreateParamsNonStreaming)


def walked(value: Any) -> Any:
    """Read a judged value to its end: what its types call iterable is judged only when it is read."""
    if isinstance(value, Mapping):
        return {key: walked(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [walked(item) for item in value]
    return value


def judged(body: dict[str, Any]) -> dict[str, Any]:
    """The body, if the types of the provider's own package take it; they want an id that not every server does."""
    named = [{"id": "rs_x", **item} if item.get("type") == "reasoning" else item for item in body["input"]]
    walked(JUDGE.validate_python({**body, "input": named}))
    assert body.keys() <= get_type_hints(ResponseCreateParamsNonStreaming).keys()
    return body


def body_of(messages: Sequence[BaseMessage], base_url: str = OPENAI, **settings: Any) -> dict[str, Any]:
    given = {"model": "gpt-5", **settings}
    return judged(request_body(messages, given, responses_dialect("openai", base_url, given), extra={}))


def input_of(*messages: Any, **settings: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = body_of(list(messages), **settings)["input"]
    return sent


def answered(*output: Mapping[str, Any], **fields: Any) -> AIMessage:
    return read_answer(response(*output, **fields), ASKED)


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, **fields}


CALLING = [
    thought("hm", encrypted_content="e1"),
    message("Let me see.", phase="commentary"),
    call("get", '{"city": "Paris"}', "c1"),
    thought(id="rs_2", encrypted_content="e2"),
    call("get", '{"city": "Rome"}', "c2"),
]
RESULTS = [ToolMessage("x", tool_call_id="c1"), ToolMessage("y", tool_call_id="c2")]
