"""Usage of the contract of middleware, read by mypy and pyright and never run."""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, NotRequired, assert_type

from langchain.agents.middleware import AgentMiddleware as LangChainMiddleware
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langgraph.types import Command

from agentgraph import AgentMiddleware, AgentState, create_agent
from agentgraph.middleware import (
    ExtendedModelResponse,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Pause,
    Runtime,
    ToolCallRequest,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)


@dataclass
class User:
    name: str


class Counting(AgentState[Any]):
    calls: NotRequired[int]


class Full(AgentMiddleware[Counting, User, str]):
    state_schema = Counting

    @hook_config(can_jump_to=["end"], inline=True)
    def before_model(self, state: Counting, runtime: Runtime[User]) -> dict[str, Any] | None:
        assert_type(runtime.context, User)
        return {"calls": state.get("calls", 0) + 1}

    async def aafter_model(self, state: Counting, runtime: Runtime[User]) -> Command[Any] | None:
        return None

    def wrap_model_call(
        self, request: ModelRequest[User], handler: Callable[[ModelRequest[User]], ModelResponse[str]]
    ) -> ModelCallResult[str]:
        assert_type(request.runtime.context, User)
        changed = request.override(system_prompt="Be brief.")
        assert_type(changed, ModelRequest[User])
        response = handler(changed)
        assert_type(response.structured_response, str | None)
        return ExtendedModelResponse(response, Command(update={"calls": 0}))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        return await handler(request)


class Short(AgentMiddleware):
    """Without parameters: the bare state, any answer."""

    def before_agent(self, state: AgentState[Any], runtime: Runtime[None]) -> None:
        assert_type(state, AgentState[Any])


class Flow(AgentMiddleware):
    def model_call(self, request: ModelRequest[Any]) -> Generator[Any, Any, Any]:
        yield Pause(seconds=1)
        return (yield request)


@before_agent
def first(state: AgentState[Any], runtime: Runtime[User]) -> dict[str, Any] | None:
    return None


@before_model(can_jump_to=["end"], state_schema=Counting, name="Second")
async def second(state: Counting, runtime: Runtime[User]) -> dict[str, Any] | None:
    return {"jump_to": "end"}


@after_model
def third(state: AgentState[Any], runtime: Runtime[User]) -> Command[Any]:
    return Command(update={})


@after_agent()
def fourth(state: AgentState[Any], runtime: Runtime[User]) -> None:
    return None


@wrap_model_call
def fifth(
    request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
) -> ModelCallResult[Any]:
    return AIMessage("x")


@wrap_tool_call(tools=[])
async def sixth(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
) -> ToolMessage | Command[Any]:
    return await handler(request)


@dynamic_prompt
def seventh(request: ModelRequest[Any]) -> str:
    return "x"


@dynamic_prompt
async def eighth(request: ModelRequest[Any]) -> SystemMessage:
    return SystemMessage("x")


def decorators_make_middleware() -> None:
    for made in (first, second, third, fourth, fifth, sixth, seventh, eighth):
        assert_type(made, AgentMiddleware[Any, Any, Any])
    create_agent("openai:gpt-5", middleware=[first, second, Full(), Short(), Flow()])
    before_model(can_jump_to=["stop"])  # type: ignore[list-item] # pyright: ignore[reportArgumentType] # must be refused
    hook_config(can_jump_to=["stop"])  # type: ignore[list-item] # pyright: ignore[reportArgumentType] # must be refused
    create_agent("openai:gpt-5", middleware=[Full])  # type: ignore[list-item] # pyright: ignore[reportArgumentType] # must be refused


class Foreign(LangChainMiddleware): ...


def middleware_of_other_classes_is_mounted() -> None:
    create_agent("openai:gpt-5", middleware=[Full(), Foreign(), TodoListMiddleware()])
    create_agent("openai:gpt-5", middleware=["todo"])  # type: ignore[list-item] # pyright: ignore[reportArgumentType] # must be refused
