"""Compatible servers as data: what each is sent, where, and with whose key. And Azure, which has URLs of its own."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph.errors import AuthenticationError, ConfigurationError
from agentgraph.models import init_chat_model
from agentgraph.models.anthropic import ChatAnthropic
from agentgraph.models.azure_openai import ChatAzureOpenAI, azure_url
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.presets import PRESETS, preset_of
from agentgraph.models.registry import PROVIDERS

ENDPOINT = "https://acme.openai.azure.com"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Tell it.", "parameters": PARAMETERS}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "Tell it.", "parameters": PARAMETERS}}
CALL = {"name": "weather", "args": {"city": "Rome"}, "id": "call_1", "type": "tool_call"}
HISTORY = [
    SystemMessage("Be kind."),
    SystemMessage("Be brief."),
    HumanMessage("Rome?", name="ann"),
    AIMessage("", tool_calls=[CALL], additional_kwargs={"reasoning_content": "Hm."}),
    ToolMessage("sunny", tool_call_id="call_1", name="weather"),
]
MISTRAL_ID = "74196fe72"
SETTINGS: dict[str, Any] = {"max_tokens": 9, "seed": 7, "presence_penalty": 0.5, "temperature": 0.0}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in PROVIDERS.values():
        for name in (*row.key_variables, *row.url_variables, "OPENAI_API_VERSION"):
            monkeypatch.delenv(name, raising=False)


class Peer:
    """Answers every request and keeps it."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self._answered))

    def _answered(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path.endswith("/messages"):
            return httpx.Response(
                200,
                json={
                    "content": [{"type": "text", "text": "Hi"}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                },
            )
        choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
        if b'"stream"' in request.content:
            event = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
            return httpx.Response(200, text=f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")
        return httpx.Response(200, json={"choices": [choice]})

    @property
    def last(self) -> httpx.Request:
        return self.requests[-1]

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.last.content)
        return body


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    with made.client:
        yield made


def messages(*, call_id: str = "call_1", **assistant: Any) -> list[dict[str, Any]]:
    function = {"name": "weather", "arguments": '{"city": "Rome"}'}
    call = {"type": "function", "id": call_id, "function": function}
    return [
        {"role": "system", "content": "Be kind.\n\nBe brief."},
        {"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [call], **assistant},
        {"role": "tool", "tool_call_id": call_id, "content": "sunny"},
    ]


NAMED = {"type": "function", "function": {"name": "weather"}}
USUAL: dict[str, Any] = {
    "messages": messages(),
    "temperature": 0.0,
    "max_tokens": 9,
    "seed": 7,
    "presence_penalty": 0.5,
    "tools": [WEATHER, CLOCK],
    "tool_choice": NAMED,
    "parallel_tool_calls": False,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def usual(*without: str, **other: Any) -> dict[str, Any]:
    return {key: value for key, value in {**USUAL, **other}.items() if key not in without}


BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "deepseek": ("deepseek-chat", "https://api.deepseek.com/v1", usual(messages=messages(reasoning_content="Hm."))),
    "fireworks": ("accounts/fireworks/models/qwen3", "https://api.fireworks.ai/inference/v1", usual()),
    "groq": ("llama-3.3-70b-versatile", "https://api.groq.com/openai/v1", usual()),
    "llamacpp": ("any", "http://localhost:8080/v1", usual()),
    "lmstudio": ("any", "http://localhost:1234/v1", usual(tools=[WEATHER], tool_choice="required")),
    "mistralai": (
        "mistral-large-latest",
        "https://api.mistral.ai/v1",
        usual("stream_options", "seed", messages=messages(call_id=MISTRAL_ID), random_seed=7),
    ),
    "openrouter": ("openai/gpt-5", "https://openrouter.ai/api/v1", usual()),
    "together": ("meta-llama/Llama-3.3-70B", "https://api.together.xyz/v1", usual()),
    "vllm": ("Qwen/Qwen3-8B", "http://localhost:8000/v1", usual()),
    "xai": ("grok-4", "https://api.x.ai/v1", usual("presence_penalty")),
}


def test_there_is_a_body_for_each_preset() -> None:
    assert list(BODIES) == sorted(preset.name for preset in PRESETS) == [preset.name for preset in PRESETS]


@pytest.mark.parametrize("name", BODIES)
def test_each_server_is_sent_what_it_takes(peer: Peer, name: str) -> None:
    model, url, expected = BODIES[name]
    built = init_chat_model(f"{name}:{model}", api_key="sk-1", http_client=peer.client, **SETTINGS)
    bound = built.bind_tools([WEATHER, CLOCK], tool_choice="weather", parallel_tool_calls=False)
    assert "".join(chunk.text for chunk in bound.stream(HISTORY)) == "Hi"
    assert (str(peer.last.url), peer.body) == (f"{url}/chat/completions", {**expected, "model": model})
    assert peer.last.headers["authorization"] == "Bearer sk-1"
    assert bound.invoke(HISTORY).text == "Hi"
    assert peer.body == {
        "model": model,
        **{key: value for key, value in expected.items() if key not in {"stream", "stream_options"}},
    }


@pytest.mark.parametrize(
    ("model", "sent"),
    [("grok-4-fast-non-reasoning", True), ("grok-3", True), ("grok-3-mini", False), ("grok-code-fast-1", False)],
)
def test_only_the_models_that_refuse_a_parameter_are_not_sent_it(peer: Peer, model: str, sent: bool) -> None:
    init_chat_model(f"xai:{model}", http_client=peer.client, frequency_penalty=0.5).invoke("Hi")
    assert ("frequency_penalty" in peer.body) is sent


@pytest.mark.parametrize("model", ["mistralai/Mistral-Small-24B", "devstral:24b", "mixtral"])
def test_mistrals_models_have_its_ids_whoever_serves_them(peer: Peer, model: str) -> None:
    init_chat_model(f"vllm:{model}", http_client=peer.client).invoke(HISTORY)
    assert peer.body["messages"] == messages(call_id=MISTRAL_ID)


@pytest.mark.parametrize(
    ("provider", "host", "name"),
    [
        ("openai", "api.deepseek.com", "deepseek"),
        ("openai", "deepseek.com", "deepseek"),
        ("openai", "notdeepseek.com", None),
        ("openai", "api.deepseek.com.evil.test", None),
        ("openai", "localhost", None),
        ("vllm", "api.deepseek.com", "vllm"),
        ("acme", "", None),
    ],
)
def test_a_server_is_known_by_its_provider_and_else_by_its_host(provider: str, host: str, name: str | None) -> None:
    preset = preset_of(provider, host)
    assert (preset and preset.name) == name


def test_a_choice_of_the_only_tool_that_fits_leaves_other_choices_alone(peer: Peer) -> None:
    model = init_chat_model("lmstudio:any", http_client=peer.client)
    for choice, sent in (("any", "required"), ("auto", "auto"), ("clock", "required")):
        model.bind_tools([WEATHER, CLOCK], tool_choice=choice).invoke("Hi")
        assert peer.body["tool_choice"] == sent
    assert peer.body["tools"] == [CLOCK]


@pytest.mark.parametrize("name", [preset.name for preset in PRESETS])
def test_only_a_server_that_others_run_needs_a_key(name: str) -> None:
    model = init_chat_model(f"{name}:m", max_retries=0)
    preset = preset_of(name, "")
    assert isinstance(model, ChatOpenAI)
    assert preset is not None
    if preset.key_needed:
        with pytest.raises(AuthenticationError, match=preset.key_variables[0]):
            model._headers(preset.base_url)
    else:
        assert model._headers(preset.base_url) == {}


# Azure


@pytest.mark.parametrize(
    ("endpoint", "version", "url"),
    [
        (ENDPOINT, None, f"{ENDPOINT}/openai/v1"),
        (f"{ENDPOINT}/", "v1", f"{ENDPOINT}/openai/v1"),
        (f"{ENDPOINT}/openai", "preview", f"{ENDPOINT}/openai/v1?api-version=preview"),
        (f"{ENDPOINT}/openai/v1/", "2024-10-21", f"{ENDPOINT}/openai/v1"),
        (ENDPOINT, "2024-10-21", f"{ENDPOINT}/openai/deployments/d%2F1?api-version=2024-10-21"),
        (
            f"{ENDPOINT}/openai/deployments/x/chat/completions?api-version=2025-01-01-preview",
            "2024-10-21",
            f"{ENDPOINT}/openai/deployments/x/chat/completions?api-version=2025-01-01-preview",
        ),
        (
            "https://gate.test/azure?tenant=a",
            "2024-10-21",
            "https://gate.test/azure/openai/deployments/d%2F1?tenant=a&api-version=2024-10-21",
        ),
    ],
)
def test_an_endpoint_of_azure_is_read_as_people_copy_it(endpoint: str, version: str | None, url: str) -> None:
    assert azure_url(endpoint, "d/1", version) == url


def test_azures_v1_api_has_the_deployment_in_the_body(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", ENDPOINT)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az-1")
    model = init_chat_model(
        "azure_openai:gpt-5", azure_deployment="ours", max_tokens=9, temperature=0, http_client=peer.client
    )
    assert model.invoke([SystemMessage("Be kind."), HumanMessage("Hi")]).text == "Hi"
    assert str(peer.last.url) == f"{ENDPOINT}/openai/v1/chat/completions"
    assert (peer.last.headers["api-key"], "authorization" in peer.last.headers) == ("az-1", False)
    assert peer.body == {
        "model": "ours",
        "max_completion_tokens": 9,
        "messages": [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
    }


def test_azures_older_api_has_it_in_the_path(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    settings: dict[str, Any] = {"azure_endpoint": ENDPOINT, "api_key": "az-1", "http_client": peer.client}
    model = ChatAzureOpenAI(model="gpt-4o", temperature=0, **settings)
    assert "".join(chunk.text for chunk in model.stream("Hi")) == "Hi"
    assert str(peer.last.url) == f"{ENDPOINT}/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21"
    assert peer.body == {
        "model": "gpt-4o",
        "temperature": 0.0,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    model.invoke("Hi", model="gpt-4o-mini")
    assert peer.last.url.path == "/openai/deployments/gpt-4o-mini/chat/completions"


def test_a_model_of_azure_without_an_endpoint_says_where_to_set_it() -> None:
    model = ChatAzureOpenAI(model="gpt-4o", api_key="k")
    with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
        model.invoke("Hi")
    with pytest.raises(AuthenticationError, match="AZURE_OPENAI_API_KEY"):
        ChatAzureOpenAI(model="gpt-4o", base_url=ENDPOINT).invoke("Hi")
    assert (model.profile or {})["max_output_tokens"] == 16_384


# A key or a token


def built(kind: str, peer: Peer, **settings: Any) -> Any:
    if kind == "anthropic":
        return ChatAnthropic(model="claude-sonnet-4-5", http_client=peer.client, **settings)
    return ChatAzureOpenAI(model="gpt-4o", base_url=ENDPOINT, http_client=peer.client, **settings)


VARIABLES = {
    "anthropic": ("x-api-key", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure_openai": ("api-key", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
}


@pytest.mark.parametrize("kind", VARIABLES)
@pytest.mark.parametrize(
    ("environment", "settings", "key", "token"),
    [
        ("", {}, None, None),
        ("key", {}, "env-key", None),
        ("token", {}, None, "env-token"),
        ("key token", {}, "env-key", None),
        ("key token", {"auth_token": "mine"}, None, "mine"),
        ("key token", {"api_key": "mine"}, "mine", None),
        ("token", {"api_key": ""}, None, None),
        ("", {"api_key": "mine", "auth_token": "also"}, "mine", None),
        ("key token", {"default_headers": {"Authorization": "Bearer own"}}, None, "own"),
    ],
)
def test_either_a_key_or_a_token_is_sent(
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    environment: str,
    settings: dict[str, Any],
    key: str | None,
    token: str | None,
) -> None:
    header, key_variable, token_variable = VARIABLES[kind]
    for name, variable in (("key", key_variable), ("token", token_variable)):
        if name in environment.split():
            monkeypatch.setenv(variable, f"env-{name}")
    built(kind, peer, **settings).invoke("Hi")
    assert peer.last.headers.get(header) == key
    assert peer.last.headers.get("authorization") == (token and f"Bearer {token}")


@pytest.mark.parametrize("kind", VARIABLES)
def test_a_token_is_shown_and_stored_nowhere(peer: Peer, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = built(kind, peer, auth_token="tok-7f3a").model_copy(update={"http_client": None})
    shown = [
        repr(model),
        str(model.model_dump()),
        dumps(model),
        repr(pickle.dumps(model)),
        repr(model._get_ls_params()),
    ]
    assert [text for text in shown if "tok-7f3a" in text] == []
    monkeypatch.setenv(VARIABLES[kind][2], "tok-env")
    assert '"id": ["' + VARIABLES[kind][1] not in dumps(model)
    loaded = pickle.loads(pickle.dumps(model))  # noqa: S301 our own
    assert {value.get_secret_value() for value in loaded._headers("x").values()} == {"Bearer tok-env"}
