"""Requests of Ollama's own chat API, made from messages, tools and settings. Pure: no I/O.

What differs from OpenAI's format, and is easily got wrong: sampling and the window go into `options`, everything else
stands at the top; images are bare base64 beside the text; arguments of calls are objects; the results of tools name
their tool; there is no way to demand a call, and a parameter that the server does not know is dropped in silence.

Format: https://docs.ollama.com/api/chat
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.json_text import parse_sendable
from agentgraph.models.openai_tools import nested_choice

__all__ = ["host_url", "is_cloud", "layered", "offered_tools", "request_body", "request_messages", "window_of"]

# Blocks that answers bring along, of this provider or another, and that are no part of what was said.
_SILENT = frozenset(
    {
        "cachePoint",
        "document_citation",
        "function_call",
        "invalid_tool_call",
        "non_standard",
        "reasoning",
        "reasoning_content",
        "redacted_thinking",
        "refusal",
        "server_tool_call",
        "server_tool_result",
        "server_tool_use",
        "thinking",
        "tool_call",
        "tool_call_chunk",
        "tool_use",
        "web_search_tool_result",
    }
)
_OPTIONS = frozenset(
    {
        "frequency_penalty",
        "main_gpu",
        "min_p",
        "mirostat",
        "mirostat_eta",
        "mirostat_tau",
        "num_batch",
        "num_ctx",
        "num_gpu",
        "num_keep",
        "num_predict",
        "num_thread",
        "penalize_newline",
        "presence_penalty",
        "repeat_last_n",
        "repeat_penalty",
        "seed",
        "stop",
        "temperature",
        "tfs_z",
        "top_k",
        "top_p",
        "typical_p",
        "use_mlock",
        "use_mmap",
    }
)
_OTHER_NAMES = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict", "reasoning": "think"}
_ROLES = {"developer": "system", "human": "user", "ai": "assistant", "function": "tool"}
_PORT = 11434

# Where the server is


def host_url(host: str) -> str:
    """Give the URL of a server that is named as `OLLAMA_HOST` names it.

    Args:
        host: a URL, or a host with or without port ("box", ":11434", "0.0.0.0:8080", "[::1]"); without a scheme it is
            http and port 11434. An address that a server listens on ("0.0.0.0") becomes one that can be called. A
            path "/v1", the root of Ollama's imitation of OpenAI's API, is left out.

    Example:
        >>> host_url("0.0.0.0:8080"), host_url("https://gpu.test/ollama")
        ('http://127.0.0.1:8080', 'https://gpu.test/ollama')
    """
    host = host.strip()
    named = "https://ollama.com" if host in {"ollama.com", "www.ollama.com"} else host
    scheme, separator, rest = named.partition("://")
    if not separator:
        scheme, rest = "http", named
    authority, slash, path = rest.partition("/")
    user, at, where = authority.rpartition("@")
    name, port = _host_and_port(where)
    if not separator and not port:
        port = f":{_PORT}"
    loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 it is read, not bound
    path = f"{slash}{path}".rstrip("/").removesuffix("/v1")
    return f"{scheme}://{user}{at}{loopback.get(name, name)}{port}{path}"


def _host_and_port(where: str) -> tuple[str, str]:
    name, colon, port = where.rpartition(":")
    if not colon or port.endswith("]"):
        return where, ""
    return name, f":{port}" if port else ""


def is_cloud(server: str) -> bool:
    """Whether a base URL is Ollama's own service, which wants a key."""
    host = urlsplit(server).hostname or ""
    return host == "ollama.com" or host.endswith(".ollama.com")


# Content


def _image(block: Mapping[str, Any]) -> str | None:
    """Read the bare base64 of a block that holds an image, in whichever form; None if it holds none."""
    url: Any = block.get("url")
    source = block.get("source")
    if block.get("type") == "image_url":
        url = block.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
    elif isinstance(source, Mapping):
        block, url = source, source.get("url")
    if isinstance(url, str):
        head, comma, data = url.partition(",")
        return data if comma and head.startswith("data:") and head.endswith(";base64") else None
    found = block.get("base64") or block.get("data")
    return found if isinstance(found, str) else None


def _is_image(block: Mapping[str, Any]) -> bool:
    if block.get("type") in {"image", "image_url"}:
        return True
    return block.get("type") == "file" and str(block.get("mime_type")).startswith("image/")


def _parts(message: BaseMessage) -> tuple[list[str], list[str]]:
    """Read the texts of a message, and its images as bare base64."""
    texts: list[str] = []
    images: list[str] = []
    for block in [message.content] if isinstance(message.content, str) else message.content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") in {"text", "text-plain", "input_text", "output_text"}:
            texts.append(str(block.get("text") or ""))
        elif _is_image(block) and not isinstance(message, AIMessage):
            images.append(_sendable_image(block, message))
        elif block.get("type") not in _SILENT and not isinstance(message, AIMessage):
            raise ConfigurationError(
                f"A {message.type} message has a content block of type {str(block.get('type'))[:100]!r}, for which "
                "Ollama has no form. Give text and images (base64)."
            )
    return [text for text in texts if text], images


def _sendable_image(block: Mapping[str, Any], message: BaseMessage) -> str:
    data = _image(block)
    if data:
        return "".join(data.split())
    raise ConfigurationError(
        f"An image of a {message.type} message has no base64 data. Ollama fetches no URLs: fetch the image and give "
        '{"type": "image", "base64": ..., "mime_type": ...}, or a data: URL.'
    )


# Messages


def _arguments(raw: Any) -> dict[str, Any]:
    """Give arguments as the object that the server expects, whatever they were."""
    if isinstance(raw, str):
        try:
            parsed = parse_sendable(raw)
        except (ValueError, RecursionError):
            parsed = None
        raw = parsed if isinstance(parsed, dict) else {"invalid_arguments": raw}
    try:
        json.dumps(raw or {}, allow_nan=False)
    except (TypeError, ValueError):
        # What JSON has no form for is in histories that came from elsewhere: it is told as text.
        raw = json.loads(json.dumps(raw, default=str), parse_constant=str)
    return dict(raw or {})


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call.get("name") or "unknown", "arguments": _arguments(call.get("args"))}
    return {"id": call.get("id") or "", "type": "function", "function": function}


def _thinking(message: AIMessage) -> str:
    """Read the reasoning of an answer of Ollama's; another provider's means nothing to this model."""
    if message.response_metadata.get("model_provider") != "ollama":
        return ""
    said = message.additional_kwargs.get("reasoning_content")
    if isinstance(said, str):
        return said
    blocks = message.content if isinstance(message.content, list) else []
    found = [block.get("reasoning") for block in blocks if isinstance(block, dict) and block.get("type") == "reasoning"]
    return "".join(text for text in found if isinstance(text, str))


def _assistant(message: AIMessage) -> dict[str, Any]:
    texts, _ = _parts(message)
    refusal = message.additional_kwargs.get("refusal")
    out: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or (refusal or "")}
    if thinking := _thinking(message):
        out["thinking"] = thinking
    if calls := [_call(call) for call in (*message.tool_calls, *message.invalid_tool_calls)]:
        out["tool_calls"] = calls
    return out


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return _ROLES.get(message.role, message.role)
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, FunctionMessage):
        return "tool"
    raise ConfigurationTypeError(
        f"A chat model cannot be sent a {type(message).__name__}. Expected system, human, AI and tool messages."
    )


def _plain(message: BaseMessage) -> dict[str, Any]:
    texts, images = _parts(message)
    out: dict[str, Any] = {"role": _role(message), "content": "\n".join(texts)}
    if images:
        out["images"] = images
    return {**out, "tool_name": message.name} if isinstance(message, FunctionMessage) else out


def _result(message: ToolMessage, names: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Give the tool's message, and its images, which templates look for in messages of users."""
    texts, images = _parts(message)
    content = "\n".join(texts) or ("(see the next message)" if images else "")
    name = message.name or names.get(message.tool_call_id)
    out = {"role": "tool", "content": content, "tool_call_id": message.tool_call_id}
    return ({**out, "tool_name": name} if name else out), images


def request_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Give messages as Ollama takes them.

    Images in tool results follow as a message of the user behind the last result of their turn.

    Raises:
        ConfigurationError: no messages, or a content block, or a message, that this API has no form for.
    """
    if not messages:
        raise ConfigurationError(
            "There are no messages. Expected at least one: without any, Ollama only loads a model."
        )
    sent: list[dict[str, Any]] = []
    waiting: list[str] = []
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            result, images = _result(message, names)
            sent.append(result)
            waiting += images
            continue
        sent += _shown(waiting)
        waiting = []
        if isinstance(message, AIMessage):
            names |= {call["id"]: call["name"] for call in message.tool_calls if call["id"]}
        sent.append(_assistant(message) if isinstance(message, AIMessage) else _plain(message))
    return [*sent, *_shown(waiting)]


def _shown(images: list[str]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "Images of the tool results:", "images": images}] if images else []


# The whole request


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings together, later layers over earlier ones, each parameter where Ollama looks for it.

    Args:
        layers: settings by their names here; `options` may hold any of the options. What is None is not set.

    Example:
        >>> layered({"model": "m", "temperature": 0, "num_ctx": 4096}, {"options": {"num_ctx": 8192}})
        {'model': 'm', 'options': {'temperature': 0, 'num_ctx': 8192}}
    """
    top: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for layer in layers:
        options |= layer.get("options") or {}
        for given, value in layer.items():
            name = _OTHER_NAMES.get(given, given)
            if name in _OPTIONS:
                options[name] = [value] if name == "stop" and isinstance(value, str) else value
            elif name != "options":
                top[name] = value
    kept = {name: value for name, value in options.items() if value is not None and value != []}
    return {**{name: value for name, value in top.items() if value is not None}, **({"options": kept} if kept else {})}


def offered_tools(tools: Iterable[Mapping[str, Any]], choice: Any) -> list[Mapping[str, Any]]:
    """Give the tools that a call may use: Ollama has no `tool_choice`, but can only call what it is shown.

    Args:
        tools: in OpenAI's form.
        choice: "none" shows none, a named tool only that one; everything else shows all.
    """
    offered = list(tools)
    choice = nested_choice(choice)
    if choice == "none":
        return []
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return [tool for tool in offered if name in (None, (tool.get("function") or {}).get("name"))]


def _format_of(response_format: Mapping[str, Any]) -> Any:
    """Translate OpenAI's `response_format`."""
    if response_format.get("type") == "json_schema":
        return response_format["json_schema"]["schema"]
    return "json" if response_format.get("type") == "json_object" else None


def request_body(
    messages: Sequence[BaseMessage], settings: Mapping[str, Any], *, stream: bool, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Make the body of a request.

    Args:
        messages: the conversation.
        settings: as `layered` gives them; tools, `tool_choice` and `response_format` in OpenAI's form.
        stream: whether the answer is to come in pieces; said always, because the server's default is yes.
        extra: further parameters, which win over all others and are sent as they are; `options` in it are added.

    Raises:
        ConfigurationError: a form of the answer beside tools, which no call could ever come through.
    """
    top = {key: value for key, value in settings.items() if value not in ("", [], {})}
    tools = offered_tools(top.pop("tools", ()), top.pop("tool_choice", None))
    top.pop("parallel_tool_calls", None)
    shape = _format_of(top.pop("response_format", {}))
    if shape is not None:
        top["format"] = shape
    if tools and "format" in top:
        raise ConfigurationError(
            "The answer's form (response_format, format) was given together with tools. Ollama keeps every word of the "
            "answer to the form, so that no tool could ever be called. Use ToolStrategy(schema), or bind no tools."
        )
    if tools:
        top["tools"] = tools
    options = {**(top.pop("options", None) or {}), **(extra.get("options") or {})}
    body = {"messages": request_messages(messages), "stream": stream, **top, **extra}
    return {**body, "options": options} if options else body


def window_of(body: Mapping[str, Any]) -> int | None:
    """Read the window that a request sets, in tokens; None where the server's default decides."""
    window = (body.get("options") or {}).get("num_ctx")
    return window if isinstance(window, int) and not isinstance(window, bool) and window > 0 else None
