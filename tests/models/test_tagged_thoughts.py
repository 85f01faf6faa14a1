"""Thoughts between tags in the text: the answer's reasoning, whole and streamed, wherever the text is cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgraph.errors import ConfigurationError, TruncatedStreamError
from agentgraph.models.tagged_thoughts import TaggedThoughts, ThoughtSplitter
from tests.models import ollama_asking, openai_asking
from tests.models.formats import DONE, FORMATS, Format
from tests.models.openai_asking import STREAMING_WAYS, WAYS, Asking
from tests.wire_server import Step, WireServer, streamed

TAGGED = [one for one in FORMATS if one.name in {"chat completions", "ollama"}]
BOTH = pytest.mark.parametrize("wire", TAGGED, ids=[one.name for one in TAGGED])
EACH_WAY = pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])


def played(wire: Format, way: Asking, pieces: list[str], *, end: bool = True, **fields: Any) -> list[Step]:
    """An answer in these pieces; whole where it is asked for whole."""
    whole = "stream" not in way.__name__
    pieces = ["".join(pieces)] if whole else pieces
    if wire.name == "ollama":
        events = [ollama_asking.event(piece) for piece in pieces]
        return ollama_asking.played(way, *events, *([ollama_asking.event(**ollama_asking.END)] if end else []))
    if whole:
        return openai_asking.document(pieces[0])
    ending = [openai_asking.event(finish_reason="stop"), DONE] if end else []
    return streamed(*[openai_asking.event(content=piece, **fields) for piece in pieces], *ending)


CASES: dict[str, tuple[TaggedThoughts | None, list[str], str, str]] = {
    "both tags": ("tags", ["<th", "ink>\nhm ", "so</thi", "nk>\n\n", "Hel", "lo"], "hm so", "Hello"),
    "only the end": ("opened", ["hm ", "so</thi", "nk>\n\n", "Hel", "lo"], "hm so", "Hello"),
    "both, though opened": ("opened", ["<think>hm so</think>Hello"], "hm so", "Hello"),
    "no thought": ("tags", ["Hel", "lo"], "", "Hello"),
    "a beginning that is none": ("tags", ["<th", "ree> is a tag"], "", "<three> is a tag"),
    "an end alone, with tags": ("tags", ["say </think>", " now"], "", "say </think> now"),
    "tags behind the beginning": ("tags", ["Hello <think>", "x</think>"], "", "Hello <think>x</think>"),
    "a second thought": ("opened", ["hm</think>a", "</think>b"], "hm", "a</think>b"),
    "half a tag at the end": ("tags", ["Hello <", "/thi"], "", "Hello </thi"),
    "nothing but a beginning": ("tags", ["<thi"], "", "<thi"),
    "not asked for": (None, ["<think>hm</think>", "Hello"], "", "<think>hm</think>Hello"),
}


@EACH_WAY
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@BOTH
def test_a_thought_between_tags_is_reasoning(server: WireServer, wire: Format, case: Any, way: Asking) -> None:
    where, pieces, thought, text = case
    server.play(played(wire, way, pieces))

    said = way(wire.build(server, thoughts_in_text=where), "Hi")

    assert (said.additional_kwargs.get("reasoning_content", ""), said.text) == (thought, text)


@pytest.mark.parametrize("version", [None, "v1"])
@EACH_WAY
@BOTH
def test_a_thought_between_tags_is_a_block(server: WireServer, wire: Format, way: Asking, version: str | None) -> None:
    server.play(played(wire, way, ["hm ", "so</think>Hel", "lo"]))

    said = way(wire.build(server, thoughts_in_text="opened", output_version=version), "Hi")

    blocks = [{key: value for key, value in one.items() if key != "index"} for one in said.content_blocks]
    assert blocks == [{"type": "reasoning", "reasoning": "hm so"}, {"type": "text", "text": "Hello"}]


@pytest.mark.parametrize("way", STREAMING_WAYS, ids=[way.__name__ for way in STREAMING_WAYS])
def test_a_server_that_parts_thoughts_itself_has_none_in_its_text(server: WireServer, way: Asking) -> None:
    chat = openai_asking.event
    server.play(streamed(chat(reasoning_content="hm"), chat(content="Hello"), chat(finish_reason="stop"), DONE))

    said = way(openai_asking.local(server, thoughts_in_text="opened"), "Hi")

    assert (said.additional_kwargs["reasoning_content"], said.text) == ("hm", "Hello")


@pytest.mark.parametrize("way", STREAMING_WAYS, ids=[way.__name__ for way in STREAMING_WAYS])
@BOTH
def test_what_came_of_a_cut_answer_is_parted_too(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(played(wire, way, ["hm ", "so</think>Hel"], end=False))

    with pytest.raises(TruncatedStreamError) as caught:
        way(wire.build(server, thoughts_in_text="opened"), "Hi")

    partial = caught.value.partial
    assert (partial.additional_kwargs["reasoning_content"], partial.text) == ("hm so", "Hel")


@pytest.mark.parametrize("way", STREAMING_WAYS, ids=[way.__name__ for way in STREAMING_WAYS])
@BOTH
def test_an_opened_thought_that_never_ends_is_all_thought(server: WireServer, wire: Format, way: Asking) -> None:
    server.play(played(wire, way, ["hm ", "so</thi"]))

    said = way(wire.build(server, thoughts_in_text="opened"), "Hi")

    assert (said.additional_kwargs["reasoning_content"], said.text) == ("hm so</thi", "")


@BOTH
def test_any_other_setting_is_refused(server: WireServer, wire: Format) -> None:
    with pytest.raises(ConfigurationError, match="thoughts_in_text"):
        wire.build(server, thoughts_in_text="sometimes")


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "/thi", "nk>", "a", "\n", " "])), st.data())
def test_where_a_text_is_cut_changes_nothing(parts: list[str], data: Any) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    where: TaggedThoughts = data.draw(st.sampled_from(["tags", "opened"]))

    def read(pieces: list[str]) -> tuple[str, str]:
        splitter = ThoughtSplitter(where)
        found = [*(splitter.feed(piece) for piece in pieces), splitter.rest()]
        return "".join(one for one, _ in found), "".join(one for _, one in found)

    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(pieces) == read([text])
