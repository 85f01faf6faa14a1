"""From a name to a chat model, fixed or chosen by the config of a run."""

import asyncio
import copy
import importlib.metadata
import pickle
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from pydantic import BaseModel

import agentgraph.models
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models import BaseChatModel, init_chat_model
from agentgraph.models import registry as registry_module
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.registry import INTEGRATIONS, PROVIDERS, Integration, Provider, split_model
from tests.models.openai_asking import WAYS, Asking
from tests.models.openai_peer import KEY, OpenAIPeer


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class City(BaseModel):
    """A city."""

    name: str


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture
def peer() -> Iterator[OpenAIPeer]:
    with OpenAIPeer() as running:
        yield running


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai:gpt-4o", None, "gpt-4o"),
        ("OpenAI:gpt-4o", None, "gpt-4o"),
        ("gpt-4o", "openai", "gpt-4o"),
        ("openai:gpt-4o", "openai", "gpt-4o"),
        ("qwen3:8b", "openai", "qwen3:8b"),
        ("openai:qwen3:8b", None, "qwen3:8b"),
        ("GPT-4o", None, "GPT-4o"),
        ("o3-mini", None, "o3-mini"),
        ("ft:gpt-4o-mini:acme", None, "ft:gpt-4o-mini:acme"),
        ("chatgpt-4o-latest", None, "chatgpt-4o-latest"),
    ],
)
def test_a_name_with_or_without_its_provider_is_a_model(model: str, provider: str | None, name: str) -> None:
    built = init_chat_model(model, model_provider=provider, temperature=0)
    assert isinstance(built, ChatOpenAI)
    assert (built.model, built.provider, built.temperature) == (name, "openai", 0)


def test_a_compatible_provider_has_its_own_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.test/v1")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-deepseek")
    built = init_chat_model("deepseek-chat")
    assert isinstance(built, ChatOpenAI)
    assert (built.provider, built.base_url) == ("deepseek", "https://api.deepseek.com/v1")
    assert built.api_key is not None
    assert built.api_key.get_secret_value() == "sk-deepseek"


def test_a_provider_of_a_package_is_sent_its_own_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    row = Provider("acme", "agentgraph.models.openai:ChatOpenAI", ("ACME_API_KEY",))
    model = row.build("m", {"base_url": "https://llm.acme.test"})
    assert isinstance(model, ChatOpenAI)
    assert (model.api_key, model.provider, model.key_variables) == (None, "acme", ("ACME_API_KEY",))


def test_space_around_a_name_is_no_part_of_it() -> None:
    assert split_model(" OpenAI : gpt-4o ", None) == ("openai", "gpt-4o")


@pytest.mark.parametrize("name", ["opnai:gpt-4o", "gpt-4o"])
def test_an_unknown_provider_is_an_error_with_the_known_ones_and_the_nearest(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        init_chat_model(name, model_provider=None if ":" in name else "open-ai2")
    assert "Did you mean 'openai'?" in str(caught.value)
    assert all(known in str(caught.value) for known in (*PROVIDERS, *INTEGRATIONS))


@pytest.mark.parametrize("name", ["some-model", "llama"])
def test_a_name_that_tells_no_provider_is_an_error_that_shows_how_to_write_it(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"provider:{name}"):
        init_chat_model(name)


def test_a_provider_without_a_model_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="openai:<model>"):
        init_chat_model("openai:")


def test_a_model_object_is_no_name() -> None:
    with pytest.raises(ConfigurationTypeError, match="FakeListChatModel"):
        init_chat_model(FakeListChatModel(responses=["x"]))  # type: ignore[call-overload]  # what is tested


@pytest.mark.parametrize(("name", "provider"), [("command-r", "cohere"), ("sonar-pro", "perplexity")])
def test_a_provider_of_an_integration_that_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str, provider: str
) -> None:
    row = INTEGRATIONS[provider]
    monkeypatch.setitem(sys.modules, row.path.partition(":")[0], None)
    with pytest.raises(ConfigurationError, match=f"pip install {row.package}"):
        init_chat_model(name)


@pytest.mark.parametrize(
    ("name", "built"),
    [
        ("claude-sonnet-4-5", "ChatAnthropic"),
        ("gemini-2.5-flash", "ChatGemini"),
        ("ollama:qwen3:8b", "ChatOllama"),
        ("openai_responses:gpt-5", "ChatOpenAIResponses"),
        ("gpt-5", "ChatOpenAI"),
    ],
)
def test_each_wire_format_has_a_name(name: str, built: str) -> None:
    model = init_chat_model(name)
    assert type(model).__name__ == built
    assert model.model == (name.partition(":")[2] or name)  # type: ignore[attr-defined]  # of each of these


def test_an_installed_integration_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(**arguments: Any) -> BaseChatModel:
        return FakeListChatModel(responses=[repr(arguments)])

    monkeypatch.setitem(sys.modules, "langchain_acme", SimpleNamespace(ChatAcme=build))
    row = Integration("langchain-acme", "langchain_acme:ChatAcme", ("acme-",), "model_id")
    monkeypatch.setattr(registry_module, "INTEGRATIONS", {"acme": row})
    assert init_chat_model("acme-1", temperature=0).invoke("Hi").content == "{'model_id': 'acme-1', 'temperature': 0}"


def test_packages_add_providers_and_a_broken_one_is_only_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Provider("acme", "agentgraph.models.openai:ChatOpenAI", defaults={"base_url": "https://llm.acme.test/v1"})
    points = [
        SimpleNamespace(name="acme", value="acme:row", load=lambda: good),
        SimpleNamespace(name="odd", value="odd:row", load=lambda: "not a provider"),
        SimpleNamespace(name="bad", value="bad:row", load=lambda: 1 / 0),
        SimpleNamespace(name="openai", value="evil:row", load=lambda: Provider("openai", "evil:Model")),
    ]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: points)
    registry_module._foreign_providers.cache_clear()
    try:
        with pytest.warns(UserWarning, match="'odd'.*left out"), pytest.warns(UserWarning, match="'bad'"):
            acme = init_chat_model("acme:big")
        assert isinstance(acme, ChatOpenAI)
        assert (acme.model, acme.base_url) == ("big", "https://llm.acme.test/v1")
        assert isinstance(init_chat_model("openai:gpt-4o"), ChatOpenAI)
    finally:
        registry_module._foreign_providers.cache_clear()
    assert importlib.metadata.entry_points(group="agentgraph.models") is not None


# Configurable models


def run_config(**configurable: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", **configurable}}


def configured(model: Any, config: RunnableConfig) -> Any:
    """Bind a config as a caller of `ask` cannot pass one."""
    return SimpleNamespace(
        invoke=lambda prompt: model.invoke(prompt, config),
        ainvoke=lambda prompt: model.ainvoke(prompt, config),
        stream=lambda prompt: model.stream(prompt, config),
        astream=lambda prompt: model.astream(prompt, config),
    )


def test_a_run_chooses_the_model(peer: OpenAIPeer, ask: Asking) -> None:
    model = init_chat_model(base_url=peer.url, api_key=KEY)
    for name in ("openai:gpt-4o", "o3-mini"):
        message = ask(configured(model, run_config(model=name)), "Hi")
        assert message.response_metadata["model_name"] == name.removeprefix("openai:")


def test_what_is_recorded_is_applied_to_the_chosen_model(peer: OpenAIPeer, ask: Asking) -> None:
    model = init_chat_model(base_url=peer.url, api_key=KEY).bind_tools([add], tool_choice="any").bind(seed=3)
    message = ask(configured(model, run_config(model="openai:gpt-4o")), "3 and 3?")
    assert [call["args"] for call in message.tool_calls] == [{"a": 3, "b": 3}]
    assert peer.bodies[-1]["seed"] == 3


def test_a_recorded_schema_is_read_by_the_chosen_model(peer: OpenAIPeer) -> None:
    model = init_chat_model(base_url=peer.url, api_key=KEY).with_structured_output(City)
    assert model.invoke("It is 'Paris'", run_config(model="openai:gpt-4o")) == City(name="Paris")


def test_only_the_named_fields_can_be_set(peer: OpenAIPeer) -> None:
    model = init_chat_model("openai:gpt-4o", configurable_fields=("temperature",), base_url=peer.url, api_key=KEY)
    model.invoke("Hi", run_config(temperature=0.5, model="openai:other", base_url="http://evil.test"))
    assert (peer.bodies[-1]["model"], peer.bodies[-1]["temperature"]) == ("gpt-4o", 0.5)


def test_any_field_can_be_set_and_the_keys_of_langgraph_are_none(peer: OpenAIPeer) -> None:
    model = init_chat_model("openai:gpt-4o", configurable_fields="any", base_url=peer.url, api_key=KEY)
    model.invoke("Hi", run_config(seed=4, __pregel_x=1))
    assert peer.bodies[-1]["seed"] == 4


def test_a_prefix_tells_two_models_of_one_run_apart(peer: OpenAIPeer) -> None:
    both = [init_chat_model(config_prefix=prefix, base_url=peer.url, api_key=KEY) for prefix in ("judge", "writer_")]
    config = run_config(judge_model="openai:a", writer_model="openai:b", model="openai:c")
    assert [one.invoke("Hi", config).response_metadata["model_name"] for one in both] == ["a", "b"]


def test_with_config_sets_the_model_and_keeps_the_rest_of_the_config(peer: OpenAIPeer) -> None:
    model = init_chat_model(base_url=peer.url, api_key=KEY)
    chosen = model.with_config({"configurable": {"model": "openai:gpt-4o", "user": "ann"}, "tags": ["x"]})
    assert chosen.invoke("Hi").response_metadata["model_name"] == "gpt-4o"


def test_with_config_of_settings_alone_changes_only_the_model(peer: OpenAIPeer) -> None:
    model = init_chat_model(base_url=peer.url, api_key=KEY).with_config({"configurable": {"model": "openai:gpt-4o"}})
    assert model._steps == ()
    assert model.invoke("Hi").content == "Hello, you said: Hi"


def test_a_pickled_one_holds_no_key_and_a_copy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-environment")
    settings: dict[str, Any] = {
        "base_url": "http://me:hunter2@host/v1",
        "default_headers": {"x-tenant": "acme-7"},
        "max_tokens": 9,
    }
    model = init_chat_model("openai:m", configurable_fields=("model",), api_key=KEY, **settings)
    assert model.max_tokens == 9
    stored = pickle.dumps(model)
    assert [secret for secret in (KEY, "hunter2", "acme-7") if secret.encode() in stored] == []
    loaded = pickle.loads(stored)  # noqa: S301 our own
    assert (loaded.api_key.get_secret_value(), loaded.base_url, loaded.max_tokens) == (
        "sk-of-environment",
        "http://host/v1",
        9,
    )
    for other in (copy.copy(model), copy.deepcopy(model)):
        assert other.api_key.get_secret_value() == KEY


def test_a_run_that_names_no_model_is_told_where_to_name_it() -> None:
    with pytest.raises(ConfigurationError, match=r'\["judge_model"\]'):
        init_chat_model(config_prefix="judge").invoke("Hi")


def test_attributes_are_those_of_the_default_model_if_there_is_one() -> None:
    default = init_chat_model("openai:gpt-4o", configurable_fields=("model",))
    assert default.profile["tool_calling"] is True
    assert getattr(init_chat_model(), "profile", None) is None
    with pytest.raises(AttributeError, match="not known yet"):
        _ = init_chat_model().profile
    assert "gpt-4o" in repr(default)
    assert default.InputType == LanguageModelInput
    assert default.OutputType is AIMessage


def test_a_name_in_place_of_a_sequence_of_fields_is_refused() -> None:
    with pytest.raises(ConfigurationTypeError, match="temperature"):
        init_chat_model("openai:gpt-4o", configurable_fields="temperature")


def test_a_prefix_without_a_field_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="config_prefix"):
        init_chat_model("openai:gpt-4o", config_prefix="judge")


def test_batches_work(peer: OpenAIPeer) -> None:
    model = init_chat_model("openai:gpt-4o", configurable_fields=("model",), base_url=peer.url, api_key=KEY)
    assert [one.content for one in model.batch(["a", "b"])] == ["Hello, you said: a", "Hello, you said: b"]
    answers = asyncio.run(asyncio.wait_for(model.abatch(["a", "b"]), 20))
    assert [one.content for one in answers] == ["Hello, you said: a", "Hello, you said: b"]


def test_the_package_shows_and_knows_its_names_alone() -> None:
    assert set(agentgraph.models.__all__) <= set(dir(agentgraph.models))
    with pytest.raises(AttributeError, match="ChatWhatever"):
        _ = agentgraph.models.ChatWhatever


def test_naming_models_imports_neither_langchain_core_nor_an_http_library() -> None:
    code = (
        "import sys, agentgraph.models, agentgraph.models.registry, agentgraph.messages\n"
        "print([name for name in ('langchain_core', 'httpx', 'openai', 'pydantic') if name in sys.modules])\n"
        "import agentgraph.models.openai\n"
        "print([name for name in ('httpx', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 our own
    assert (done.stdout.splitlines(), done.returncode) == (["[]", "[]"], 0), done.stderr
