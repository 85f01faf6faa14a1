"""Large results: what the model is shown, that nothing is lost, who can read on, and what a bad store does."""

import logging
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import HumanInTheLoopMiddleware, LargeResultMiddleware
from agentgraph.testing import ScriptedModel, assert_valid_history, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import THREAD, WAYS

LONG = "".join(f"line {number:05}\n" for number in range(2_000))  # 22,000 characters, 11 a line


@tool
def log() -> str:
    """Read the log."""
    return LONG


def told(left, size, given, offset, tool_name="read_result"):
    return (
        f"\n[{left} of {size} characters are left out here. The whole result is kept. To read on, call {tool_name} "
        f'with id="{given}" and offset={offset}; with find="some text" it lists the places that hold a text.]'
    )


def reading(**arguments):
    return tool_call("read_result", arguments)


def id_in(text):
    return text.split('id="')[1].split('"')[0]


def results_of(state):
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture(params=["store", "folder"])
def kept(request, tmp_path):
    """Where results are kept: arguments of the middleware and of the agent."""
    if request.param == "store":
        return {}, {"store": InMemoryStore()}
    return {"folder": tmp_path / "results"}, {}


def agent_of(model, tools, kept, **options):
    middleware, agent = kept
    sizes = {"limit": 1_000, "head": 110, "read": 500, **options.pop("sizes", {})}
    return create_agent(model, tools, middleware=[LargeResultMiddleware(**sizes, **middleware)], **agent, **options)


@WAYS
def test_a_long_result_is_shown_by_its_beginning_and_read_on_to_its_end(run, kept):
    saver = InMemorySaver()
    sizes = {"read": 6_000}
    agent = agent_of(ScriptedModel(tool_call("log"), "One moment."), [log], kept, checkpointer=saver)
    state = run(agent, {"messages": "Look."}, THREAD)
    (shown,) = results_of(state)
    given = id_in(shown.text)
    assert shown.content == LONG[:110] + told(22_000 - 110, 22_000, given, 110)
    read, offset = LONG[:110], 110
    while offset < len(LONG):
        model = ScriptedModel(reading(id=given, offset=offset), "Next.")
        state = run(agent_of(model, [log], kept, checkpointer=saver, sizes=sizes), {"messages": "Go on."}, THREAD)
        answer = results_of(state)[-1].text
        part = answer.rsplit("\n[", 1)[0]
        assert len(part) <= 6_000
        read, offset = read + part, offset + len(part)
    assert read == LONG
    assert answer.endswith("\n[This is the end of the result.]")
    assert_valid_history(state["messages"])


@WAYS
def test_what_fits_is_left_alone(run, kept):
    agent = agent_of(ScriptedModel(tool_call("log"), "Fine."), [log], kept, sizes={"limit": 22_000})
    assert results_of(run(agent, {"messages": "Look."}))[0].content == LONG


@WAYS
def test_places_that_hold_a_text_are_listed(run, kept):
    def reply(messages, _):
        last = messages[-1]
        if isinstance(last, HumanMessage):
            return tool_call("log")
        if last.name == "log":
            return reading(id=id_in(last.text), find="LINE 01999")
        return AIMessage("Found.")

    agent = agent_of(ScriptedModel(reply, repeat_last=True), [log], kept)
    answer = results_of(run(agent, {"messages": "Look."}))[-1].text
    near = LONG[21_989 - 80 :].replace("\n", " ")
    assert answer == f"offset 21989: {near}"


@WAYS
def test_blocks_keep_their_shape_and_images_stay(run, kept):
    image = {"type": "image", "base64": "QUJD" * 1_000, "mime_type": "image/png"}

    @tool(response_format="content_and_artifact")
    def look() -> tuple:
        """Look."""
        texts = [{"type": "text", "text": "a" * 900}, image, {"type": "text", "text": "b" * 900}]
        return texts, {"rows": LONG}

    (shown,) = results_of(run(agent_of(ScriptedModel(tool_call("look"), "Ok."), [look], kept), {"messages": "Look."}))
    text = shown.content[0]["text"]
    assert shown.content == [{"type": "text", "text": "a" * 110 + told(1_692, 1_802, id_in(text), 110)}, image]
    assert shown.artifact == {"rows": LONG}


@WAYS
def test_results_inside_commands_and_error_results_are_cut_too(run, kept):
    @tool
    def order(tool_call_id: str = "") -> Command:
        """Order."""
        return Command(update={"messages": [ToolMessage("x" * 5_000, tool_call_id=tool_call_id)]})

    @tool
    def fail() -> ToolMessage:
        """Fail."""
        return ToolMessage("y" * 5_000, tool_call_id="c2", status="error")

    calls = [tool_call("order", id="c1", tool_call_id="c1"), tool_call("fail", id="c2")]
    agent = agent_of(ScriptedModel(calls, "Ok."), [order, fail], kept)
    first, second = results_of(run(agent, {"messages": "Go."}))
    assert first.content == "x" * 110 + told(4_890, 5_000, id_in(first.text), 110)
    assert second.content == "y" * 110 + told(4_890, 5_000, id_in(second.text), 110)
    assert (first.status, second.status) == ("success", "error")
    assert id_in(first.text) != id_in(second.text)


@WAYS
def test_another_thread_cannot_read_a_result(run, kept):
    saver = InMemorySaver()
    agent = agent_of(ScriptedModel(tool_call("log"), "Ok."), [log], kept, checkpointer=saver)
    given = id_in(results_of(run(agent, {"messages": "Look."}, THREAD))[0].text)
    model = ScriptedModel(reading(id=given), "Pity.")
    other = agent_of(model, [log], kept, checkpointer=saver)
    answer = results_of(run(other, {"messages": "Read."}, {"configurable": {"thread_id": "other"}}))[-1]
    expected = f"No result is kept under the id {given!r} in this conversation. Call the tool again."
    assert answer.text == f"Error from the tool 'read_result': {expected}"
    assert answer.status == "error"


@WAYS
@pytest.mark.parametrize("given", ["", "../../../etc/passwd", "r0", "/etc/passwd", "r" + "0" * 15 + "\0", "R" * 17])
def test_an_id_that_is_none_reads_nothing(run, kept, given):
    agent = agent_of(ScriptedModel(reading(id=given), "Pity."), [log], kept)
    (answer,) = results_of(run(agent, {"messages": "Read."}))
    assert answer.text == (
        f"Error from the tool 'read_result': {given!r} is no id of a kept result. "
        "An id stands at the end of a result that was cut."
    )


@WAYS
@pytest.mark.parametrize("offset", [-1, 22_000, 10**12])
def test_an_offset_outside_is_told(run, kept, offset):
    saver = InMemorySaver()
    agent = agent_of(ScriptedModel(tool_call("log"), "Ok."), [log], kept, checkpointer=saver)
    given = id_in(results_of(run(agent, {"messages": "Look."}, THREAD))[0].text)
    model = ScriptedModel(reading(id=given, offset=offset), "Pity.")
    state = run(agent_of(model, [log], kept, checkpointer=saver), {"messages": "Read."}, THREAD)
    assert results_of(state)[-1].text == (
        f"Error from the tool 'read_result': offset={offset} is outside of the result, which has 22000 characters."
    )


@WAYS
def test_only_the_named_tools_are_looked_at(run):
    @tool
    def other() -> str:
        """Other."""
        return LONG

    calls = [tool_call("log"), tool_call("other")]
    for chosen in ({"tools": ["log"]}, {"exclude": ["other"]}):
        agent = create_agent(
            ScriptedModel(calls, "Ok."),
            [log, other],
            middleware=[LargeResultMiddleware(**chosen)],
            store=InMemoryStore(),
        )
        first, second = results_of(run(agent, {"messages": "Go."}))
        assert len(first.text) < 2_500
        assert second.content == LONG


@WAYS
def test_a_result_that_cannot_be_kept_stays_whole_and_is_logged(run, caplog):
    class Full(InMemoryStore):
        def put(self, *args, **kwargs):
            raise OSError("no space left")

        async def aput(self, *args, **kwargs):
            raise OSError("no space left")

    agent = agent_of(ScriptedModel(tool_call("log"), "Ok."), [log], ({}, {"store": Full()}))
    with caplog.at_level(logging.WARNING, "agentgraph"):
        (result,) = results_of(run(agent, {"messages": "Look."}))
    assert result.content == LONG
    assert [record.getMessage() for record in caplog.records] == [
        "The large result of the tool 'log' could not be kept, so it stays whole."
    ]


@WAYS
def test_parallel_results_and_an_approval_in_the_middle_are_kept_apart(run, kept):
    @tool
    def page(number: int) -> str:
        """Read a page."""
        return f"{number}" * 3_000

    @tool
    def ask() -> str:
        """Ask."""
        return interrupt("sure?") * 2_000

    calls = [*(tool_call("page", number=number) for number in range(1, 9)), tool_call("ask")]
    middleware, agent = kept
    built = create_agent(
        ScriptedModel(calls, "Ok."),
        [page, ask],
        middleware=[
            LargeResultMiddleware(limit=1_000, head=5, **middleware),
            HumanInTheLoopMiddleware({"page": False}),
        ],
        checkpointer=InMemorySaver(),
        **agent,
    )
    run(built, {"messages": "Go."}, THREAD)
    found = results_of(run(built, Command(resume="yes"), THREAD))
    assert [one.text[:5] for one in found] == [*(f"{number}" * 5 for number in range(1, 9)), "yesye"]
    assert len({id_in(one.text) for one in found}) == 9


def test_files_are_for_their_owner_only(tmp_path):
    folder = tmp_path / "results"
    agent = agent_of(ScriptedModel(tool_call("log"), "Ok."), [log], ({"folder": folder}, {}))
    agent.invoke({"messages": "Look."})
    (file,) = folder.glob("*/*")
    assert file.read_text(encoding="utf-8") == LONG
    modes = (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode))
    assert modes == (0o600, 0o700)


@pytest.mark.parametrize("text", ["a\0b" * 500, "ü\u2028" * 800], ids=["nul", "unicode"])
def test_odd_characters_come_back_as_they_were(kept, text):
    @tool
    def odd() -> str:
        """Odd."""
        return text

    saver = InMemorySaver()
    agent = agent_of(ScriptedModel(tool_call("odd"), "Ok."), [odd], kept, checkpointer=saver)
    given = id_in(results_of(agent.invoke({"messages": "Look."}, THREAD))[0].text)
    model = ScriptedModel(reading(id=given, offset=1), "Ok.")
    sizes = {"read": 10_000}
    reader = agent_of(model, [odd], kept, checkpointer=saver, sizes=sizes)
    answer = results_of(reader.invoke({"messages": "Read."}, THREAD))[-1].text
    assert answer == f"{text[1:]}\n[This is the end of the result.]"


def test_it_takes_no_step_of_the_graph_and_no_model_call():
    def steps(middleware):
        model = ScriptedModel(tool_call("log"), "Ok.")
        agent = create_agent(model, [log], middleware=middleware, store=InMemoryStore())
        return [list(update) for update in agent.stream({"messages": "Look."}, stream_mode="updates")]

    assert steps([LargeResultMiddleware()]) == steps([])


def test_its_field_is_no_part_of_the_result():
    agent = create_agent(ScriptedModel("Ok."), middleware=[LargeResultMiddleware()], store=InMemoryStore())
    assert set(agent.invoke({"messages": "Hi."})) == {"messages"}


def test_without_a_place_to_keep_results_the_run_is_refused():
    agent = create_agent(ScriptedModel("Ok."), [log], middleware=[LargeResultMiddleware()])
    with pytest.raises(ConfigurationError, match="no place to keep results"):
        agent.invoke({"messages": "Hi."})


def test_a_store_that_cannot_forget_is_refused_with_ttl():
    agent = create_agent(ScriptedModel("Ok."), [log], middleware=[LargeResultMiddleware(ttl=60)], store=InMemoryStore())
    with pytest.raises(ConfigurationError, match="InMemoryStore cannot forget by itself"):
        agent.invoke({"messages": "Hi."})


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"limit": 0}, ConfigurationError, "limit=0; expected was 1 or more characters"),
        ({"head": -1}, ConfigurationError, "head=-1"),
        ({"read": 0}, ConfigurationError, "read=0"),
        ({"limit": 10, "head": 11}, ConfigurationError, "head=11 is more than limit=10"),
        ({"limit": "10"}, ConfigurationTypeError, "limit is '10'"),
        ({"limit": True}, ConfigurationTypeError, "limit is True"),
        ({"tools": "log"}, ConfigurationTypeError, "tools is 'log'"),
        ({"exclude": 3}, ConfigurationTypeError, "exclude is 3"),
        ({"ttl": 5, "folder": "x"}, ConfigurationError, "ttl is for results in a store"),
    ],
)
def test_bad_settings_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        LargeResultMiddleware(**settings)


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=300), limit=st.integers(1, 60), data=st.data())
def test_beginning_and_readings_make_up_the_whole(text, limit, data):
    head = data.draw(st.integers(0, limit))

    @tool
    def say() -> str:
        """Say."""
        return text

    saver, kept = InMemorySaver(), ({}, {"store": InMemoryStore()})
    sizes = {"limit": limit, "head": head, "read": 50}
    agent = agent_of(ScriptedModel(tool_call("say"), "Ok."), [say], kept, checkpointer=saver, sizes=sizes)
    (shown,) = results_of(agent.invoke({"messages": "Go."}, THREAD))
    if len(text) <= limit:
        assert shown.content == text
        return
    whole, _, rest = shown.text.rpartition("\n[")
    offset = int(rest.split("offset=")[1].split(";")[0])
    assert text.startswith(whole)
    assert offset == len(whole)
    while offset < len(text):
        model = ScriptedModel(reading(id=id_in(rest), offset=offset), "Ok.")
        reader = agent_of(model, [say], kept, checkpointer=saver, sizes=sizes)
        part = results_of(reader.invoke({"messages": "Read."}, THREAD))[-1].text.rpartition("\n[")[0]
        whole, offset = whole + part, offset + len(part)
    assert whole == text
