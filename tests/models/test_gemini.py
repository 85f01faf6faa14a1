"""ChatGemini as users hold it: against a server on the loopback, whole and streamed, sync and async."""

import asyncio
import logging
import pickle
import traceback
from typing import Any

import pytest
from langchain_core.load import dumps
from langchain_core.messages import SystemMessage
from pydantic import BaseModel

from agentgraph.errors import AuthenticationError, ConfigurationError
from agentgraph.models.gemini import ChatGemini
from agentgraph.models.gemini_call import path_of
from agentgraph.models.gemini_profiles import gemini_profile
from tests.models.gemini_asking import KEY, bodies, called, hello, local, piece, played, refusal, text
from tests.models.openai_asking import WAYS, Asking, add
from tests.wire_server import WireServer


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Asking:
    way: Asking = request.param
    return way


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_all_ways_of_asking_give_the_same_message(server: WireServer, ask: Asking) -> None:
    server.play(hello(ask))
    message = ask(local(server), "Hi")
    assert message.id is not None
    assert message.content == "Hello"
    assert message.usage_metadata == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    assert message.response_metadata == {
        "model_provider": "google_genai",
        "model_name": "gemini-x-001",
        "finish_reason": "STOP",
        "id": "r1",
        "request_id": "req_1",
    }
    method = "streamGenerateContent?alt=sse" if "stream" in ask.__name__ else "generateContent"
    assert server.requests[0].target == f"/v1beta/models/gemini-2.5-flash:{method}"


def test_settings_of_the_model_of_the_binding_and_of_the_call_reach_the_server(server: WireServer) -> None:
    server.play(hello(WAYS[0]))
    model = local(
        server,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=100,
        seed=1,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        response_logprobs=True,
        logprobs=2,
        thinking_budget=0,
        thinking_level="low",
        include_thoughts=True,
        safety_settings={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
        response_modalities=["TEXT"],
        media_resolution="MEDIA_RESOLUTION_LOW",
        speech_config={"languageCode": "de-DE"},
        image_config={"aspectRatio": "1:1"},
        cached_content="cachedContents/1",
        extra_body={"labels": {"a": "b"}, "generationConfig": {"audioTimestamp": True}},
    )
    bound = model.bind(seed=2, parallel_tool_calls=False, extra_body={"serviceTier": "flex"})
    bound.invoke([SystemMessage("Be brief."), ("user", "Hi")], stop=["x"], temperature=0)
    assert bodies(server) == [
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "cachedContent": "cachedContents/1",
            "generationConfig": {
                "temperature": 0,
                "topP": 0.9,
                "topK": 40,
                "maxOutputTokens": 100,
                "stopSequences": ["x"],
                "seed": 2,
                "presencePenalty": 0.1,
                "frequencyPenalty": 0.2,
                "responseLogprobs": True,
                "logprobs": 2,
                "responseModalities": ["TEXT"],
                "mediaResolution": "MEDIA_RESOLUTION_LOW",
                "speechConfig": {"languageCode": "de-DE"},
                "imageConfig": {"aspectRatio": "1:1"},
                "thinkingConfig": {"thinkingBudget": 0, "thinkingLevel": "low", "includeThoughts": True},
                "audioTimestamp": True,
            },
            "labels": {"a": "b"},
            "serviceTier": "flex",
        }
    ]


def test_an_unknown_parameter_of_a_call_names_the_nearest(server: WireServer) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'temperature'"):
        local(server).invoke("Hi", temprature=1)
    assert server.requests == []


@pytest.mark.parametrize(
    ("base", "path"),
    [("", "/v1beta"), ("/", "/v1beta"), ("/v1", "/v1"), ("/v1beta/", "/v1beta"), ("/gemini", "/gemini/v1beta")],
)
def test_a_base_url_works_with_and_without_version(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, base: str, path: str
) -> None:
    server.play(hello(WAYS[0]))
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url + base)
    assert ChatGemini(model="models/gemini-x").invoke("Hi").content == "Hello"
    assert server.requests[0].target == f"{path}/models/gemini-x:generateContent"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-x", "models/gemini-x"),
        ("tunedModels/my own", "tunedModels/my%20own"),
        ("../../secret?key=1#", "models/secret%3Fkey%3D1%23"),
        ("models/../files", "models/files"),
    ],
)
def test_a_models_name_does_not_lead_out_of_its_place(model: str, path: str) -> None:
    assert path_of(model, stream=False) == f"{path}:generateContent"


# Keys


@pytest.mark.parametrize("how", ["argument", "GOOGLE_API_KEY", "GEMINI_API_KEY", "header", "google_api_key"])
def test_a_key_is_sent_in_its_header_wherever_it_comes_from(
    server: WireServer, monkeypatch: pytest.MonkeyPatch, ask: Asking, how: str
) -> None:
    server.play(hello(ask))
    if how.isupper():
        monkeypatch.setenv(how, KEY)
    given = {"argument": {"api_key": KEY}, "google_api_key": {"google_api_key": KEY}}
    headers = {"default_headers": {"X-Goog-Api-Key": KEY}} if how == "header" else {}
    ask(local(server, **given.get(how, {}), **headers), "Hi")
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert KEY not in server.requests[0].target
    assert "authorization" not in server.requests[0].headers


def test_a_missing_key_names_the_variables_at_the_first_call(ask: Asking) -> None:
    with pytest.raises(AuthenticationError, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        ask(ChatGemini(model="gemini-2.5-flash"), "Hi")


def test_a_key_is_nowhere_to_be_seen(server: WireServer, ask: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    server.play(refusal(f"API key not valid: {KEY}", details=details))
    model = local(server, api_key=KEY)
    with pytest.raises(AuthenticationError) as caught:
        ask(model, "Hi")
    shown = [repr(model), str(model), dumps(model), str(model._identifying_params), str(model._get_invocation_params())]
    shown += ["".join(traceback.format_exception(caught.value)), repr(vars(caught.value)), caplog.text]
    assert [found for found in shown if KEY in found] == []
    assert [data for data in (pickle.dumps(model), pickle.dumps(caught.value)) if KEY.encode() in data] == []


# Tools and structured answers


def test_tools_are_converted_when_they_are_bound() -> None:
    bound = ChatGemini(model="gemini-2.5-flash").bind_tools([add, {"google_search": {}}], tool_choice="any")
    assert bound.kwargs == {  # type: ignore[attr-defined]  # a binding has them
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "add",
                        "description": "Add two numbers.",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                            "required": ["a", "b"],
                        },
                    }
                ]
            },
            {"googleSearch": {}},
        ],
        "tool_choice": "required",
    }


def test_all_ways_of_asking_call_the_same_tool(server: WireServer, ask: Asking) -> None:
    server.play(played(ask, piece(called("add", {"a": 3, "b": 4}, id="c", thoughtSignature="s"), reason="STOP")))
    message = ask(local(server).bind_tools([add], tool_choice="add"), "What is 3 and 4?")
    assert message.tool_calls == [{"name": "add", "args": {"a": 3, "b": 4}, "id": "c", "type": "tool_call"}]
    assert bodies(server)[0]["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}
    }


def test_a_tool_whose_name_may_not_be_sent_is_called_by_its_own(server: WireServer, ask: Asking) -> None:
    tool = {"type": "function", "function": {"name": "7 days!", "description": "d", "parameters": {}}}
    sent = local(server).bind_tools([tool])
    server.play(hello(ask))
    ask(sent, "Hi")
    name = bodies(server)[0]["tools"][0]["functionDeclarations"][0]["name"]
    server.play(played(ask, piece(called(name), reason="STOP")))
    assert [call["name"] for call in ask(sent, "Hi").tool_calls] == ["7 days!"]


class City(BaseModel):
    """A city."""

    name: str


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_structured_answer_is_an_instance_in_every_way_of_asking(
    server: WireServer, ask: Asking, method: Any
) -> None:
    part = called("City", {"name": "Paris"}) if method == "function_calling" else text('{"name": "Paris"}')
    server.play(played(ask, piece(part, reason="STOP")))
    structured = local(server).with_structured_output(City, method=method)
    if "stream" not in ask.__name__:
        assert ask(structured, "Hi") == City(name="Paris")
    elif ask.__name__ == "stream":
        assert list(structured.stream("Hi")) == [City(name="Paris")]
    else:
        assert asyncio.run(_collected(structured.astream("Hi"))) == [City(name="Paris")]
    config = bodies(server)[0].get("generationConfig")
    assert (
        config
        == {
            "json_schema": {"responseMimeType": "application/json", "responseJsonSchema": {**SCHEMA, "type": "object"}},
            "json_mode": {"responseMimeType": "application/json"},
            "function_calling": None,
        }[method]
    )


async def _collected(items: Any) -> list[Any]:
    return [item async for item in items]


# Elder servers


def test_a_server_that_knows_no_json_schema_is_asked_in_the_elder_form_and_only_so_later(
    server: WireServer, ask: Asking
) -> None:
    unknown = "Invalid JSON payload received. Unknown name \"{}\" at 'tools[0]': Cannot find field."
    server.play(refusal(unknown.format("parametersJsonSchema")), hello(ask))
    model = local(server).bind_tools([add])
    assert [ask(model, "Hi").content, ask(model, "Hi").content] == ["Hello"] * 2
    declared = [body["tools"][0]["functionDeclarations"][0] for body in bodies(server)]
    assert ["parametersJsonSchema" in one for one in declared] == [True, False, False]
    assert declared[2]["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    server.play(refusal(unknown.format("response_json_schema")), played(ask, piece(text("{}"), reason="STOP")))
    formatted = local(server).bind(response_format={"type": "json_schema", "json_schema": {"schema": SCHEMA}})
    ask(formatted, "Hi")
    assert bodies(server)[-1]["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }


def test_tracing_knows_provider_model_and_settings() -> None:
    model = ChatGemini(model="gemini-x", temperature=0.5, max_tokens=5, stop="x")
    assert model._get_ls_params() == {
        "ls_provider": "google_genai",
        "ls_model_name": "gemini-x",
        "ls_model_type": "chat",
        "ls_temperature": 0.5,
        "ls_max_tokens": 5,
        "ls_stop": ["x"],
    }


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gemini-2.5-flash", 1_048_576),
        ("models/gemini-3-pro-preview", 1_048_576),
        ("gemini-3.1-flash-lite", 1_048_576),
        ("gemini-flash-latest", 1_048_576),
        ("gemini-2.5-flash-image", None),
        ("gemma-3-27b-it", 131_072),
    ],
)
def test_known_models_have_a_profile(model: str, window: int | None) -> None:
    assert (gemini_profile(model) or {}).get("max_input_tokens") == window
