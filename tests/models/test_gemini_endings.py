"""How answers of Gemini end: which endings are answers, and the typed error of each other one."""

import json
from typing import Any

import pytest

from agentgraph.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    InvalidResponseError,
    ModelError,
    OverloadedError,
    RateLimitError,
    ServerError,
    TruncatedStreamError,
)
from agentgraph.models.gemini_codec import StreamReader, read_answer, read_events
from agentgraph.models.sse import ServerSentEvent
from tests.models.gemini_asking import USAGE, called, piece, text
from tests.models.gemini_reading import ASKED, both, stream, total

ENDINGS: dict[str, type[ModelError]] = {
    "FINISH_REASON_UNSPECIFIED": ServerError,
    "SAFETY": ContentFilterError,
    "RECITATION": ContentFilterError,
    "LANGUAGE": ContentFilterError,
    "OTHER": ServerError,
    "BLOCKLIST": ContentFilterError,
    "PROHIBITED_CONTENT": ContentFilterError,
    "SPII": ContentFilterError,
    "IMAGE_SAFETY": ContentFilterError,
    "IMAGE_PROHIBITED_CONTENT": ContentFilterError,
    "IMAGE_OTHER": ServerError,
    "NO_IMAGE": InvalidResponseError,
    "IMAGE_RECITATION": ContentFilterError,
    "TOO_MANY_TOOL_CALLS": InvalidResponseError,
    "MISSING_THOUGHT_SIGNATURE": BadRequestError,
    "MALFORMED_RESPONSE": InvalidResponseError,
    "ESCALATION": ContentFilterError,
    "PUP_LIMITED_DISABLED": AuthenticationError,
    "MODEL_ARMOR": ContentFilterError,
}
RETRYABLE = {
    "FINISH_REASON_UNSPECIFIED",
    "RECITATION",
    "OTHER",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
}


@pytest.mark.parametrize("reason", ENDINGS)
@pytest.mark.parametrize("parts", [(), (text("Hi"), called("get"))], ids=["without content", "with content"])
def test_a_bad_ending_is_a_typed_error_that_names_it(reason: str, parts: tuple[Any, ...]) -> None:
    body = piece(*parts, reason=reason, finishMessage="because")
    for read in (lambda: stream(body), lambda: read_answer(body, ASKED)):
        with pytest.raises(ENDINGS[reason], match=rf"{reason}.*because") as caught:
            read()
        assert type(caught.value) is ENDINGS[reason]
        assert (caught.value.code, caught.value.retryable) == (reason, reason in RETRYABLE)
        assert caught.value.request_id == "q"


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "CONTINUATION"])
def test_an_answer_at_its_limit_says_so(reason: str) -> None:
    message = both(piece(text("Hal"), reason=reason))
    assert (message.content, message.response_metadata["finish_reason"]) == ("Hal", reason)


def test_a_blocked_prompt_is_an_error() -> None:
    body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": USAGE}
    for read in (lambda: stream(body), lambda: read_answer(body, ASKED)):
        with pytest.raises(ContentFilterError, match="the prompt was blocked") as caught:
            read()
        assert caught.value.code == "PROHIBITED_CONTENT"


def test_an_empty_stop_is_an_empty_message_which_an_agent_asks_for_again() -> None:
    for empty in (
        piece(reason="STOP"),
        piece(text(""), reason="STOP"),
        piece(reason="STOP", content={"role": "model"}),
    ):
        assert both(empty).content == ""


def test_a_stream_without_its_finish_reason_is_truncated() -> None:
    with pytest.raises(TruncatedStreamError, match="finishReason") as caught:
        stream(piece(text("Hi")), piece(called("get", {"city": "Rome"})))
    assert caught.value.partial.content == "Hi"
    for nothing in ((), ({"usageMetadata": USAGE},), ({"candidates": []},)):
        with pytest.raises(TruncatedStreamError) as caught:
            stream(*nothing)
        assert caught.value.partial is None


def test_a_whole_answer_needs_no_finish_reason_but_a_content() -> None:
    assert read_answer(piece(text("Hi")), ASKED).response_metadata["finish_reason"] == "STOP"


@pytest.mark.parametrize(
    "body", [None, [], {}, 7, "x", {"candidates": []}, {"candidates": [{}]}, {"choices": [{}]}, [3]]
)
def test_what_is_no_answer_is_an_error(body: Any) -> None:
    with pytest.raises(InvalidResponseError, match="base_url"):
        read_answer(body, ASKED)


FAILURES: dict[str, tuple[Any, type[ModelError]]] = {
    "an error object": ({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}, OverloadedError),
    "an error in a list": ([{"error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}}], RateLimitError),
    "an error text": ({"error": "out of order"}, ServerError),
    "no JSON": ("{oops", InvalidResponseError),
    "a number": ("7", InvalidResponseError),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_within_a_stream_is_raised_typed(case: str) -> None:
    with pytest.raises(FAILURES[case][1], match="google_genai"):
        stream(piece(text("Hi")), FAILURES[case][0])


def test_an_array_of_events_is_the_answer() -> None:
    events = [piece(text("Hel")), piece(text("lo"), reason="STOP")]
    reader = StreamReader(ASKED)
    chunks = reader.feed(ServerSentEvent("json", json.dumps(events))) + reader.finish()
    for message in (total(chunks), read_answer(events, ASKED), read_events([json.dumps(one) for one in events], ASKED)):
        assert message.content == "Hello"


def test_other_events_and_a_word_of_the_end_say_nothing() -> None:
    reader = StreamReader(ASKED)
    events = [
        ("status", "warming up"),
        ("message", json.dumps(piece(text("Hi"), reason="STOP"))),
        ("message", "[DONE]"),
    ]
    chunks = [chunk for kind, data in events for chunk in reader.feed(ServerSentEvent(kind, data))]
    assert total(chunks + reader.finish()).content == "Hi"
    assert reader.finish() == []
    with pytest.raises(ServerError, match="upstream is gone"):
        StreamReader(ASKED).feed(ServerSentEvent("error", "upstream is gone"))
