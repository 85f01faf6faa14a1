"""Requests of OpenAI's Responses API, made from messages and settings. Pure: no I/O.

A conversation is a flat list of items here: messages, function calls, their outputs, thoughts, and what the provider's
own tools did. Nothing has to be stored at the provider: thoughts go back encrypted, in their order, before the calls
that they led to. Ids of items are sent only where the server is known to have kept them.

Format: https://platform.openai.com/docs/api-reference/responses/create
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.models.call_ids import with_own_call_ids
from agentgraph.models.openai_refusals import refused_parameters
from agentgraph.models.openai_request import is_openai, is_reasoning_model
from agentgraph.models.responses_content import content_of, output_of
from agentgraph.models.responses_history import assistant_items, custom_call_ids
from agentgraph.models.responses_tools import flat_choice, legal_tools, sent_call_id, text_format_of

__all__ = ["THOUGHTS", "ResponsesDialect", "request_body", "responses_dialect", "without_refused"]

THOUGHTS: Final = "reasoning items"
"""What `without_refused` calls the thoughts of earlier turns."""

_ENCRYPTED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
_ROLES = frozenset({"user", "assistant", "system", "developer"})
# What a user's message may hold to answer a built-in tool; OpenAI has it as items of their own.
_ANSWERS = frozenset(
    {
        "apply_patch_call_output",
        "computer_call_output",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
        "shell_call_output",
    }
)
_SAMPLING = ("temperature", "top_p")
_BESIDE_TOOLS = ("tool_choice", "parallel_tool_calls", "max_tool_calls")


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """What one server of the Responses API takes.

    Attributes:
        provider: whose items may go back to it.
        openai: whether it is OpenAI's own service, there or at Azure.
        reasoning: whether its model is known to reason.
    """

    provider: str
    openai: bool
    reasoning: bool

    @property
    def system_role(self) -> str:
        """The role of a system message."""
        return "developer" if self.openai and self.reasoning else "system"


def responses_dialect(provider: str, base_url: str, settings: Mapping[str, Any]) -> ResponsesDialect:
    """Choose the dialect of a server.

    Args:
        provider: the provider's name in the registry.
        base_url: the server.
        settings: of the call; a deployment may have any name, so who sets how it reasons says that it does.
    """
    told = bool(settings.get("reasoning") or settings.get("reasoning_effort"))
    return ResponsesDialect(provider, is_openai(base_url), told or is_reasoning_model(settings["model"]))


# What a server refuses

_OPTIONAL = ("parallel_tool_calls", "tool_choice", "include", "store", "prompt_cache_key", "safety_identifier")
# What stands for itself; thoughts and records of built-in tools may refer to what the server has lost.
_SPOKEN = frozenset({"custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output", "message"})
_OF_THOUGHTS = re.compile(
    r"encrypted[_ ]content|type 'reasoning'|reasoning'? item|\brs_\w+|item with id '\w+' not found", re.IGNORECASE
)


def without_refused(body: Mapping[str, Any], message: str) -> tuple[dict[str, Any], str] | None:
    """Mend a request that a server refused for an optional parameter, or for the thoughts of earlier turns.

    Args:
        body: the refused request.
        message: the server's error.

    Returns:
        The request without what was refused, and its name: a parameter, or `THOUGHTS`. None if that is not the
        matter.
    """
    named = refused_parameters(body, message, _OPTIONAL)
    if _ENCRYPTED in body.get("include", ()) and refused_parameters({"encrypted"}, message.lower(), ["encrypted"]):
        named.append("include")
    if named:
        return {key: value for key, value in body.items() if key != named[0]}, named[0]
    kept = [_without_id(item) for item in body["input"] if item.get("type", "message") in _SPOKEN]
    if kept != body["input"] and _OF_THOUGHTS.search(message):
        return {**body, "input": kept}, THOUGHTS
    return None


def _without_id(item: Mapping[str, Any]) -> dict[str, Any]:
    """Give an item that refers to nothing the server has kept: a call that has an id wants the thought before it."""
    if item.get("type") == "message" and isinstance(item["content"], list):
        told = {key: value for key, value in item.items() if key not in {"id", "status"}}
        return {**told, "content": "".join(part["text"] for part in item["content"])}
    if item.get("type") in {"custom_tool_call", "function_call"}:
        return {key: value for key, value in item.items() if key != "id"}
    return dict(item)


# Messages


def _plain(message: BaseMessage, dialect: ResponsesDialect) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        role = dialect.system_role
    elif isinstance(message, HumanMessage):
        role = "user"
    elif isinstance(message, ChatMessage) and message.role in _ROLES:
        role = message.role
    else:
        said = f" of the role {message.role[:100]!r}" if isinstance(message, ChatMessage) else ""
        raise ConfigurationTypeError(
            f"The Responses API cannot be sent a {type(message).__name__}{said}. Expected system, human, AI and tool "
            "messages."
        )
    return {"role": role, "content": content_of(message)}


def _said(message: BaseMessage, dialect: ResponsesDialect) -> list[dict[str, Any]]:
    """Give a message that is no assistant's; what it answers to the provider's own tools are items beside it."""
    blocks = message.content if isinstance(message.content, list) else []
    answers = [block for block in blocks if isinstance(block, dict) and block.get("type") in _ANSWERS]
    if not answers:
        return [_plain(message, dialect)]
    others = message.model_copy(update={"content": [block for block in blocks if block not in answers]})
    return [*answers, *([_plain(others, dialect)] if others.content else [])]


def _result(message: ToolMessage, custom: frozenset[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give the output of a call, and what of it only a user may send: sound."""
    output, rest = output_of(message)
    kind = "custom_tool_call_output" if message.tool_call_id in custom else "function_call_output"
    item = {"type": kind, "call_id": sent_call_id(message.tool_call_id), "output": output}
    if rest:
        rest.insert(0, {"type": "input_text", "text": f"Result of the tool {message.name or message.tool_call_id}:"})
    return item, rest


def _after(messages: Sequence[BaseMessage], response_id: str | None) -> Sequence[BaseMessage]:
    """Give the messages that the server does not know yet: those behind the answer that it is to go on from."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if response_id and isinstance(message, AIMessage) and message.response_metadata.get("id") == response_id:
            return messages[position + 1 :]
    return messages


def request_input(messages: Sequence[BaseMessage], dialect: ResponsesDialect) -> list[dict[str, Any]]:
    """Give messages as items.

    Thoughts and the records of built-in tools go back only to the provider that they came from. Sound in tool results
    follows as a user message behind the last result of its turn.

    Raises:
        ConfigurationError: a content block, or a message, that this API has no form for.
    """
    messages = with_own_call_ids(messages)
    custom = custom_call_ids(messages)
    items: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            item, rest = _result(message, custom)
            items.append(item)
            waiting += rest
            continue
        if waiting:
            items.append({"role": "user", "content": waiting})
            waiting = []
        if isinstance(message, AIMessage):
            items += assistant_items(message, dialect.provider, openai=dialect.openai, reasoning=dialect.reasoning)
        else:
            items += _said(message, dialect)
    return [*items, {"role": "user", "content": waiting}] if waiting else items


# The whole request


def _included(settings: Mapping[str, Any], dialect: ResponsesDialect) -> list[str]:
    wanted: list[str] = list(settings.get("include") or [])
    if dialect.openai and dialect.reasoning and not settings.get("store"):
        wanted.append(_ENCRYPTED)
    if settings.get("top_logprobs") is not None:
        wanted.append(_LOGPROBS)
    return list(dict.fromkeys(wanted))


def _grouped(settings: Mapping[str, Any], dialect: ResponsesDialect) -> dict[str, Any]:
    """Put into objects what this API has in objects."""
    effort, verbosity = settings.get("reasoning_effort"), settings.get("verbosity")
    shape = settings.get("response_format")
    reasoning = {**(settings.get("reasoning") or {}), **({"effort": effort} if effort else {})}
    text = {
        **(settings.get("text") or {}),
        **({"format": text_format_of(shape)} if shape else {}),
        **({"verbosity": verbosity} if verbosity else {}),
    }
    return {"reasoning": reasoning, "text": text, "include": _included(settings, dialect)}


def _refuse_stop(settings: Mapping[str, Any], dialect: ResponsesDialect) -> None:
    if settings.get("stop") and dialect.openai:
        raise ConfigurationError(
            f"stop={settings['stop']!r:.200}: OpenAI's Responses API has no stop sequences. Leave it out, or take "
            "agentgraph.models.openai.ChatOpenAI, whose API has them."
        )


def request_body(
    messages: Sequence[BaseMessage],
    settings: Mapping[str, Any],
    dialect: ResponsesDialect,
    *,
    extra: Mapping[str, Any],
    refused: Iterable[str] = (),
) -> dict[str, Any]:
    """Make the body of a request.

    Args:
        messages: the conversation.
        settings: the parameters; those that are None or empty are not sent, nor those that only mean something beside
            tools when there are none.
        dialect: what this server takes.
        extra: further parameters, which win over all others and are sent as they are.
        refused: what this server is known to refuse.

    Raises:
        ConfigurationError: a message, a block or a setting that this API has no form for.
    """
    _refuse_stop(settings, dialect)
    grouped = {**settings, **_grouped(settings, dialect)}
    given = {key: value for key, value in grouped.items() if value is not None and value not in ("", [], {}, ())}
    for key in ("reasoning_effort", "verbosity", "response_format"):
        given.pop(key, None)
    limits = [given.pop(key, None) for key in ("max_output_tokens", "max_completion_tokens", "max_tokens")]
    limit = next((value for value in limits if value is not None), None)
    if limit is not None:
        given["max_output_tokens"] = limit
    if "tools" in given:
        given["tools"] = legal_tools(given["tools"])
        given.update({key: flat_choice(given[key]) for key in ("tool_choice",) if key in given})
    left_out = {*(() if "tools" in given else _BESIDE_TOOLS)}
    left_out |= {*(_SAMPLING if dialect.openai and dialect.reasoning else ())}
    sent = request_input(_after(messages, settings.get("previous_response_id")), dialect)
    body = {"input": sent, **{key: value for key, value in given.items() if key not in left_out}, **extra}
    return _without_known(body, refused)


def _without_known(body: dict[str, Any], refused: Iterable[str]) -> dict[str, Any]:
    known = set(refused)
    return {key: value for key, value in body.items() if key not in known}
