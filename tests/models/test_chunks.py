"""Chunks that are made without validation are those that langchain-core's constructors make; so are whole streams."""

import copy
import itertools
import json
import pickle
import uuid
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from agentgraph.errors import AgentGraphError
from agentgraph.models import chunks, openai_codec
from agentgraph.models.chunks import generation_of, words_chunk
from agentgraph.models.failures import Origin
from agentgraph.models.openai_codec import Asked, StreamReader
from agentgraph.models.openai_words import only_words
from agentgraph.models.sse import ServerSentEvent

KEYS = st.text("abc", min_size=1, max_size=3)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
DICTS = st.dictionaries(KEYS, VALUES | st.lists(VALUES, max_size=2), max_size=3)
BLOCKS = st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking"]), "text": st.text(max_size=3)})
CONTENTS = st.text(max_size=5) | st.lists(BLOCKS, max_size=2)
FIELDS = st.fixed_dictionaries({}, optional={"additional_kwargs": DICTS, "response_metadata": DICTS})


def inside(made: Any) -> dict[str, Any]:
    """All there is in a pydantic object, types of its values included."""
    state = made.__getstate__()
    types = {name: type(value) for name, value in state["__dict__"].items()}
    return {**state, "types": types, "order": list(state["__dict__"]), "class": type(made), "repr": repr(made)}


@given(CONTENTS, FIELDS)
def test_a_chunk_of_words_is_in_every_field_what_the_constructor_makes(content: Any, fields: Any) -> None:
    made, expected = words_chunk(content, **copy.deepcopy(fields)), AIMessageChunk(content=content, **fields)
    assert inside(made) == inside(expected)
    assert made.model_dump(exclude_unset=True) == expected.model_dump(exclude_unset=True)
    assert inside(pickle.loads(pickle.dumps(made))) == inside(expected)  # noqa: S301 (our own)
    assert inside(made + AIMessageChunk(content="!")) == inside(expected + AIMessageChunk(content="!"))


@given(CONTENTS)
def test_a_generation_is_in_every_field_what_the_constructor_makes(content: Any) -> None:
    message = AIMessageChunk(content=content)
    made, expected = generation_of(message), ChatGenerationChunk(message=message)
    assert inside(made) == inside(expected)
    assert made.message is message
    assert inside(made + made) == inside(expected + expected)


def test_what_is_written_into_one_chunk_is_in_no_other() -> None:
    one, other = words_chunk("a"), words_chunk("b")
    for name in ("additional_kwargs", "response_metadata"):
        getattr(one, name)["mark"] = 1
    for name in ("tool_calls", "invalid_tool_calls", "tool_call_chunks"):
        getattr(one, name).append("mark")
    one.model_fields_set.add("mark")
    one.extra = 1
    assert inside(other) == inside(AIMessageChunk(content="b"))
    assert inside(words_chunk("c")) == inside(AIMessageChunk(content="c"))


def test_a_field_that_is_not_known_leaves_the_making_to_the_constructors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_KNOWN", False)
    made = words_chunk("a", additional_kwargs={"b": 1})
    assert inside(made) == inside(AIMessageChunk(content="a", additional_kwargs={"b": 1}))
    assert inside(generation_of(made)) == inside(ChatGenerationChunk(message=made))


def test_the_installed_langchain_core_has_no_field_that_is_not_known() -> None:
    assert chunks._KNOWN


NOTHING: Any = st.sampled_from([None, "", [], {}, 0, False])
SOMETHING: Any = st.sampled_from(["stop", "error", 1, True, {"a": 1}, {"content": [{"token": "a"}]}, ["a"], "😀"])
ODD = NOTHING | SOMETHING
DELTAS = st.fixed_dictionaries(
    {"content": st.sampled_from([" a", "b", "", "é", "\ud83d", "\ude00"]) | ODD},
    optional={
        "role": ODD,
        "refusal": ODD,
        "reasoning": ODD,
        "reasoning_content": ODD,
        "tool_calls": ODD | st.just([{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]),
        "function_call": ODD,
        "annotations": ODD,
        "audio": ODD,
    },
)
CHOICES = st.fixed_dictionaries(
    {"delta": DELTAS | ODD},
    optional={"index": ODD, "finish_reason": ODD, "logprobs": ODD, "error": ODD, "message": ODD},
)
BODIES = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2) | ODD},
    optional={
        "id": ODD,
        "model": ODD,
        "usage": ODD | st.just({"prompt_tokens": 1, "completion_tokens": 2}),
        "error": ODD,
        "type": ODD,
        "object": ODD,
        "detail": ODD,
        "system_fingerprint": ODD,
    },
)
EVENTS = st.tuples(st.sampled_from(["message", "message", "json", "error", "other"]), BODIES)
PLAIN = {"choices": [{"index": 0, "delta": {"content": " a"}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def heard(events: Any) -> list[Any]:
    """What a reader makes of events, down to what is inside of its chunks, or how it fails; ids are counted."""
    counted = map(uuid.UUID, map("{:032x}".format, itertools.count()))
    with mock.patch("agentgraph.models.openai_tool_calls.uuid4", side_effect=counted):
        return read(events)


def read(events: Any) -> list[Any]:
    reader = StreamReader(Asked(Origin("openai", "http://here"), "m"))
    said: list[Any] = []
    try:
        for kind, body in events:
            # The standard library's writer, for lone halves of characters are written as some servers write them.
            data = body if isinstance(body, str) else json.dumps(body)
            said.append([inside(chunk) for chunk in reader.feed(ServerSentEvent(kind, data))])
        said.append([inside(chunk) for chunk in reader.finish()])
    except AgentGraphError as error:
        said.append((type(error), str(error)))
    return said


@given(st.lists(EVENTS, max_size=4), st.booleans())
@example([("message", PLAIN)], False)
@example([("message", {"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]})], True)
def test_an_event_of_words_alone_is_read_as_it_is_by_the_long_way(events: Any, done: bool) -> None:
    given_ = [("message", PLAIN), *events, ("message", PLAIN if done else END)]
    given_ += [("message", "[DONE]")] if done else []
    short = heard(given_)
    with mock.patch.object(openai_codec, "only_words", return_value=None):
        assert heard(given_) == short


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (PLAIN, " a"),
        ({"choices": [{"delta": {"content": "", "role": "assistant", "refusal": None, "tool_calls": []}}]}, ""),
        ({**PLAIN, "usage": {"prompt_tokens": 1}}, " a"),
        (END, None),
        ({**PLAIN, "error": "no"}, None),
        ({**PLAIN, "object": "error"}, None),
        ({"choices": []}, None),
        ({"choices": PLAIN["choices"] * 2}, None),
        ({"choices": [{"index": 1, "delta": {"content": "a"}}]}, None),
        ({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]}, None),
        ({"choices": [{"delta": {"content": "a", "function_call": {}}}]}, None),
        ({"choices": [{"delta": {"content": ["a"]}}]}, None),
        ({}, None),
    ],
)
def test_words_alone_are_told_apart_from_all_else(body: dict[str, Any], words: str | None) -> None:
    assert only_words(body) == words
