"""langchain-core's standard suites for chat models, against a server that checks like Anthropic's."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd, load
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from agentgraph.models.anthropic import ChatAnthropic
from tests.models.anthropic_peer import KEY, AnthropicPeer


@pytest.fixture(scope="class")
def peer(request: pytest.FixtureRequest) -> Iterator[AnthropicPeer]:
    with AnthropicPeer() as running:
        request.cls.peer_url = running.url
        yield running


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatAnthropic

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "claude-sonnet-4-5", "api_key": KEY}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://localhost:1"}
        return environment, {"model": "claude-sonnet-4-5"}, {"api_key": KEY, "base_url": "http://localhost:1"}

    def test_no_overrides_DO_NOT_OVERRIDE(self) -> None:  # noqa: N802 the suite's name
        """One is: langchain-core loads classes from a list of its own packages, or from one that is given."""
        ours = {name for name in vars(TestUnit) if name.startswith("test_")}
        assert ours == {"test_no_overrides_DO_NOT_OVERRIDE", "test_serdes"}

    @pytest.mark.filterwarnings("ignore:The function `load` is in beta")
    def test_serdes(self, model: BaseChatModel, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[override]  # other fixtures
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        dumped = dumpd(model)
        kwargs = {key: value for key, value in dumped["kwargs"].items() if key not in {"metadata", "profile"}}
        assert {**dumped, "kwargs": kwargs} == {
            "lc": 1,
            "type": "constructor",
            "id": ["agentgraph", "models", "anthropic", "ChatAnthropic"],
            "name": "ChatAnthropic",
            "kwargs": {
                "model": "claude-sonnet-4-5",
                "provider": "anthropic",
                "key_variables": ["ANTHROPIC_API_KEY"],
                "api_key": {"lc": 1, "type": "secret", "id": ["ANTHROPIC_API_KEY"]},
                "temperature": 0.0,
                "max_tokens": 100,
                "timeout": 60.0,
                "stop": [],
                "max_retries": 2,
                "anthropic_version": "2023-06-01",
            },
        }
        loaded = load(dumped, allowed_objects=[ChatAnthropic], valid_namespaces=["agentgraph"], secrets_from_env=True)
        assert loaded == model


@pytest.mark.usefixtures("peer")
class TestAgainstAPeer(ChatModelIntegrationTests):
    peer_url = ""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatAnthropic

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "claude-sonnet-4-5", "api_key": KEY, "base_url": self.peer_url}

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "claude-haiku-4-5"

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(
        self,
    ) -> dict[
        Literal["invoke", "stream"],
        list[Literal["audio_input", "audio_output", "reasoning_output", "cache_read_input", "cache_creation_input"]],
    ]:
        known: Any = ["reasoning_output", "cache_read_input", "cache_creation_input"]
        return {"invoke": known, "stream": known}

    def _asked(self, *, stream: bool) -> AIMessage:
        model = ChatAnthropic(**self.chat_model_params)
        if not stream:
            return model.invoke("Hi")
        total: Any = None
        for chunk in model.stream("Hi"):
            total = chunk if total is None else total + chunk
        assert isinstance(total, AIMessage)
        return total

    def invoke_with_cache_creation_input(self, *, stream: bool = False) -> AIMessage:
        return self._asked(stream=stream)

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        return self._asked(stream=stream)

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        return self._asked(stream=stream)


class TestAgainstAPeerByFunctionCalling(TestAgainstAPeer):
    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "function_calling"}
