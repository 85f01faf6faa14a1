"""Summaries in runs: what becomes of the conversation, who writes, what fails, what is shown."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agentgraph import create_agent
from agentgraph.errors import BadRequestError, ConfigurationTypeError, RunCancelledError
from agentgraph.middleware import SummarizationMiddleware, internal_call_metadata, wrap_model_call
from agentgraph.testing import ScriptedModel, ai, answer, assert_valid_history, describe, tool_call
from tests.middleware.approving import THREAD, WAYS

NOTES = "Notes on the conversation so far, in place of its older messages:\n\n"


def facts(count):
    return [HumanMessage(f"fact {n}", id=f"f{n}") for n in range(count)]


def weather(city: str) -> str:
    """Get the weather of a city."""
    return f"sunny in {city}"


def summing(writer, trigger=("messages", 4), keep=("messages", 2), **options):
    return SummarizationMiddleware(writer, trigger=trigger, keep=keep, **options)


@WAYS
def test_the_older_messages_become_a_marked_summary_in_the_state_and_the_request(run):
    writer, model = ScriptedModel("four facts"), ScriptedModel("Noted.")
    agent = create_agent(model, middleware=[summing(writer)], checkpointer=InMemorySaver())
    result = run(agent, {"messages": facts(6)}, THREAD)
    assert describe(result["messages"]) == [
        f"human: {NOTES}four facts",
        "human: fact 4",
        "human: fact 5",
        "ai: Noted.",
    ]
    assert result["messages"][0].additional_kwargs == {"lc_source": "summarization"}
    assert [message.id for message in result["messages"][1:3]] == ["f4", "f5"]
    assert agent.get_state(THREAD).values["messages"] == result["messages"]
    assert model.requests[0].messages == result["messages"][:3]


@WAYS
def test_the_writer_reads_the_older_messages_alone(run):
    writer = ScriptedModel("notes")
    run(create_agent(ScriptedModel("Noted."), middleware=[summing(writer)]), {"messages": facts(6)})
    (prompt,) = writer.requests[0].messages
    assert [f"fact {n}" in prompt.text for n in range(6)] == [True] * 4 + [False] * 2
    assert prompt.text.index("\n<messages>\n") < prompt.text.index("fact 0")


@WAYS
def test_a_summary_is_made_once_and_not_before_each_model_call(run):
    writer = ScriptedModel("notes")
    calls = [tool_call("weather", city=city) for city in ("Rome", "Oslo")]
    model = ScriptedModel(*calls, "Sunny.")
    agent = create_agent(model, [weather], middleware=[summing(writer, trigger=("messages", 8))])
    result = run(agent, {"messages": facts(8)})
    assert len(writer.requests) == 1
    assert [len(request.messages) for request in model.requests] == [3, 5, 7]
    assert len(result["messages"]) == 8


@WAYS
def test_a_later_summary_reads_the_earlier_one(run):
    writer = ScriptedModel("first notes", "second notes")
    agent = create_agent(ScriptedModel("a", "b"), middleware=[summing(writer)], checkpointer=InMemorySaver())
    run(agent, {"messages": facts(4)}, THREAD)
    result = run(agent, {"messages": "more"}, THREAD)
    assert "first notes" in writer.requests[1].messages[0].text
    assert describe(result["messages"]) == [f"human: {NOTES}second notes", "ai: a", "human: more", "ai: b"]


@WAYS
def test_calls_stay_with_their_answers(run):
    both = [tool_call("weather", city=city) for city in ("Rome", "Oslo")]
    history = [*facts(3), ai(*both), *(answer(call, "sunny") for call in both)]
    model = ScriptedModel("Sunny.")
    agent = create_agent(model, [weather], middleware=[summing(ScriptedModel("notes"), keep=("messages", 1))])
    run(agent, {"messages": history})
    assert describe(model.requests[0].messages)[1:] == [
        "ai: -> weather(city='Rome') -> weather(city='Oslo')",
        "tool weather: sunny",
        "tool weather: sunny",
    ]
    assert_valid_history(model.requests[0].messages)


@WAYS
def test_system_messages_at_the_start_stay(run):
    model = ScriptedModel("Noted.", strict=False)
    agent = create_agent(model, middleware=[summing(ScriptedModel("notes"), keep=("messages", 1))])
    result = run(agent, {"messages": [SystemMessage("Be kind."), *facts(4)]})
    assert describe(result["messages"])[:3] == ["system: Be kind.", f"human: {NOTES}notes", "human: fact 3"]


@WAYS
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (BadRequestError("no"), "A summary failed, and the history stays as it is. BadRequestError: no"),
        (OSError("gone"), "A summary failed, and the history stays as it is. OSError: gone"),
        (AIMessage(" "), "A summary came out empty, and the history stays as it is."),
        (tool_call("weather", city="Rome"), "A summary came out empty, and the history stays as it is."),
    ],
    ids=["model error", "other error", "empty", "tool call"],
)
def test_a_failed_summary_leaves_the_history_alone_and_the_run_goes_on(run, reply, said, caplog):
    agent = create_agent(ScriptedModel("Noted."), middleware=[summing(ScriptedModel(reply))])
    with caplog.at_level(logging.WARNING):
        result = run(agent, {"messages": facts(4)})
    assert describe(result["messages"]) == [*(f"human: fact {n}" for n in range(4)), "ai: Noted."]
    assert [record.getMessage() for record in caplog.records] == [said]


@WAYS
def test_a_prompt_that_overflows_is_sent_once_more_with_its_middle_left_out(run):
    writer = ScriptedModel(ContextOverflowError("too long"), "notes")
    agent = create_agent(ScriptedModel("Noted."), middleware=[summing(writer, summary_prompt="{messages}")])
    result = run(agent, {"messages": [HumanMessage(f"fact {n} " + "x" * 500) for n in range(6)]})
    first, second = (request.messages[0].text for request in writer.requests)
    assert result["messages"][0].text == f"{NOTES}notes"
    assert len(second) < 0.55 * len(first)
    assert second[:100] == first[:100]
    assert second[-100:] == first[-100:]
    assert "characters were left out here" in second


@WAYS
def test_a_prompt_that_overflows_twice_has_failed(run, caplog):
    writer = ScriptedModel(ContextOverflowError("too long"), ContextOverflowError("still"))
    result = run(create_agent(ScriptedModel("Noted."), middleware=[summing(writer)]), {"messages": facts(4)})
    assert len(result["messages"]) == 5
    assert [record.args[0] for record in caplog.records] == ["ContextOverflowError"]


async def _later(messages):
    return f"{len(messages)} messages"


@WAYS
def test_without_a_trigger_nothing_is_summed_up_and_nothing_counted(run):
    def count(messages):
        raise AssertionError

    middleware = summing(ScriptedModel(), trigger=None, token_counter=count)
    result = run(create_agent(ScriptedModel("Noted."), middleware=[middleware]), {"messages": facts(30)})
    assert len(result["messages"]) == 31


@WAYS
def test_tokens_are_counted_by_the_users_function(run):
    middleware = summing(ScriptedModel("notes"), ("tokens", 40), ("tokens", 10), token_counter=lambda m: 10 * len(m))
    agent = create_agent(ScriptedModel("Noted."), middleware=[middleware])
    assert describe(run(agent, {"messages": facts(4)})["messages"])[1:] == ["human: fact 3", "ai: Noted."]


SUMMARIZERS = {
    "function": lambda messages: f"{len(messages)} messages",
    "async function": _later,
    "runnable": RunnableLambda(lambda messages: f"{len(messages)} messages"),
    "runnable with a message": RunnableLambda(lambda messages: AIMessage(f"{len(messages)} messages")),
}


@WAYS
@pytest.mark.parametrize("summarizer", SUMMARIZERS.values(), ids=SUMMARIZERS)
def test_a_summarizer_writes_in_place_of_the_model(run, summarizer):
    unused = ScriptedModel()
    agent = create_agent(ScriptedModel("Noted."), middleware=[summing(unused, summarizer=summarizer)])
    assert run(agent, {"messages": facts(6)})["messages"][0].text == f"{NOTES}4 messages"
    assert unused.requests == []


@WAYS
def test_a_chat_model_as_summarizer_is_asked_with_the_prompt(run):
    writer = ScriptedModel("notes")
    middleware = summing(ScriptedModel(), summarizer=writer, summary_prompt='As {"json": 1}: {messages}')
    run(create_agent(ScriptedModel("Noted."), middleware=[middleware]), {"messages": facts(4)})
    assert writer.requests[0].messages[0].text.startswith('As {"json": 1}: <message type="human">fact 0<')


@WAYS
def test_a_summarizer_that_returns_no_text_is_refused(run):
    agent = create_agent(ScriptedModel("Noted."), middleware=[summing(ScriptedModel(), summarizer=len)])
    with pytest.raises(ConfigurationTypeError, match="The summarizer returned int; expected was the summary"):
        run(agent, {"messages": facts(4)})


@WAYS
def test_an_interrupt_and_the_end_of_the_run_pass_through_the_summary(run):
    def ask(messages):
        return interrupt("What was it about?")

    agent = create_agent(
        ScriptedModel("Noted."), middleware=[summing(ScriptedModel(), summarizer=ask)], checkpointer=InMemorySaver()
    )
    run(agent, {"messages": facts(4)}, THREAD)
    assert [one.value for one in agent.get_state(THREAD).interrupts] == ["What was it about?"]
    assert run(agent, Command(resume="facts"), THREAD)["messages"][0].text == f"{NOTES}facts"

    ended = create_agent(ScriptedModel("Noted."), middleware=[summing(ScriptedModel(RunCancelledError("now")))])
    with pytest.raises(RunCancelledError):
        run(ended, {"messages": facts(4)})


def test_the_call_of_the_writer_is_marked_as_internal():
    seen = []

    def write(messages, config):
        seen.append((config["tags"], config["metadata"]))
        return "notes"

    middleware = summing(ScriptedModel(), summarizer=RunnableLambda(write))
    create_agent(ScriptedModel("Noted."), middleware=[middleware]).invoke({"messages": facts(4)})
    ((tags, metadata),) = seen
    assert "nostream" in tags
    assert metadata.items() >= {"lc_source": "summarization", **internal_call_metadata()}.items()


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol:langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_neither_the_words_of_the_writer_nor_the_kept_messages_are_streamed():
    history = [*facts(3), AIMessage("an old answer"), HumanMessage("go on")]

    def agent():
        return create_agent(ScriptedModel("the answer"), middleware=[summing(ScriptedModel("secret notes"))])

    pieces = agent().stream({"messages": history}, stream_mode="messages")
    assert "".join(piece.text for piece, _ in pieces) == "the answer"
    run = agent().stream_events({"messages": history}, version="v3")
    assert [str(message.text) for message in run.messages] == ["the answer"]


@WAYS
def test_a_history_of_system_messages_alone_stays(run):
    agent = create_agent(
        ScriptedModel("Noted.", strict=False), middleware=[summing(ScriptedModel(), ("tokens", 1), ("tokens", 1))]
    )
    result = run(agent, {"messages": [SystemMessage("Be kind."), SystemMessage("Be brief.")]})
    assert describe(result["messages"]) == ["system: Be kind.", "system: Be brief.", "ai: Noted."]


def test_it_runs_inside_the_step_of_the_model():
    agent = create_agent(ScriptedModel("Noted."), middleware=[summing(ScriptedModel("notes"))])
    assert set(agent.nodes) == {"__start__", "model"}
    assert list(map(list, agent.stream({"messages": facts(4)}, stream_mode="updates"))) == [["model"]]


def test_a_retry_of_the_model_call_does_not_make_the_summary_again():
    @wrap_model_call
    def twice(request, handler):
        handler(request)
        return handler(request)

    writer = ScriptedModel("notes")
    agent = create_agent(ScriptedModel("a", "b"), middleware=[summing(writer), twice])
    assert agent.invoke({"messages": facts(4)})["messages"][-1].text == "b"
    assert len(writer.requests) == 1


def test_one_object_serves_many_runs_at_once():
    middleware = summing(ScriptedModel(), summarizer=lambda messages: messages[0].text)

    def ask(number):
        agent = create_agent(ScriptedModel("ok"), middleware=[middleware])
        history = [HumanMessage(f"run {number}"), *facts(4)]
        return agent.invoke({"messages": history})["messages"][0].text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(16))) == [f"{NOTES}run {number}" for number in range(16)]
