"""What people write who come from another client: each is told what does the same here."""

import importlib
from typing import Any

import pytest

from agentgraph import create_agent, init_chat_model, models
from agentgraph.errors import ConfigurationError
from agentgraph.models.azure_openai import ChatAzureOpenAI
from agentgraph.models.openai import ChatOpenAI

URL = "https://acme.test"


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("organization", 'give default_headers={"OpenAI-Organization": ...}.'),
        ("openai_organization", 'give default_headers={"OpenAI-Organization": ...}.'),
        ("model_kwargs", "parameters of the API are arguments here; what is none goes into extra_body={...}."),
        ("use_responses_api", 'a class, ChatOpenAIResponses, and a name, "openai_responses:<model>".'),
        ("extra_headers", "headers of every request are default_headers={...}."),
        ("openai_proxy", "give an httpx client that has it as http_client= (for async calls http_async_client=)."),
        ("verify", "Your own certificate authority can also be named in SSL_CERT_FILE."),
        ("azure_ad_token_provider", "or a token as auth_token=."),
        ("mirostat", "give parameters of the server in extra_body={...}."),
        ("temprature", "did you mean 'temperature'?"),
    ],
)
def test_an_argument_of_another_client_is_told_with_what_does_the_same(argument: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        init_chat_model("openai:m", **{argument: "a-secret"})
    text = str(caught.value)
    assert text.startswith(f"ChatOpenAI cannot be built: there is no argument {argument!r}; ")
    assert (text.endswith(says), "a-secret" in text) == (True, False)


@pytest.mark.parametrize("name", sorted(models._ELSEWHERE))
def test_a_class_of_a_module_below_is_told_from_the_package(name: str) -> None:
    module = models._ELSEWHERE[name]
    assert hasattr(importlib.import_module(module), name)
    told = f"module 'agentgraph.models' has no attribute '{name}'; it is in {module}: from {module} import {name}"
    with pytest.raises(ImportError) as imported:
        exec(f"from agentgraph.models import {name}", {})  # noqa: S102 (an import line, as a reader writes it)
    with pytest.raises(AttributeError) as asked:
        getattr(models, name)
    assert (str(imported.value), str(asked.value)) == (told, told)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("gemini:flash", "google_genai"), ("mistral:large", "mistralai"), ("Claude:x", "anthropic"), ("grok:4", "xai")],
)
def test_the_name_of_a_family_in_a_providers_place_is_no_part_of_the_model(name: str, meant: str) -> None:
    head = name.partition(":")[0].lower()
    with pytest.raises(ConfigurationError, match=f"^Unknown model provider '{head}'. Did you mean '{meant}'"):
        init_chat_model(name)


@pytest.mark.parametrize(
    ("name", "provider"), [("ft:gpt-4o:acme::1", "openai"), ("deepseek-r1:8b", "deepseek"), ("deepseek:x", "deepseek")]
)
def test_a_colon_inside_a_name_stays_there(name: str, provider: str) -> None:
    built: Any = init_chat_model(name)
    assert (built.provider, built.model) == (provider, name.removeprefix("deepseek:"))


@pytest.mark.parametrize("argument", ["azure_deployment", "deployment_name"])
def test_a_deployment_at_azure_is_named_like_its_model_where_nothing_else_is_said(argument: str) -> None:
    where: dict[str, Any] = {"azure_endpoint": URL}
    named: dict[str, Any] = {argument: "gpt-4o"}
    built = ChatAzureOpenAI(**where, **named)
    assert (built.model, built.azure_deployment) == ("gpt-4o", "gpt-4o")
    both = ChatAzureOpenAI(model="gpt-4o", **where, **{**named, argument: "ours"})
    assert (both.model, both.azure_deployment) == ("gpt-4o", "ours")
    with pytest.raises(ConfigurationError, match="model: Field required"):
        ChatAzureOpenAI(**where)


def test_a_model_wrapped_for_retries_is_told_what_does_the_same() -> None:
    wrapped: Any = ChatOpenAI(model="m", base_url=URL).with_retry()
    with pytest.raises(ConfigurationError, match=r"^RunnableRetry is no chat model .* max_retries= of the model"):
        create_agent(wrapped, [lookup]).invoke({"messages": "Hi"})


def lookup(word: str) -> str:
    """Look up a word."""
    return word
