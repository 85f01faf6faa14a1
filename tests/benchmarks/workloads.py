"""What is measured: a model and a tool that cost next to nothing, and how often both are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool

__all__ = ["WORKLOADS", "CountingModel", "Workload", "counting_tool"]


@dataclass(frozen=True)
class Workload:
    """One run of an agent: so many rounds of so many tool calls, then a text.

    Attributes:
        rounds: of tool calls.
        tools: calls in a round.
        asynchronous: whether it is awaited.
        middleware: how many idle ones are mounted.
        catalogue: whether a stack of ready-made ones is mounted instead, with a checkpointer.
    """

    rounds: int
    tools: int
    asynchronous: bool = False
    middleware: int = 0
    catalogue: bool = False

    @property
    def name(self) -> str:
        """How it is called in tables and in JSON."""
        stack = " + catalogue" if self.catalogue else f" + {self.middleware} middleware" if self.middleware else ""
        return f"{self.rounds} x {self.tools} {'async' if self.asynchronous else 'sync'}{stack}"

    @property
    def messages(self) -> int:
        """How many messages a right result has."""
        return 2 + self.rounds * (1 + self.tools)


WORKLOADS = (
    Workload(0, 1),
    Workload(5, 1),
    Workload(5, 1, asynchronous=True),
    Workload(5, 10),
    Workload(5, 10, asynchronous=True),
    Workload(5, 1, middleware=5),
    Workload(5, 1, asynchronous=True, middleware=5),
    Workload(5, 1, catalogue=True),
    Workload(5, 1, asynchronous=True, catalogue=True),
)


class CountingModel(BaseChatModel):
    """Asks for tools until it has seen so many answers; every call has arguments of its own."""

    rounds: int
    tools: int

    @property
    def _llm_type(self) -> str:
        return "counting"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=list(tools), tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        seen = sum(isinstance(message, ToolMessage) for message in messages)
        if seen >= self.rounds * self.tools:
            return AIMessage(content="done")
        numbers = range(seen, seen + self.tools)
        calls = [{"name": "double", "args": {"number": n}, "id": f"call_{n}", "type": "tool_call"} for n in numbers]
        return AIMessage(content="", tool_calls=calls)


def double(number: int) -> str:
    """Twice a number."""
    return str(2 * number)


async def adouble(number: int) -> str:
    """Twice a number."""
    return str(2 * number)


def counting_tool() -> BaseTool:
    """The tool that the model asks for, with a sync and an async half."""
    return StructuredTool.from_function(double, adouble)
