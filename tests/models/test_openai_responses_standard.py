"""langchain-core's standard suites for chat models, against a server that checks like OpenAI's Responses API."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd, load
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from agentgraph.models.openai_responses import ChatOpenAIResponses
from tests.models.openai_responses_asking import KEY
from tests.models.openai_responses_peer import ResponsesPeer


@pytest.fixture(scope="class")
def peer(request: pytest.FixtureRequest) -> Iterator[ResponsesPeer]:
    with ResponsesPeer() as running:
        request.cls.peer_url = running.url
        yield running


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAIResponses

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gpt-4o", "api_key": KEY}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://localhost:1/v1"}
        return environment, {"model": "gpt-4o"}, {"api_key": KEY, "base_url": "http://localhost:1/v1"}

    def test_no_overrides_DO_NOT_OVERRIDE(self) -> None:  # noqa: N802 the suite's name
        """One is: langchain-core loads classes from a list of its own packages, or from one that is given."""
        ours = {name for name in vars(TestUnit) if name.startswith("test_")}
        assert ours == {"test_no_overrides_DO_NOT_OVERRIDE", "test_serdes"}

    @pytest.mark.filterwarnings("ignore:The function `load` is in beta")
    def test_serdes(self, model: BaseChatModel, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[override]  # other fixtures
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        dumped = dumpd(model)
        kwargs = {key: value for key, value in dumped["kwargs"].items() if key not in {"metadata", "profile"}}
        assert {**dumped, "kwargs": kwargs} == {
            "lc": 1,
            "type": "constructor",
            "id": ["agentgraph", "models", "openai_responses", "ChatOpenAIResponses"],
            "name": "ChatOpenAIResponses",
            "kwargs": {
                "model": "gpt-4o",
                "provider": "openai",
                "key_variables": ["OPENAI_API_KEY"],
                "api_key": {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
                "temperature": 0.0,
                "max_tokens": 100,
                "timeout": 60.0,
                "stop": [],
                "max_retries": 2,
            },
        }
        allowed = [ChatOpenAIResponses]
        assert load(dumped, allowed_objects=allowed, valid_namespaces=["agentgraph"], secrets_from_env=True) == model


@pytest.mark.usefixtures("peer")
class TestAgainstAPeer(ChatModelIntegrationTests):
    peer_url = ""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAIResponses

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gpt-4o", "api_key": KEY, "base_url": self.peer_url}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "gpt-4o-mini"

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {}


class TestAgainstAPeerByFunctionCalling(TestAgainstAPeer):
    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "function_calling"}
