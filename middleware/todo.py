"""A to-do list: the model plans its work in the state, where a person or a screen can follow it."""

from collections.abc import Generator, Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool
from langgraph.channels import LastValue
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT
from pydantic import Field
from typing_extensions import TypedDict

from agentgraph.decorators import hook_config
from agentgraph.errors import ConfigurationTypeError
from agentgraph.history import pending_calls
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ModelRequest
from agentgraph.state import AgentState, OmitFromInput, ResponseT, StateT

__all__ = ["PlanningState", "Todo", "TodoListMiddleware", "write_todos"]

WRITE_TODOS_SYSTEM_PROMPT = """\
# Planning with `write_todos`

For work of several steps, keep a plan with the tool `write_todos`. A person may be watching it.

- Plan when there are three or more real steps, when you were given several tasks, or when you were asked for a plan. \
Do smaller things at once, without a plan: it costs time and tokens.
- Keep the plan true: mark a step completed as soon as it is done, not later with others, and change the steps that \
are still ahead when you learn something new.
- Call `write_todos` at most once in a turn. Each call replaces the whole list.
- The plan is not the answer. When the work is done, give the result itself in a message of its own after the last \
call, not a report that the plan is finished."""
"""What the system message is given; edit it by `system_prompt`."""

WRITE_TODOS_TOOL_DESCRIPTION = """\
Write down the plan of your work: the whole list of steps, each with its status. The list replaces the one before it, \
so send all steps again, also those that have not changed.

Use it for work of three or more real steps, for several tasks at once, or when you are asked for a plan. Do not use \
it for a single plain task or for talk.

Status of a step:
- pending: not begun.
- in_progress: being worked on. Set it before you begin; as long as anything is left to do, at least one step has it.
- completed: wholly done. Where there was an error, a part is missing, or you are stuck, it stays in_progress; add a \
step that says what has to be solved.

Name each step so that one can see when it is done. Leave out steps that are not needed any more. Never call this tool \
twice in one turn, and give your answer to the user in a message after the last call."""
"""What the model reads about the tool; edit it by `tool_description`."""

_NAME = "write_todos"
_TWICE = (
    "Error: write_todos was called {count} times in one turn. Each call replaces the whole list, so none of them was "
    "done, and the list is as it was. Call it again, once, with all steps."
)
_STATUSES = ("completed", "in_progress", "pending")


class Todo(TypedDict):
    """One step of the plan.

    Attributes:
        content: what is to be done.
        status: "pending", "in_progress" or "completed".
    """

    content: str
    status: Literal["pending", "in_progress", "completed"]


class _Newest(LastValue[list[Todo]]):
    """The last list written. The ordinary channel fails the run where two tools of one step write the field."""

    def update(self, values: Sequence[list[Todo]]) -> bool:
        return super().update(values[-1:])


# One object, since langgraph compares the channels of schemas that declare the same field.
_todos = _Newest(list[Todo])


class PlanningState(AgentState[ResponseT]):
    """The state with a plan.

    Attributes:
        todos: the steps, as the model wrote them last; absent before that. Not taken from the input. Kept with the
            thread. Where two tools of one step write it, the later one counts.
    """

    todos: NotRequired[Annotated[list[Todo], _todos, OmitFromInput]]


def _write(
    todos: Annotated[list[Todo], Field(description="All steps, in the order in which they are to be done.")],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Write down the plan."""
    answer = ToolMessage(_said_of(todos), name=_NAME, tool_call_id=tool_call_id)
    return Command(update={"todos": todos, "messages": [answer]})


async def _awrite(
    todos: Annotated[list[Todo], Field(description="All steps, in the order in which they are to be done.")],
    tool_call_id: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Write down the plan; without a thread, as there is nothing to wait for."""
    return _write(todos, tool_call_id)


def _tool(description: str) -> BaseTool:
    return StructuredTool.from_function(_write, coroutine=_awrite, name=_NAME, description=description)


write_todos: BaseTool = _tool(WRITE_TODOS_TOOL_DESCRIPTION)
"""The tool that `TodoListMiddleware` brings, with its usual description. Its state must have the field `todos`."""


class TodoListMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Gives the model a to-do list for work of many steps, which it keeps in the state by the tool `write_todos`.

    Around each model call it adds to the system message when and how to plan (not where another hook has taken the tool
    out of the request). After the call it answers two or more `write_todos` of one turn with an error, since each would
    replace the list of the other; the model is then asked again.

    It adds the field `todos` to the state, see `PlanningState`. It makes no model calls of its own and takes no step of
    the graph, but each update of the plan is a tool call, and so a turn of the model.

    Args:
        system_prompt: added to the system message; "" adds nothing.
        tool_description: what the model reads about the tool.

    Raises:
        ConfigurationTypeError: one of them is not a text.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> plan = [{"content": "Find flights", "status": "in_progress"}]
        >>> model = ScriptedModel(tool_call("write_todos", todos=plan), "Which day?")
        >>> agent = create_agent(model, middleware=[TodoListMiddleware()])
        >>> agent.invoke({"messages": "Plan my trip."})["todos"]
        [{'content': 'Find flights', 'status': 'in_progress'}]
    """

    state_schema = PlanningState  # type: ignore[assignment] # a subclass of the bound, which mypy cannot see here

    def __init__(
        self,
        *,
        system_prompt: str = WRITE_TODOS_SYSTEM_PROMPT,
        tool_description: str = WRITE_TODOS_TOOL_DESCRIPTION,
    ) -> None:
        super().__init__()
        for name, given in (("system_prompt", system_prompt), ("tool_description", tool_description)):
            if not isinstance(given, str):
                raise ConfigurationTypeError(f"{name} is {repr(given)[:200]}; expected was a text.")
        self.system_prompt = system_prompt
        self.tool_description = tool_description
        self.tools = [_tool(tool_description)]

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Add the prompt to the system message."""
        if not self.system_prompt or not _offered(request):
            return (yield request)
        return (yield request.override(system_message=_extended(request.system_message, self.system_prompt)))

    @hook_config(inline=True)
    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:  # noqa: ARG002 (the contract passes it)
        """Answer calls of `write_todos` that stand in each other's way.

        Args:
            state: the state with the model's message.
            runtime: not used.

        Returns:
            An error for each of them where there are two or more without an answer, else None.
        """
        calls = [call for call in pending_calls(state["messages"]) if call["name"] == _NAME and call["id"]]
        if len(calls) < 2:  # noqa: PLR2004 (two is the smallest number of calls that can collide)
            return None
        text = _TWICE.format(count=len(calls))
        return {
            "messages": [ToolMessage(text, name=_NAME, tool_call_id=str(call["id"]), status="error") for call in calls]
        }

    @hook_config(inline=True)
    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `after_model`, for async runs: there is nothing to wait for, so no thread is taken."""
        return self.after_model(state, runtime)


def _offered(request: ModelRequest[Any]) -> bool:
    """Whether the model can call the tool; a request without any tool is one that was made by hand."""
    return not request.tools or any(getattr(tool, "name", None) == _NAME for tool in request.tools)


def _extended(message: SystemMessage | None, prompt: str) -> SystemMessage:
    """The system message with the prompt after it; blocks stay as they are, with their marks for caching."""
    if message is None:
        return SystemMessage(prompt)
    if isinstance(message.content, str):
        content: Any = f"{message.content}\n\n{prompt}" if message.content else prompt
    else:
        content = [*message.content, {"type": "text", "text": f"\n\n{prompt}"}]
    return message.model_copy(update={"content": content})


def _said_of(todos: Sequence[Todo]) -> str:
    """What the model is told: how many steps of each status, since it knows the list that it sent."""
    counts = [(sum(todo["status"] == status for todo in todos), status) for status in _STATUSES]
    shown = ", ".join(f"{count} {status}" for count, status in counts if count)
    return f"The list is saved: {shown}." if shown else "The list is saved; it has no steps."
