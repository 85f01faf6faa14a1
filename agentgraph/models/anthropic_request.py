"""Requests of Anthropic's Messages API, made from messages and settings. Pure: no I/O.

The API wants turns of user and assistant in alternation, the system prompt beside them, and the results of all calls of
a turn together at the head of the next user turn. Content is converted by `anthropic_content`, tools by
`anthropic_tools`.

Format: https://platform.claude.com/docs/en/api/messages
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from agentgraph.errors import ConfigurationTypeError
from agentgraph.models.anthropic_content import CALL_ID, Block, assistant_content, user_content
from agentgraph.models.anthropic_profiles import default_max_tokens, takes_sampling
from agentgraph.models.anthropic_tools import output_format, renamed_tools, tool_choice_of, tools_called
from agentgraph.models.call_ids import with_own_call_ids
from agentgraph.models.openai_request import legal_call_id

__all__ = ["expects_only_text", "request_body", "request_messages"]

_MAX_BREAKPOINTS = 4
_SAMPLING = ("temperature", "top_p", "top_k")
_NOTHING: tuple[Any, ...] = (None, "", [], {})


# Messages


def _tool_result(message: ToolMessage) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": legal_call_id(message.tool_call_id, CALL_ID)}
    blocks = user_content(message)
    if [set(block) for block in blocks] == [{"type", "text"}]:
        result["content"] = blocks[0]["text"]
    elif blocks:
        result["content"] = blocks
    if message.status == "error":
        result["is_error"] = True
    return result


def _turn(message: BaseMessage) -> tuple[str, list[Block]]:
    """Give the role and the content of a message."""
    if isinstance(message, AIMessage):
        return "assistant", assistant_content(message)
    if isinstance(message, ToolMessage):
        return "user", [_tool_result(message)]
    role = message.role if isinstance(message, ChatMessage) else message.type
    roles = {"human": "user", "user": "user", "assistant": "assistant", "ai": "assistant", "system": "system"}
    if role not in roles or not isinstance(message, HumanMessage | SystemMessage | ChatMessage):
        raise ConfigurationTypeError(
            f"The Messages API cannot be sent a {type(message).__name__} of role {role[:100]!r}. Expected system, "
            "human, AI and tool messages."
        )
    return roles[role], user_content(message)


def _is_result(block: Block) -> bool:
    return bool(block["type"] == "tool_result")


def request_messages(messages: Sequence[BaseMessage]) -> tuple[list[Block], list[Block]]:
    """Give messages as the Messages API takes them.

    Neighbours of one role become one turn, results of tools first in it. System messages, wherever they stand, become
    the system prompt. A message that says nothing is left out.

    Returns:
        The blocks of the system prompt, and the turns.

    Raises:
        ConfigurationError: a content block, or a message, that this API has no form for.
    """
    system: list[Block] = []
    turns: list[Block] = []
    for message in with_own_call_ids(messages):
        role, blocks = _turn(message)
        if role == "system":
            system += blocks
        elif blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        turn["content"].sort(key=lambda block: not _is_result(block))
    _strip_end(turns)
    return system, turns


def _strip_end(turns: Sequence[Block]) -> None:
    """Cut white space off the beginning of an answer that the model is to go on with: the API refuses it."""
    if turns and turns[-1]["role"] == "assistant" and turns[-1]["content"][-1]["type"] == "text":
        turns[-1]["content"][-1]["text"] = turns[-1]["content"][-1]["text"].rstrip()


def _flat(blocks: list[Block]) -> str | list[Block]:
    """Give content as a string where it is one plain text."""
    plain = len(blocks) == 1 and set(blocks[0]) == {"type", "text"} and blocks[0]["type"] == "text"
    return blocks[0]["text"] if plain else blocks


# Cache breakpoints


def _marked(blocks: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """Find the places of blocks that are marked, those within results of tools too."""
    for place, block in enumerate(blocks):
        inner = block.get("content") if block.get("type") == "tool_result" else None
        if isinstance(inner, list):
            yield from _marked(inner)
        if "cache_control" in block:
            yield blocks, place


def _bound_breakpoints(tools: list[Block], system: list[Block], turns: Sequence[Block], room: int) -> None:
    """Keep as many cache breakpoints as the API takes: those of the prompt's head, and the latest of the turns."""
    head = [*_marked(tools), *_marked(system)]
    tail = [found for turn in turns for found in _marked(turn["content"])]
    too_many = max(len(head) + len(tail) - room, 0)
    for blocks, place in [*tail, *head][:too_many]:
        blocks[place] = {key: value for key, value in blocks[place].items() if key != "cache_control"}


# The whole request


def _thinking_budget(thinking: Any) -> int:
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return budget if isinstance(budget, int) else 0


def _thinks(thinking: Any) -> bool:
    return isinstance(thinking, Mapping) and thinking.get("type") in {"enabled", "adaptive"}


def _output_config(settings: dict[str, Any]) -> None:
    """Gather what forms the answer: effort, and the schema of a structured one."""
    response_format, effort = settings.pop("response_format", None), settings.pop("effort", None)
    config = {**settings.pop("output_config", {})}
    if effort:
        config["effort"] = effort
    shape = output_format(response_format) if response_format else None
    if shape:
        config["format"] = shape
    if config:
        settings["output_config"] = config


def _limits(settings: dict[str, Any], *, sampling: bool) -> None:
    """Set the limit of tokens, the stop words, and sampling where it is taken."""
    limit = settings.pop("max_completion_tokens", None)
    settings.setdefault("max_tokens", limit)
    stop = settings.pop("stop", None)
    if stop:
        settings.setdefault("stop_sequences", [stop] if isinstance(stop, str) else list(stop))
    if settings["max_tokens"] is None:
        budget = _thinking_budget(settings.get("thinking"))
        settings["max_tokens"] = default_max_tokens(
            settings["model"], stream=bool(settings.get("stream")), budget=budget
        )
    if not sampling or not takes_sampling(settings["model"]) or _thinks(settings.get("thinking")):
        for name in _SAMPLING:
            settings.pop(name, None)


def request_body(
    messages: Sequence[BaseMessage], settings: Mapping[str, Any], *, sampling: bool = True, extra: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Make the body of a request.

    Args:
        messages: the conversation.
        settings: the parameters by their names in the API, or in OpenAI's where langchain-core has no other
            (`response_format`, `parallel_tool_calls`, `stop`). What is None or empty is not sent, nor is a choice of
            tools where there are none.
        sampling: whether the version of the API takes `temperature`, `top_p` and `top_k`.
        extra: further parameters, which win over all others and are sent as they are.

    Returns:
        The body, and the names of tools as they are sent -> as they are called here.

    Raises:
        ConfigurationError: a content block, a message or a `response_format` that this API has no form for.
    """
    given = {key: value for key, value in settings.items() if value not in _NOTHING}
    system, turns = request_messages(messages)
    tools, names = renamed_tools(given.pop("tools", ()))
    parallel, choice = given.pop("parallel_tool_calls", None), given.pop("tool_choice", None)
    _output_config(given)
    _limits(given, sampling=sampling)
    _bound_breakpoints(tools, system, turns, _MAX_BREAKPOINTS - ("cache_control" in given))
    if not tools and "tools" not in extra:
        tools = tools_called(turns)
        choice = "none"
    if tools:
        given["tools"] = tools
        thinking = _thinks(given.get("thinking"))
        if chosen := tool_choice_of(choice, parallel=parallel, thinking=thinking):
            given["tool_choice"] = chosen
    if system:
        given["system"] = _flat(system)
    sent = [{"role": turn["role"], "content": _flat(turn["content"])} for turn in turns]
    return {"messages": sent, **given, **extra}, names


def expects_only_text(body: Mapping[str, Any]) -> bool:
    """Whether the answer to a request can hold nothing but text: no calls, no thoughts, no citations of documents."""
    callable_ = body.get("tools") and body.get("tool_choice") != {"type": "none"}
    if callable_ or body.get("mcp_servers") or _thinks(body.get("thinking")):
        return False
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    return not any(block.get("type") in {"document", "search_result"} for content in contents for block in content)
