"""The middleware of deepagents, written for LangChain, mounted on our agents: each does its work in all four ways."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agentgraph import create_agent
from agentgraph.middleware import HumanInTheLoopMiddleware, PIIMiddleware, TodoListMiddleware
from agentgraph.testing import FunctionModel, ScriptedModel, ai, assert_valid_history, describe, tool_call
from agentgraph.tools import tool

deep = pytest.importorskip("deepagents.middleware", reason="deepagents is not installed")
backends = pytest.importorskip("deepagents.backends", reason="deepagents is not installed")
PatchToolCallsMiddleware = pytest.importorskip("deepagents.middleware.patch_tool_calls").PatchToolCallsMiddleware

HI = {"messages": "hi"}
THREAD = {"configurable": {"thread_id": "t"}}
WRITE = tool_call("write_file", file_path="/a.txt", content="one\ntwo", id="w")
READ = tool_call("read_file", file_path="/a.txt", id="r")


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def report(size: int) -> str:
    """A long report."""
    return "\n".join(f"line {number}" for number in range(size))


def agent_of(mounted, *script, tools=(weather, report), **options):
    model = ScriptedModel(*script)
    return create_agent(model, list(tools), middleware=mounted, **options), model


def answers(result):
    """The text of each tool message, by the id of its call."""
    assert_valid_history(result["messages"])
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


def filesystem(**options):
    return deep.FilesystemMiddleware(backend=backends.StateBackend(), **options)


def file_of(text):
    return {"content": text, "encoding": "utf-8", "created_at": "2026-01-01", "modified_at": "2026-01-01"}


def test_files_are_written_read_and_changed_in_the_state(run):
    change = tool_call("edit_file", file_path="/a.txt", old_string="two", new_string="three", id="e")
    agent, model = agent_of([filesystem()], WRITE, READ, change, tool_call("ls", path="/", id="l"), "Done.")
    result = run(agent, HI)
    told = answers(result)
    assert [word in told["r"] for word in ("one", "two")] == [True, True]
    assert "/a.txt" in told["l"]
    assert {path: file["content"] for path, file in result["files"].items()} == {"/a.txt": "one\nthree"}
    assert {"ls", "read_file", "write_file", "edit_file", "glob", "grep", "weather"} <= set(model.requests[0].tools)
    # This backend runs no commands, which the middleware says by leaving the tool out of each request.
    assert "execute" not in model.requests[0].tools


def test_files_that_calls_side_by_side_write_are_all_kept(run):
    calls = [tool_call("write_file", file_path=f"/{n}.txt", content=f"text {n}", id=f"w{n}") for n in range(4)]
    agent, _ = agent_of([filesystem()], calls, "Done.")
    result = run(agent, HI)
    assert {path: file["content"] for path, file in result["files"].items()} == {
        f"/{n}.txt": f"text {n}" for n in range(4)
    }
    assert list(answers(result)) == ["w0", "w1", "w2", "w3"]


def test_files_stay_on_the_thread(run):
    agent, _ = agent_of([filesystem()], WRITE, "Written.", READ, "Read.", checkpointer=InMemorySaver())
    run(agent, HI, THREAD)
    result = run(agent, {"messages": "again"}, THREAD)
    assert "two" in answers(result)["r"]


def test_a_denied_path_is_an_error_for_the_model(run):
    denied = deep.FilesystemPermission(operations=["write"], paths=["/**"], mode="deny")
    agent, _ = agent_of([filesystem(permissions=[denied])], WRITE, "Done.")
    result = run(agent, HI)
    assert "permission denied" in answers(result)["w"].lower()
    assert not result.get("files")


def test_a_large_result_is_put_into_a_file(run):
    agent, model = agent_of(
        [filesystem(tool_token_limit_before_evict=100)], tool_call("report", size=2000, id="big"), "Done."
    )
    result = run(agent, HI)
    ((path, file),) = result["files"].items()
    assert file["content"] == report.invoke({"size": 2000})
    told = answers(result)["big"]
    assert path in told
    assert len(told) < len(file["content"]) // 4
    assert model.requests[1].messages[-1].text == told


def researcher(**spec):
    return {"name": "researcher", "description": "Looks things up.", "system_prompt": "Look it up.", **spec}


def test_a_subagent_that_is_described_does_the_task(run):
    inner = ScriptedModel(tool_call("weather", city="Rome", id="i"), "It is sunny in Rome.")
    mounted = deep.SubAgentMiddleware(
        backend=backends.StateBackend(), subagents=[researcher(model=inner, tools=[weather])]
    )
    task = tool_call("task", description="How is Rome?", subagent_type="researcher", id="t")
    agent, model = agent_of([mounted], task, "Done.")
    result = run(agent, HI)
    assert answers(result) == {"t": "It is sunny in Rome."}
    assert "task" in model.requests[0].tools
    assert describe(inner.requests[0].messages) == ["system: Look it up.", "human: How is Rome?"]


def test_one_of_our_agents_is_a_subagent_and_several_run_side_by_side(run):
    inner = FunctionModel(lambda messages, settings: f"about {messages[-1].text}")
    compiled = {"name": "ours", "description": "Knows.", "runnable": create_agent(inner)}
    mounted = deep.SubAgentMiddleware(backend=backends.StateBackend(), subagents=[compiled])
    tasks = [tool_call("task", description=city, subagent_type="ours", id=city) for city in ("Rome", "Oslo")]
    agent, _ = agent_of([mounted], tasks, "Done.")
    assert answers(run(agent, HI)) == {"Rome": "about Rome", "Oslo": "about Oslo"}


def test_files_of_a_subagent_reach_the_agent(run):
    inner = ScriptedModel(WRITE, "Written.")
    mounted = deep.SubAgentMiddleware(
        backend=backends.StateBackend(), subagents=[researcher(model=inner, tools=[], middleware=[filesystem()])]
    )
    task = tool_call("task", description="Write.", subagent_type="researcher", id="t")
    agent, _ = agent_of([filesystem(), mounted], task, READ, "Done.")
    result = run(agent, HI)
    told = answers(result)
    assert told["t"] == "Written."
    assert "two" in told["r"]
    assert list(result["files"]) == ["/a.txt"]


def test_a_long_conversation_is_summarised_in_the_request_and_kept_in_a_file(run):
    writer = ScriptedModel("the summary")
    mounted = deep.SummarizationMiddleware(
        writer, backend=backends.StateBackend(), trigger=("messages", 8), keep=("messages", 2)
    )
    agent, model = agent_of([filesystem(), mounted], "Fine.", checkpointer=InMemorySaver())
    history = [HumanMessage(f"fact {n}") for n in range(8)]
    result = run(agent, {"messages": history}, THREAD)
    sent = [message.text for message in model.requests[0].messages if message.type == "human"]
    assert ["the summary" in text for text in sent] == [True, False, False]
    assert sent[1:] == ["fact 6", "fact 7"]
    assert [message.text for message in result["messages"]] == [*(message.text for message in history), "Fine."]
    ((path, file),) = agent.get_state(THREAD).values["files"].items()
    assert "conversation_history" in path
    assert "fact 0" in file["content"]


def test_the_model_is_given_what_is_remembered(run):
    mounted = deep.MemoryMiddleware(backend=backends.StateBackend(), sources=["/AGENTS.md"])
    agent, model = agent_of([filesystem(), mounted], "Fine.")
    run(agent, {**HI, "files": {"/AGENTS.md": file_of("Always be brief.")}})
    assert "Always be brief." in model.requests[0].messages[0].text


def test_the_model_is_told_of_its_skills(run):
    mounted = deep.SkillsMiddleware(backend=backends.StateBackend(), sources=["/skills/"])
    skill = "---\nname: maps\ndescription: Draws maps of places.\n---\n# Maps\nDraw."
    agent, model = agent_of([filesystem(), mounted], "Fine.")
    run(agent, {**HI, "files": {"/skills/maps/SKILL.md": file_of(skill)}})
    assert "Draws maps of places." in model.requests[0].messages[0].text


def grade(verdict, *, passed):
    criteria = [{"name": "short", "passed": passed, "gap": None if passed else "too long"}]
    return tool_call("GraderResponse", result=verdict, explanation="see there", criteria=criteria)


@pytest.mark.filterwarnings("ignore:The middleware `RubricMiddleware` is in beta")
def test_an_answer_that_misses_the_rubric_is_asked_for_again(run):
    grader = ScriptedModel(grade("needs_revision", passed=False), grade("satisfied", passed=True))
    seen = []
    mounted = deep.RubricMiddleware(model=grader, max_iterations=3, on_evaluation=seen.append)
    agent, model = agent_of([mounted], "A long answer.", "Short.")
    result = run(agent, {**HI, "rubric": "- short"})
    assert [one["result"] for one in seen] == ["needs_revision", "satisfied"]
    assert [m.text for m in result["messages"] if isinstance(m, AIMessage)] == ["A long answer.", "Short."]
    assert model.requests[1].messages[-1].type == "human"


def test_an_image_that_the_model_cannot_read_is_replaced_in_the_request_alone(run):
    model = ScriptedModel("Fine.", profile={"image_inputs": False})
    agent = create_agent(model, middleware=[deep.UnsupportedContentMiddleware()])
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    result = run(agent, {"messages": [HumanMessage([{"type": "text", "text": "look"}, image])]})
    assert [block["type"] for block in model.requests[0].messages[0].content] == ["text", "text"]
    assert [block["type"] for block in result["messages"][0].content] == ["text", "image"]


def test_a_call_without_an_answer_in_the_input_is_answered_once(run):
    agent, model = agent_of([PatchToolCallsMiddleware()], "Fine.")
    history = [HumanMessage("hi"), ai(tool_call("weather", city="Rome", id="r")), HumanMessage("well?")]
    told = answers(run(agent, {"messages": history}))
    assert list(told) == ["r"]
    assert [m.type for m in model.requests[0].messages] == ["human", "ai", "tool", "human"]


def test_an_asynchronous_subagent_is_offered_to_the_model(run):
    remote = {"name": "far", "description": "Far away.", "graph_id": "far", "url": "http://localhost:1"}
    agent, model = agent_of([deep.AsyncSubAgentMiddleware(async_subagents=[remote])], "Fine.")
    assert run(agent, HI)["messages"][-1].text == "Fine."
    assert "start_async_task" in model.requests[0].tools


STACK_DECISIONS = {
    "approve": ({"type": "approve"}, {"/a.txt": "one\ntwo"}),
    "reject": ({"type": "reject", "message": "not now"}, {}),
    "edit": (
        {"type": "edit", "edited_action": {"name": "write_file", "args": {"file_path": "/b.txt", "content": "b"}}},
        {"/b.txt": "b"},
    ),
}


@pytest.mark.parametrize("decided", STACK_DECISIONS)
def test_they_work_together_with_ours_and_a_person_decides(run, decided):
    decision, files = STACK_DECISIONS[decided]
    backend = backends.StateBackend()
    inner = ScriptedModel("It is sunny.")
    agent, model = agent_of(
        [
            HumanInTheLoopMiddleware({"write_file": True}),
            PIIMiddleware("email"),
            TodoListMiddleware(),
            filesystem(),
            deep.SubAgentMiddleware(backend=backend, subagents=[researcher(model=inner, tools=[weather])]),
            deep.SummarizationMiddleware(ScriptedModel(), backend=backend, trigger=("messages", 50)),
        ],
        [WRITE, tool_call("task", description="How is Rome?", subagent_type="researcher", id="t")],
        "Done.",
        checkpointer=InMemorySaver(),
    )
    run(agent, {"messages": "I am ann@example.com"}, THREAD)
    (question,) = agent.get_state(THREAD).interrupts
    assert [one["name"] for one in question.value["action_requests"]] == ["write_file"]
    result = run(agent, Command(resume={"decisions": [decision]}), THREAD)
    told = answers(result)
    assert list(told) == ["w", "t"]
    assert told["t"] == "It is sunny."
    assert {path: file["content"] for path, file in (result.get("files") or {}).items()} == files
    assert result["messages"][-1].text == "Done."
    assert describe(model.requests[0].messages)[-1] == "human: I am [REDACTED_EMAIL]"
