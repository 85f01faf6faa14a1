"""Tool search at the provider: which tools are marked, which search is added, and which models have one."""

import pytest
from langchain_core.tools import BaseTool

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import ProviderToolSearchMiddleware, wrap_model_call
from agentgraph.models import init_chat_model
from agentgraph.models.openai import ChatOpenAI
from agentgraph.testing import ScriptedModel, tool_call
from agentgraph.tools import tool
from tests.middleware.approving import WAYS

BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
OPENAI = {"type": "tool_search"}
WEB = {"type": "web_search"}


class Claude(ScriptedModel):
    """A model that speaks Anthropic's API."""

    @property
    def _llm_type(self):
        return "anthropic-chat"


class Elsewhere(ScriptedModel):
    """A model of a package that says its provider to tracers alone."""

    provider: str = "openai"

    def _get_ls_params(self, stop=None, **kwargs):
        return {"ls_provider": self.provider}


class Silent(ScriptedModel):
    """A model that does not say whose it is."""

    def _get_ls_params(self, stop=None, **kwargs):
        return {}


@tool
def orders(customer: str) -> str:
    """List the orders."""
    return f"none of {customer}"


@tool
def weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


@tool(extras={"defer_loading": True, "cache_control": {"type": "ephemeral"}})
def ready(city: str) -> str:
    """Get the news."""
    return "none"


def shown(one):
    return (one.name, one.extras) if isinstance(one, BaseTool) else one


class Seen:
    """The tools of each request, as the model would be bound to them."""

    def __init__(self):
        self.tools = seen = []

        @wrap_model_call
        def look(request, handler):
            seen.append(request.tools)
            return handler(request.override(tools=[], model=ScriptedModel("Done.")))

        self.hook = look


def sent(run, model, tools, **options):
    seen = Seen()
    run(create_agent(model, tools, middleware=[ProviderToolSearchMiddleware(**options), seen.hook]), {"messages": "go"})
    return [shown(one) for one in seen.tools[0]]


MARK = {"defer_loading": True}


@WAYS
@pytest.mark.parametrize(
    ("tools", "options", "expected"),
    [
        ([orders, weather], {"searchable_tools": ["orders"]}, [("orders", MARK), ("weather", None), BM25]),
        ([orders, weather], {"searchable_tools": [orders]}, [("orders", MARK), ("weather", None), BM25]),
        ([orders, ready], {}, [("orders", None), ("ready", ready.extras), BM25]),
        ([ready], {"searchable_tools": ["ready"]}, [("ready", ready.extras), BM25]),
        ([orders, REGEX], {"searchable_tools": ["orders"]}, [("orders", MARK), REGEX]),
        ([orders, WEB], {"searchable_tools": ["orders"]}, [("orders", MARK), WEB, BM25]),
        ([orders, weather], {}, [("orders", None), ("weather", None)]),
        ([orders], {"searchable_tools": []}, [("orders", None)]),
        ([orders, {**WEB, **MARK}], {}, [("orders", None), {**WEB, **MARK}, BM25]),
    ],
)
def test_the_named_tools_are_marked_and_the_search_is_added_once(run, tools, options, expected):
    assert sent(run, Claude(), tools, **options) == expected
    assert (orders.extras, weather.extras) == (None, None)


@WAYS
@pytest.mark.parametrize(
    "given",
    [
        {"type": "function", "name": "orders", "parameters": {}},
        {"type": "function", "function": {"name": "orders"}},
        {"name": "orders", "input_schema": {}},
    ],
)
def test_a_tool_that_is_a_dict_can_be_looked_up_too(run, given):
    assert sent(run, Claude(), [given], searchable_tools=["orders"]) == [{**given, **MARK}, BM25]
    assert "defer_loading" not in given


CONFIGURED = init_chat_model("anthropic:claude-sonnet-4-5", configurable_fields=("model",))


@pytest.mark.parametrize(
    ("model", "search"),
    [
        (init_chat_model("anthropic:claude-sonnet-4-5"), BM25),
        (init_chat_model("openai_responses:gpt-5"), OPENAI),
        (Elsewhere(), OPENAI),
        (Elsewhere(provider="Anthropic"), BM25),
        (Claude().bind(temperature=0), BM25),
        (CONFIGURED, BM25),
        (CONFIGURED.with_config(tags=["x"]), BM25),
    ],
    ids=["ours", "ours, OpenAI", "foreign", "foreign, Anthropic", "bound", "configurable", "configured"],
)
def test_the_search_is_that_of_the_models_provider(model, search):
    run = create_agent
    seen = Seen()
    agent = run(model, [orders], middleware=[ProviderToolSearchMiddleware(searchable_tools=["orders"]), seen.hook])
    agent.invoke({"messages": "go"})
    assert [shown(one) for one in seen.tools[0]] == [("orders", MARK), search]


def test_a_model_that_the_run_chooses_counts():
    model = init_chat_model(configurable_fields="any")
    seen = Seen()
    search = ProviderToolSearchMiddleware(searchable_tools=["orders"])
    agent = create_agent(model, [orders], middleware=[search, seen.hook])
    for name in ("anthropic:claude-sonnet-4-5", "openai_responses:gpt-5"):
        agent.invoke({"messages": "go"}, {"configurable": {"model": name}})
    assert [tools[-1] for tools in seen.tools] == [BM25, OPENAI]


@WAYS
@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Silent(), r"Silent \(of an unknown provider\) has no search"),
        (Elsewhere(provider="groq"), r"Elsewhere \(groq\) has no search"),
        (ChatOpenAI(model="gpt-5", api_key="k"), "ChatOpenAI speaks Chat Completions.*'openai_responses:"),
    ],
    ids=["unknown", "groq", "chat completions"],
)
def test_a_model_without_a_search_is_refused_once_something_is_marked(run, model, told):
    with pytest.raises(ConfigurationError, match=told):
        sent(run, model, [orders], searchable_tools=["orders"])
    assert sent(run, model, [orders]) == [("orders", None)]


@WAYS
def test_a_name_that_is_no_tool_is_refused_in_the_run(run):
    with pytest.raises(
        ConfigurationError, match="names 'order', which is no tool of this request; it has orders, weat"
    ):
        sent(run, Claude(), [orders, weather, WEB], searchable_tools=["order"])


@WAYS
def test_a_tool_that_was_looked_up_runs_as_ever_and_the_model_is_bound_once(run):
    model = Claude(tool_call("orders", customer="ann", id="o"), "None.")
    search = ProviderToolSearchMiddleware(searchable_tools=["orders"])
    result = run(create_agent(model, [orders, weather], middleware=[search]), {"messages": "go"})
    assert [one.text for one in result["messages"]] == ["go", "", "none of ann", "None."]
    assert model.binds == 1
    assert list(result) == ["messages"]


def test_many_tools_do_not_fill_the_memory():
    search = ProviderToolSearchMiddleware(searchable_tools=["orders"])
    copies = [search._marked(orders.model_copy()) for _ in range(1_100)]
    assert len(search._copies) == 1_000
    assert search._marked(orders) is search._marked(orders) is not copies[0]


@pytest.mark.parametrize("given", ["orders", [3], 3])
def test_what_is_no_list_of_tools_is_refused_at_once(given):
    with pytest.raises(ConfigurationTypeError, match="tools"):
        ProviderToolSearchMiddleware(searchable_tools=given)
