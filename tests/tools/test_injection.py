from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Optional

import pytest
from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Send
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentgraph.errors import ConfigurationError
from agentgraph.nodes.tools import ToolsNode
from agentgraph.tools.injection import Injected, analyse
from agentgraph.tools.prepare import prepare

if TYPE_CHECKING:
    from pathlib import Path


class Context(TypedDict):
    user: str


class State(MessagesState):
    basket: NotRequired[list[str]]


class Narrow(TypedDict):
    basket: NotRequired[list[str]]


class Place(BaseModel):
    """Where."""

    location: str


class WithState(BaseModel):
    """Marks in the schema alone."""

    location: str
    state: Annotated[dict, InjectedState]  # type: ignore[type-arg] # as users write it
    model_config = {"arbitrary_types_allowed": True}


def run(the_tool: BaseTool, state: dict[str, Any] | None = None, *, store: BaseStore | None = None) -> Any:
    """Run a tool as an agent does: one Send that carries the call alone; the model forges what it can."""
    prepared = prepare(the_tool)
    args = {"location": "Rome", **dict.fromkeys(prepared.injection.hidden, "forged")}
    call = ToolCall(name=the_tool.name, args=args, id="c1", type="tool_call")
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("tools", ToolsNode({the_tool.name: prepared}, "raise"))
    graph.add_conditional_edges(START, lambda _: [Send("tools", [call])], ["tools"])
    given: Any = {"messages": [("user", "hi")], **(state or {})}
    result = graph.compile(store=store).invoke(given, context={"user": "ann"})
    return result["messages"][-1].content


def shown(location: str, runtime: Any) -> str:
    return f"{location} {runtime.context['user']} {runtime.tool_call_id} {runtime.state['messages'][0].content}"


def bare(location: str, runtime: ToolRuntime) -> str:
    """Where."""
    return shown(location, runtime)


def one_parameter(location: str, rt: ToolRuntime[Context]) -> str:
    """Where."""
    return shown(location, rt)


def two_parameters(location: str, rt: ToolRuntime[Context, State]) -> str:
    """Where."""
    return shown(location, rt)


def optional(location: str, rt: ToolRuntime | None = None) -> str:
    """Where."""
    return shown(location, rt)


def old_optional(location: str, rt: Optional[ToolRuntime[Context]] = None) -> str:  # noqa: UP045 - as users write it
    """Where."""
    return shown(location, rt)


def mixed_with_unresolvable(location: str, rt: ToolRuntime, there: Path | None = None) -> str:
    """Where."""
    return f"{shown(location, rt)}{'' if there is None else there}"


def quoted(location: str, rt: "ToolRuntime") -> str:  # noqa: UP037 - as users write it
    """Where."""
    return shown(location, rt)


class OwnRun(BaseTool):
    name: str = "where"
    description: str = "Where."
    args_schema: type[BaseModel] = Place

    def _run(self, location: str, rt: ToolRuntime) -> str:
        return shown(location, rt)


class OwnRunOptional(OwnRun):
    def _run(self, location: str, rt: ToolRuntime | None = None) -> str:
        return shown(location, rt)


class OwnAsync(OwnRun):
    def _run(self, location: str, rt: ToolRuntime) -> str:
        raise NotImplementedError

    async def _arun(self, location: str, rt: ToolRuntime) -> str:
        return shown(location, rt)


class WithoutSchema(BaseTool):
    name: str = "where"
    description: str = "Where."

    def _run(self, location: str, rt: ToolRuntime, **_: Any) -> str:
        return shown(location, rt)


class Method:
    def where(self, location: str, rt: ToolRuntime) -> str:
        """Where."""
        return shown(location, rt)

    def __call__(self, location: str, rt: ToolRuntime) -> str:
        """Where."""
        return shown(location, rt)


PLAIN_SCHEMA: dict[str, Any] = {"title": "Place", "type": "object", "properties": {"location": {"type": "string"}}}
LEAKY_SCHEMA: dict[str, Any] = {
    **PLAIN_SCHEMA,
    "properties": {**PLAIN_SCHEMA["properties"], "rt": {"type": "string"}},
    "required": ["location", "rt"],
}


def with_schema(function: Any, schema: Any) -> BaseTool:
    return StructuredTool.from_function(function, name="where", description="Where.", args_schema=schema)


RUNTIME_FORMS: dict[str, Any] = {
    "bare": tool(bare),
    "one parameter": tool(one_parameter),
    "two parameters": tool(two_parameters),
    "optional": tool(optional),
    "typing.Optional": tool(old_optional),
    "quoted": tool(quoted),
    "own schema": with_schema(one_parameter, Place),
    "own schema, optional": with_schema(optional, Place),
    "own schema, an annotation beside it unresolvable": with_schema(mixed_with_unresolvable, Place),
    "dict schema": with_schema(two_parameters, PLAIN_SCHEMA),
    "dict schema that shows it": with_schema(two_parameters, LEAKY_SCHEMA),
    "tool class": OwnRun(),
    "tool class, optional": OwnRunOptional(),
    "async tool class": OwnAsync(),
    "tool class without schema": WithoutSchema(),
    "bound method": Method().where,
    "callable object": Method(),
    "partial": functools.partial(bare),
    "tool of a bound method": tool(Method().where),
    "callable object with own schema": with_schema(Method(), Place),
    "partial with own schema": with_schema(functools.partial(optional), Place),
    "wrapped": functools.wraps(one_parameter)(lambda location, rt: bare(location, runtime=rt)),
}


@pytest.mark.parametrize("form", RUNTIME_FORMS)
def test_the_runtime_is_injected_and_hidden_from_the_model(form: str) -> None:
    the_tool = prepare(RUNTIME_FORMS[form]).tool
    seen = convert_to_openai_tool(the_tool)["function"]["parameters"]
    assert set(seen["properties"]) - {"there", "kwargs", "_"} == {"location"}
    assert "rt" not in seen.get("required", [])
    assert run(the_tool) == "Rome ann c1 hi"


def test_a_context_that_exists_only_in_a_function_does_not_hinder_the_injection() -> None:
    class Local(TypedDict):
        user: str

    def where(location: str, rt: ToolRuntime[Local]) -> str:
        return shown(location, rt)

    assert run(with_schema(where, Place)) == "Rome ann c1 hi"


def test_the_whole_state_is_the_very_state_also_where_the_annotation_knows_less() -> None:
    def dicts(location: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Where."""
        return f"{location} {sorted(state)}"

    def narrow(location: str, state: Annotated[Narrow, InjectedState()], runtime: ToolRuntime) -> str:
        """Where."""
        return f"{location} {sorted(state)} {state is runtime.state}"

    def both(location: str, state: Annotated[dict[str, Any], InjectedState] | None = None) -> str:
        """Where."""
        return f"{location} {sorted(state or {})}"

    full = {"basket": ["cup"]}
    assert run(_local(dicts, locals()), full) == "Rome ['basket', 'messages']"
    assert run(_local(narrow, locals()), full) == "Rome ['basket', 'messages'] True"
    assert run(_local(both, locals()), full) == "Rome ['basket', 'messages']"
    assert run(with_schema(lambda location, state: f"{location} {len(state)}", WithState), full) == "Rome 2"


def _local(function: Any, names: dict[str, Any]) -> BaseTool:
    """A tool of a function whose annotations are strings: resolved here, where their names exist."""
    function.__annotations__ = {
        name: eval(text, globals() | names) if isinstance(text, str) else text  # noqa: S307 - our own text
        for name, text in function.__annotations__.items()
    }
    made: BaseTool = tool(function)
    return made


def test_a_state_field_that_is_not_set_gives_the_default_or_none_or_a_clear_error() -> None:
    def required(location: str, basket: Annotated[list[str], InjectedState("basket")]) -> str:
        """Where."""
        return f"{basket}"

    def nullable(location: str, basket: Annotated[list[str] | None, InjectedState("basket")]) -> str:
        """Where."""
        return f"{basket}"

    def defaulted(location: str, basket: Annotated[tuple[str, ...], InjectedState("basket")] = ("cup",)) -> str:
        """Where."""
        return f"{basket}"

    for function, unset, filled in ((nullable, "None", "['pot']"), (defaulted, "('cup',)", "('pot',)")):
        assert run(_local(function, {})) == unset
        assert run(_local(function, {}), {"basket": ["pot"]}) == filled
    assert run(_local(required, {}), {"basket": ["pot"]}) == "['pot']"
    with pytest.raises(ConfigurationError, match=r"'required' wants the state field 'basket'.*default, or allow None"):
        run(_local(required, {}))


def test_the_store_is_injected_or_missed_with_a_clear_error() -> None:
    def required(location: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Where."""
        store.put(("a",), "k", {"v": location})
        item = store.get(("a",), "k")
        return item.value["v"] if item else "lost"

    def nullable(location: str, store: Annotated[BaseStore | None, InjectedStore()]) -> str:
        """Where."""
        return f"{store}"

    def defaulted(location: str, store: Annotated[Any, InjectedStore()] = "mine") -> str:
        """Where."""
        return f"{store}"

    assert run(_local(required, {}), store=InMemoryStore()) == "Rome"
    assert run(_local(nullable, {})) == "None"
    assert run(_local(defaulted, {})) == "mine"
    with pytest.raises(ConfigurationError, match=r"'required' wants the store .* create_agent\(\.\.\., store="):
        run(_local(required, {}))


def test_the_call_id_the_config_and_hidden_arguments() -> None:
    def act(
        location: str,
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
        own: Annotated[str, InjectedToolArg] = "kept",
    ) -> str:
        """Act."""
        return f"{location} {call_id} {config['metadata']['langgraph_node']} {own}"

    the_tool = _local(act, {})
    assert run(the_tool) == "Rome c1 tools kept"
    assert set(convert_to_openai_tool(the_tool)["function"]["parameters"]["properties"]) == {"location"}


def test_the_analysis_names_each_parameter_once() -> None:
    def act(a: Annotated[dict[str, Any], InjectedState], b: Annotated[Any, InjectedState("x")] = None) -> str:
        """Act."""
        return ""

    assert analyse(_local(act, {})).parameters == (
        Injected("a", "state"),
        Injected("b", "field", "x", has_default=True),
    )


def test_a_function_without_a_signature_has_nothing_injected() -> None:
    assert analyse(with_schema(min, Place)).parameters == ()


def test_contradicting_marks_are_refused_when_the_tool_is_prepared() -> None:
    def act(a: Annotated[Any, InjectedState("x"), InjectedStore()]) -> str:
        """Act."""
        return ""

    with pytest.raises(ConfigurationError, match=r"parameter 'a' of the tool 'act' is marked to get.*Keep one"):
        prepare(_local(act, {}))
