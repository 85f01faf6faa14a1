"""Events that differ in their words alone: read by their form they say what they say when they are read in full."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentgraph.models.failures import Origin
from agentgraph.models.openai_codec import Asked, StreamReader
from agentgraph.models.openai_words import RepeatedForm
from agentgraph.models.sse import ServerSentEvent

ASKED = Asked(Origin("openai", "https://api.openai.com/v1"), model="m")


def event(words: Any, *, ascii_only: bool = True, **more: Any) -> str:
    body = {"id": "1", "choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}], **more}
    return json.dumps(body, ensure_ascii=ascii_only)


def test_an_event_of_the_same_form_gives_its_words() -> None:
    form = RepeatedForm()
    form.learn(event("Hi"), "Hi")
    assert [form.words_of(event(words)) for words in ("", ' "you"\n', "ü\u2028", "Hi")] == [
        "",
        ' "you"\n',
        "ü\u2028",
        "Hi",
    ]


def test_an_event_of_another_form_gives_nothing() -> None:
    form = RepeatedForm()
    form.learn(event("Hi"), "Hi")
    others = [
        event("Hi", model="x"),
        event(3),
        event(None),
        event(["Hi"]),
        event("Hi")[:-1],
        "[DONE]",
        "",
        event("Hi") * 2,
    ]
    assert [form.words_of(other) for other in others] == [None] * len(others)


def test_a_string_elsewhere_that_reads_the_same_is_not_taken_for_the_words() -> None:
    form = RepeatedForm()
    for data in (event("Hi", model="Hi"), '{"model": "A", "choices": [{"delta": {"content": "\\u0041"}}]}'):
        form.learn(data, "Hi" if "Hi" in data else "A")
        assert form.words_of(data) is None


def test_what_hides_in_the_place_of_the_words_is_not_read() -> None:
    form = RepeatedForm()
    form.learn(event("Hi"), "Hi")
    head, _, tail = event("Hi").partition('"Hi"')
    for hidden in ('"a", "tool_calls": []', '"a" ', "{}", "1", '"a', "\udc00", '"\\ud800"', '"\n"'):
        assert form.words_of(f"{head}{hidden}{tail}") in {None, "a"}
    assert form.words_of(f'{head}"a", "refusal": "b"{tail}') is None


WORDS = st.text(max_size=5) | st.sampled_from(["Hi", '"', "\\", "[DONE]", "\u2028"])
EVENTS = st.lists(
    st.builds(event, WORDS, ascii_only=st.booleans())
    | st.builds(event, WORDS, model=st.sampled_from(["x", "Hi"]))
    | st.builds(lambda words: event(words).replace("content", "refusal"), WORDS)
    | st.just(json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})),
    max_size=12,
)


@given(EVENTS)
def test_a_stream_is_read_as_if_every_event_were_read_in_full(events: list[str]) -> None:
    quick, full = StreamReader(ASKED), StreamReader(ASKED)
    full._form.words_of = lambda _: None  # type: ignore[method-assign] # as if no event were ever like another
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    read = [[reader.feed(ServerSentEvent("message", data)) for data in (*events, end)] for reader in (quick, full)]
    assert read[0] == read[1]
    assert quick.finish() == full.finish()
