"""Tool selection: what the model is shown, unusable answers, and what is refused."""

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError, RunError, ServerError
from agentgraph.middleware import AgentMiddleware, LLMToolSelectorMiddleware, ToolSelectionError, wrap_model_call
from agentgraph.testing import FunctionModel, ScriptedModel, assert_messages, tool_call
from tests.middleware.approving import WAYS

BETA = pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol:langchain_core._api.beta_decorator.LangChainBetaWarning"
)


def weather(city: str) -> str:
    """Get the weather."""
    return f"sunny in {city}"


def stocks(name: str) -> str:
    """Get a price."""
    return "7"


def mail(to: str) -> str:
    """Send a mail."""
    return "sent"


ALL = ["weather", "stocks", "mail"]


def choice(*names, **args):
    return tool_call("ToolSelectionResponse", **(args or {"tools": list(names)}))


def selected(run, *answers, before=(), tools=(weather, stocks, mail), says="hi", **options):
    """The names that the agent's model was shown, and the model that chose them."""
    chooser, model = ScriptedModel(*answers), ScriptedModel("Done.")
    selector = LLMToolSelectorMiddleware(model=chooser, **options)
    result = run(create_agent(model, list(tools), middleware=[*before, selector]), {"messages": says})
    chooser.assert_played()
    assert result["messages"][-1].text == "Done."
    return [one if isinstance(one, str) else one["type"] for one in model.requests[0].tools], chooser


@WAYS
@pytest.mark.parametrize(
    ("answers", "options", "expected"),
    [
        ([choice("mail", "weather")], {}, ["weather", "mail"]),
        ([choice("mail", "weather")], {"max_tools": 1}, ["mail"]),
        ([choice("mail", "mail", "weather")], {"max_tools": 2}, ["weather", "mail"]),
        ([choice("mail")], {"always_include": ["weather"], "max_tools": 1}, ["weather", "mail"]),
        ([choice(tools=[])], {}, []),
        ([choice("nonsense", "mail")], {}, ["mail"]),
        ([choice(tools=[3, None, "mail"])], {}, ["mail"]),
        ([choice("nonsense"), choice("mail")], {}, ["mail"]),
        ([choice(wrong=1), choice("mail")], {}, ["mail"]),
        (["In prose.", choice("mail")], {}, ["mail"]),
        ([choice(tools="mail"), choice(tools={}), choice("mail")], {"max_retries": 2}, ["mail"]),
        ([OutputParserException("half a JSON"), choice("mail")], {}, ["mail"]),
        ([choice(wrong=1)], {"max_retries": 0, "on_parsing_failure": "all", "max_tools": 1}, ALL),
        ([choice(wrong=1)], {"max_retries": 0, "on_parsing_failure": "none"}, []),
        (
            [choice(wrong=1)],
            {"max_retries": 0, "on_parsing_failure": "none", "always_include": ["mail"]},
            ["mail"],
        ),
        (
            [choice(wrong=1)],
            {"max_retries": 0, "on_parsing_failure": ["weather", "mail"], "max_tools": 1},
            ["weather", "mail"],
        ),
        (
            [choice(wrong=1)],
            {"max_retries": 0, "on_parsing_failure": lambda given: ["mail"] if given == {"wrong": 1} else []},
            ["mail"],
        ),
    ],
)
def test_the_model_is_shown_the_chosen_tools(run, answers, options, expected):
    assert selected(run, *answers, **options)[0] == expected


@WAYS
def test_the_choosing_model_reads_the_tools_and_the_last_message_of_the_user(run):
    says = [HumanMessage("Old."), AIMessage("Yes?"), HumanMessage("Rain in Rome?")]
    _, chooser = selected(run, choice("stocks"), says=says, system_prompt="Choose.", always_include=["weather"])
    told = "Choose.\n\nThe tools:\n- stocks: Get a price.\n- mail: Send a mail."
    (request,) = chooser.requests
    assert_messages(request.messages, [SystemMessage(told), HumanMessage("Rain in Rome?")])
    assert request.tools == ["ToolSelectionResponse"]


@WAYS
def test_the_choosing_model_is_told_of_the_limit_and_of_an_unusable_answer(run):
    _, chooser = selected(run, choice("x"), choice("mail"), max_tools=2)
    first, second = (request.messages[0].text for request in chooser.requests)
    assert "only the first 2 are taken" in first
    assert second == (
        f"{first}\n\nYour last answer could not be used. Answer with an object whose `tools` is a list of names, spelt "
        "exactly as in the list above."
    )


@WAYS
def test_provider_tools_stay(run):
    provided = {"type": "web_search_20250305", "name": "web_search"}
    shown, _ = selected(run, choice("mail"), tools=[weather, mail, provided])
    assert shown == ["mail", "web_search"]


@WAYS
@pytest.mark.parametrize("wanted", ["stocks", {"type": "function", "function": {"name": "stocks"}}])
def test_a_tool_that_is_demanded_is_shown_and_not_chosen(run, wanted):
    class Demanding(AgentMiddleware):
        def model_call(self, request):
            return (yield request.override(tool_choice=wanted))

    chooser, model = ScriptedModel(choice("mail")), ScriptedModel(tool_call("stocks", name="x"), "Done.")
    demanding = Demanding()
    selector = LLMToolSelectorMiddleware(model=chooser, max_tools=1)
    once = create_agent(model, [weather, stocks, mail], middleware=[demanding, selector], interrupt_after=["model"])
    run(once, {"messages": "hi"})
    assert model.requests[0].tools == ["stocks", "mail"]
    assert "stocks" not in chooser.requests[0].messages[0].text


@WAYS
def test_by_default_the_model_of_the_request_chooses(run):
    model = ScriptedModel(choice("mail"), "Done.")
    run(create_agent(model, [weather, mail], middleware=[LLMToolSelectorMiddleware()]), {"messages": "hi"})
    assert [request.tools for request in model.requests] == [["ToolSelectionResponse"], ["mail"]]


@WAYS
@pytest.mark.parametrize(
    ("tools", "says", "options"),
    [
        ([], "hi", {}),
        ([weather], "hi", {"always_include": ["weather"]}),
        ([{"type": "web_search_20250305", "name": "web_search"}], "hi", {}),
        ([weather], [AIMessage("I am here.")], {}),
    ],
    ids=["no tools", "all included", "provider tools only", "no message of a user"],
)
def test_nobody_is_asked_where_there_is_nothing_to_choose(run, tools, says, options):
    shown, _ = selected(run, tools=tools, says=says, **options)
    assert len(shown) == len(tools)


@WAYS
def test_an_answer_that_stays_unusable_is_a_typed_error(run):
    with pytest.raises(ToolSelectionError) as caught:
        selected(run, choice(wrong=1), choice(wrong=2))
    assert isinstance(caught.value, RunError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == (
        "The model that chooses the tools gave {'wrong': 2}, after it was asked 2 time(s); expected was "
        "{'tools': [...]} with names of these: weather, stocks, mail. Raise max_retries, take a model that is better "
        "at structured output, or set on_parsing_failure."
    )


@WAYS
def test_an_error_of_the_choosing_model_is_raised_as_it_is(run):
    with pytest.raises(ServerError, match="down"):
        selected(run, ServerError("down"), on_parsing_failure="all")


@WAYS
def test_an_error_of_the_agents_model_is_no_unusable_choice(run):
    model = ScriptedModel(OutputParserException("bad"))
    selector = LLMToolSelectorMiddleware(model=ScriptedModel(choice("mail")))
    with pytest.raises(OutputParserException, match="bad"):
        run(create_agent(model, [weather, mail], middleware=[selector]), {"messages": "hi"})


@WAYS
@pytest.mark.parametrize(
    "options",
    [{"always_include": ["male"]}, {"on_parsing_failure": ["male"]}, {"on_parsing_failure": lambda _: ["male"]}],
)
def test_a_name_that_is_no_tool_is_refused_in_the_run(run, options):
    answers = [choice(wrong=1)] if "on_parsing_failure" in options else []
    with pytest.raises(ConfigurationError, match="names 'male', which is no tool of this request; it has weather"):
        selected(run, *answers, max_retries=0, **options)


@WAYS
def test_a_function_that_returns_no_names_is_refused(run):
    with pytest.raises(ConfigurationTypeError, match="on_parsing_failure gives 'mail'"):
        selected(run, choice(wrong=1), max_retries=0, on_parsing_failure=lambda _: "mail")


@WAYS
def test_a_model_without_structured_output_cannot_choose(run):
    selector = LLMToolSelectorMiddleware(model=FakeListChatModel(responses=["x"]))
    with pytest.raises(ConfigurationError, match="FakeListChatModel has no structured output"):
        run(create_agent(ScriptedModel(), [weather], middleware=[selector]), {"messages": "hi"})


@WAYS
def test_tools_are_chosen_anew_before_each_model_call(run):
    chooser = ScriptedModel(choice("weather"), choice("mail"))
    model = ScriptedModel(tool_call("weather", city="Rome"), "Done.")
    selector = LLMToolSelectorMiddleware(model=chooser)
    run(create_agent(model, [weather, mail], middleware=[selector]), {"messages": "hi"})
    assert [request.tools for request in model.requests] == [["weather"], ["mail"]]


@WAYS
def test_a_retry_around_it_chooses_again(run):
    @wrap_model_call
    def twice(request, handler):
        handler(request)
        return handler(request)

    chooser, model = ScriptedModel(choice("weather"), choice("mail")), ScriptedModel("No.", "Done.")
    selector = LLMToolSelectorMiddleware(model=chooser)
    run(create_agent(model, [weather, mail], middleware=[twice, selector]), {"messages": "hi"})
    assert [request.tools for request in model.requests] == [["weather"], ["mail"]]


def test_the_choice_is_not_streamed():
    selector = LLMToolSelectorMiddleware(model=ScriptedModel(choice("mail")))
    agent = create_agent(ScriptedModel("Done."), [weather, mail], middleware=[selector])
    pieces = [piece for piece, _ in agent.stream({"messages": "hi"}, stream_mode="messages")]
    assert "".join(piece.text for piece in pieces) == "Done."
    assert not any(getattr(piece, "tool_call_chunks", None) for piece in pieces)


@BETA
def test_the_choice_is_in_no_event_of_the_run():
    selector = LLMToolSelectorMiddleware(model=ScriptedModel(choice("mail")))
    agent = create_agent(ScriptedModel("Done."), [weather, mail], middleware=[selector])
    run = agent.stream_events({"messages": "hi"}, version="v3")
    assert [str(message.text) for message in run.messages] == ["Done."]


def test_one_selector_serves_many_runs_at_once():
    chooser = FunctionModel(lambda messages, _: choice(messages[-1].text))
    model = FunctionModel(lambda _, settings: settings["tools"][0]["function"]["name"])
    selector = LLMToolSelectorMiddleware(model=chooser)
    agent = create_agent(model, [weather, stocks, mail], middleware=[selector])
    wanted = ALL * 7
    results = agent.batch([{"messages": name} for name in wanted])
    assert [one["messages"][-1].text for one in results] == wanted


def test_tracers_see_why_the_model_was_called():
    seen = []

    class Chooser(ScriptedModel):
        def with_structured_output(self, schema, **kwargs):
            return RunnableLambda(lambda _, config: seen.append(config) or {"tools": ["mail"]})

    selector = LLMToolSelectorMiddleware(model=Chooser())
    create_agent(ScriptedModel("Done."), [weather, mail], middleware=[selector]).invoke({"messages": "hi"})
    assert seen[0]["tags"] == ["nostream"]
    assert seen[0]["metadata"]["lc_source"] == "tool_selection"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": 3}, "model is 3"),
        ({"model": "openia:gpt-5"}, "Did you mean 'openai'"),
        ({"system_prompt": 3}, "system_prompt is 3"),
        ({"max_tools": 0}, "max_tools is 0; expected was a number from 1 up"),
        ({"max_tools": True}, "max_tools is True"),
        ({"max_retries": -1}, "max_retries is -1; expected was a number from 0 up"),
        ({"always_include": "mail"}, "always_include gives 'mail'"),
        ({"always_include": [mail]}, "always_include gives"),
        ({"on_parsing_failure": "raise"}, "on_parsing_failure is 'raise'"),
        ({"on_parsing_failure": 3}, "on_parsing_failure gives 3"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, told):
    with pytest.raises(ConfigurationError, match=told):
        LLMToolSelectorMiddleware(**options)


def test_a_model_is_found_by_its_name():
    assert LLMToolSelectorMiddleware(model="openai:gpt-5").model.model == "gpt-5"
