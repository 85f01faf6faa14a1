"""langchain-core's standard suites for chat models, against a server that checks like Gemini's."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumpd, load
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from agentgraph.models.gemini import ChatGemini
from tests.models.gemini_asking import KEY
from tests.models.gemini_peer import GeminiPeer


@pytest.fixture(scope="class")
def peer(request: pytest.FixtureRequest) -> Iterator[GeminiPeer]:
    with GeminiPeer() as running:
        request.cls.peer_url = running.url
        yield running


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatGemini

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gemini-2.5-flash", "api_key": KEY}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {"GOOGLE_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "http://localhost:1"}
        return environment, {"model": "gemini-2.5-flash"}, {"api_key": KEY, "base_url": "http://localhost:1"}

    def test_no_overrides_DO_NOT_OVERRIDE(self) -> None:  # noqa: N802 the suite's name
        """One is: langchain-core loads classes from a list of its own packages, or from one that is given."""
        ours = {name for name in vars(TestUnit) if name.startswith("test_")}
        assert ours == {"test_no_overrides_DO_NOT_OVERRIDE", "test_serdes"}

    @pytest.mark.filterwarnings("ignore:The function `load` is in beta")
    def test_serdes(self, model: BaseChatModel, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[override]  # other fixtures
        monkeypatch.setenv("GOOGLE_API_KEY", KEY)
        dumped = dumpd(model)
        kwargs = {key: value for key, value in dumped["kwargs"].items() if key not in {"metadata", "profile"}}
        assert {**dumped, "kwargs": kwargs} == {
            "lc": 1,
            "type": "constructor",
            "id": ["agentgraph", "models", "gemini", "ChatGemini"],
            "name": "ChatGemini",
            "kwargs": {
                "model": "gemini-2.5-flash",
                "provider": "google_genai",
                "key_variables": ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
                "api_key": {"lc": 1, "type": "secret", "id": ["GOOGLE_API_KEY"]},
                "temperature": 0.0,
                "max_tokens": 100,
                "timeout": 60.0,
                "stop": [],
                "max_retries": 2,
            },
        }
        loaded = load(dumped, allowed_objects=[ChatGemini], valid_namespaces=["agentgraph"], secrets_from_env=True)
        assert loaded == model


@pytest.mark.usefixtures("peer")
class TestAgainstAPeer(ChatModelIntegrationTests):
    peer_url = ""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatGemini

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gemini-2.5-flash", "api_key": KEY, "base_url": self.peer_url}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "gemini-2.5-pro"

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {}


class TestNewerModelAgainstAPeer(TestAgainstAPeer):
    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gemini-3-pro-preview", "api_key": KEY, "base_url": self.peer_url}

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "function_calling"}
