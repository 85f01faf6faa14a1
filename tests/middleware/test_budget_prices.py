"""Prices: the user's table, the table of the package, and the names of models."""

import sys
from decimal import Decimal

import pytest
from agentgraph.middleware._budget_prices import ModelName, Prices, Tokens, name_of
from langchain_core.messages import AIMessage

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import Budget, BudgetMiddleware, Degrade, Price, usage_of
from agentgraph.models.openai import ChatOpenAI
from agentgraph.testing import ScriptedModel, no_network

COUNTED = {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000}


class Named(ScriptedModel):
    model_name: str = "gpt-4o-mini"


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        (Tokens(1_000_000), "2"),
        (Tokens(0, 1_000_000), "8"),
        (Tokens(1_000_000, cache_read=500_000), "1.25"),
        (Tokens(1_000_000, cache_write=1_000_000), "3"),
        (Tokens(10, cache_read=20), "0.00001"),
    ],
)
def test_a_price_counts_each_kind_of_tokens(tokens, cost):
    assert Price(input=2, output=8.0, cached_input="0.5", cache_write=Decimal(3)).of(tokens) == Decimal(cost)


def test_without_prices_of_the_cache_its_tokens_cost_like_others():
    assert Price(input=2, output=8).of(Tokens(1_000_000, cache_read=500_000, cache_write=500_000)) == 2


@pytest.mark.parametrize("given", [-1, "x", float("inf"), "NaN"])
def test_what_is_no_price_is_refused(given):
    with pytest.raises(ConfigurationError, match="expected was an amount of US dollars, 0 or more"):
        Price(input=given, output=1)


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("gpt-5", True),
        ("openai:gpt-5", True),
        ("gpt-5-2025-08-07", True),
        ("azure:gpt-5", False),
        ("gpt", False),
        ("gpt-5-mini", False),
    ],
)
def test_a_price_is_found_by_name_with_and_without_provider_and_date(key, known):
    prices = Prices({key: Price(input=1, output=1)}, needed=True)
    name = ModelName("openai", "gpt-5-2025-08-07")
    if known:
        assert prices.cost(name, Tokens(1_000_000)) == 1
        return
    with pytest.raises(ConfigurationError, match="needs the price of the model 'gpt-5-2025-08-07'"):
        prices.cost(name, Tokens(1))


def test_the_price_with_the_provider_goes_first():
    prices = Prices({"m": Price(input=1, output=1), "azure:m": Price(input=3, output=3)}, needed=True)
    assert prices.cost(ModelName("azure", "m"), Tokens(1_000_000)) == 3


def test_models_are_called_by_their_own_names():
    model = ChatOpenAI(model="gpt-5", api_key="none")
    assert name_of(model) == name_of(model.bind(stop=["x"])) == ModelName("openai", "gpt-5")
    assert name_of(ScriptedModel("x")).name == "scripted"
    assert name_of(object()) == ModelName("", "object")


@no_network()
def test_without_a_table_the_data_of_the_package_count():
    model = Named("Hello.", usage=COUNTED)
    agent = create_agent(model, middleware=[BudgetMiddleware(Budget(cost=1))])
    assert usage_of(agent.invoke({"messages": "hi"})).cost == Decimal("0.15")


@no_network()
def test_a_model_that_the_package_does_not_know_is_refused_before_it_is_called():
    model = ScriptedModel("Never.")
    agent = create_agent(model, middleware=[BudgetMiddleware(Budget(cost=1))])
    with pytest.raises(ConfigurationError, match="is not in the data of genai-prices"):
        agent.invoke({"messages": "hi"})
    assert model.requests == []


def test_without_table_and_package_a_limit_of_money_is_refused_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'agentgraph-runtime\[prices\]'"):
        BudgetMiddleware(Budget(cost=1))
    assert BudgetMiddleware(Budget(tokens=1)).prices.cost(ModelName("", "m"), Tokens(5)) == 0


def test_a_cheaper_model_without_a_price_is_refused_at_once():
    limits = Budget(cost=1, on_exceeded=Degrade(ScriptedModel("x")))
    with pytest.raises(ConfigurationError, match="needs the price of the model 'scripted'"):
        BudgetMiddleware(limits, prices={"other": Price(input=1, output=1)})


def test_prices_without_a_limit_of_money_only_count():
    model = ScriptedModel(AIMessage("Hi.", usage_metadata=COUNTED), AIMessage("Ho.", usage_metadata=COUNTED))
    for prices, cost in (({"scripted": Price(input=2, output=1)}, 2), ({"other": Price(input=2, output=1)}, 0)):
        agent = create_agent(model, middleware=[BudgetMiddleware(prices=prices)])
        assert usage_of(agent.invoke({"messages": "hi"})).cost == cost


@pytest.mark.parametrize("table", [5, {5: Price(input=1, output=1)}, "gpt-5"])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ConfigurationTypeError, match="expected was a dict from names to Price objects"):
        BudgetMiddleware(prices=table)
