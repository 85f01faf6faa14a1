"""Providers of packages that are not what they should be, and names that are none: each is told, and harms no other."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models import registry
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.registry import Provider, infer_provider, init_chat_model


class Point:
    """An entry point that loads this."""

    value = "acme_models:provider"

    def __init__(self, name: str, row: Any) -> None:
        self.name = name
        self._row = row

    def load(self) -> Any:
        return self._row


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Point]]:
    points: list[Point] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "agentgraph.models" else [])
    registry._foreign_providers.cache_clear()
    yield points
    registry._foreign_providers.cache_clear()


CHAT = "agentgraph.models.openai:ChatOpenAI"


@pytest.mark.parametrize(
    "row",
    [
        Provider("acme", CHAT, prefixes="acme-"),  # type: ignore[arg-type] # what a package may give
        Provider("acme", CHAT, ("KEY",), prefixes=("",)),
        Provider("acme", CHAT, key_variables="ACME_API_KEY"),  # type: ignore[arg-type] # likewise
        Provider(5, CHAT),  # type: ignore[arg-type] # likewise
        Provider("", CHAT),
        Provider("acme", None),  # type: ignore[arg-type] # likewise
        {"name": "acme"},
        None,
    ],
)
def test_a_row_that_cannot_be_is_left_out_with_a_warning(rows: list[Point], row: Any) -> None:
    rows += [Point("acme", row), Point("fine", Provider("fine", CHAT, ("FINE_KEY",), prefixes=("fine-",)))]
    with pytest.warns(UserWarning, match=r"'acme'.*left out"):
        assert infer_provider("command") == "cohere"
    assert infer_provider("acme-large") is None
    assert infer_provider("fine-large") == "fine"
    with pytest.raises(ConfigurationError, match=r"Unknown model provider 'acme'.*fine"):
        init_chat_model("acme:large")


def test_a_row_is_found_however_its_name_is_written(rows: list[Point]) -> None:
    rows.append(Point("acme", Provider("Acme-AI", CHAT, ("ACME_KEY",), defaults={"base_url": "http://acme.test/v1"})))
    for name in ("Acme-AI", "acme_ai"):
        built = init_chat_model(f"{name}:m")
        assert isinstance(built, ChatOpenAI)
        assert (built.model, built.base_url) == ("m", "http://acme.test/v1")


@pytest.mark.parametrize(
    "path", ["gone_models:Chat", "agentgraph.models.openai:Gone", "agentgraph.models.openai", ":x"]
)
def test_a_row_whose_class_cannot_be_loaded_is_told(rows: list[Point], path: str) -> None:
    rows.append(Point("acme", Provider("acme", path)))
    with pytest.raises(ConfigurationError, match="'acme' of an installed package does not load"):
        init_chat_model("acme:large")


@pytest.mark.parametrize("provider", [5, b"openai", ["openai"], {"a": 1}, True])
def test_a_provider_that_is_no_text_is_told(provider: Any) -> None:
    with pytest.raises(ConfigurationTypeError, match="model_provider is a"):
        init_chat_model("gpt-4o", model_provider=provider)
    with pytest.raises(ConfigurationTypeError, match="model_provider is a"):
        init_chat_model(model_provider=provider)


@pytest.mark.parametrize("name", [":", ":gpt", "openai:", "a" * 10**6, "a" * 10**6 + ":b", "/" * 10**6, "\0", "\ud800"])
def test_a_name_that_is_no_model_is_one_short_error(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        init_chat_model(name)
    assert len(str(caught.value)) < 2000
