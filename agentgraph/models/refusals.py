"""Refusals of whatever provider: whether a message is one, and the error that it becomes. Pure.

Models of the servers spoken to here, and those of LangChain's packages, say it in different places: a content block, a
field beside the content, or the reason for which the answer ended.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage, RefusalContentBlock

from agentgraph.errors import RefusalError

__all__ = ["RefusedAnswerError", "refusal_error", "refusal_in"]

_EXCERPT: Final = 500
_REASON_KEYS: Final = ("finish_reason", "stop_reason", "stopReason")
# OpenAI and its kin, Anthropic, Bedrock, Gemini; in lower case.
_REFUSED: Final = frozenset(
    {
        "blocklist",
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "image_prohibited_content",
        "image_safety",
        "model_armor",
        "prohibited_content",
        "refusal",
        "safety",
        "spii",
    }
)


class RefusedAnswerError(RefusalError, ModelRefusalError):
    """A refusal as an error: of this package's tree, and of langchain-core's, so that code for either catches it."""


def refusal_in(message: AIMessage) -> RefusalContentBlock | None:
    """The refusal that a message is, in langchain-core's standard form; None if it is none.

    Nothing is guessed from the text of an answer.

    Args:
        message: of any provider's model.

    Example:
        >>> refusal_in(AIMessage("", additional_kwargs={"refusal": "Not this."}))
        {'type': 'refusal', 'refusal': 'Not this.'}
        >>> refusal_in(AIMessage("Here you are.", response_metadata={"finish_reason": "stop"})) is None
        True
    """
    beside = message.additional_kwargs.get("refusal")
    said = beside if isinstance(beside, str) else ""
    reason = next(_reasons(message.response_metadata), None)
    block = next(_blocks(message), None)
    if not said and block is None and reason is None:
        return None
    extras = block.get("extras") if block is not None else {"reason": reason} if reason and not said else None
    words = said or (block or {}).get("refusal")
    refusal = RefusalContentBlock(type="refusal", refusal=words if isinstance(words, str) else "")
    if isinstance(extras, Mapping) and extras:
        refusal["extras"] = dict(extras)
    return refusal


def _blocks(message: AIMessage) -> Iterator[Mapping[str, Any]]:
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") == "refusal":
            yield block


def _reasons(metadata: Mapping[str, Any]) -> Iterator[str]:
    """The reasons that say that an answer was refused, by the model or by a filter."""
    named = [metadata.get(key) for key in _REASON_KEYS]
    incomplete = metadata.get("incomplete_details")
    if isinstance(incomplete, Mapping):
        named.append(incomplete.get("reason"))
    # Some packages keep the members of an enumeration.
    names = (str(getattr(reason, "name", reason)).rpartition(".")[2].lower() for reason in named if reason)
    yield from (name for name in names if name in _REFUSED)
    prompt = metadata.get("prompt_feedback")
    blocked = prompt.get("block_reason") if isinstance(prompt, Mapping) else None
    if blocked:
        name = str(getattr(blocked, "name", blocked)).rpartition(".")[2].lower()
        if not name.endswith("unspecified"):
            yield name


def refusal_error(message: AIMessage) -> RefusedAnswerError | None:
    """The error that a message becomes where its answer is needed; None if it is no refusal.

    Args:
        message: of any provider's model.
    """
    refusal = refusal_in(message)
    if refusal is None:
        return None
    extras = refusal.get("extras") or {}
    reason = extras.get("category") or extras.get("reason")
    words = refusal["refusal"] or str(message.text).strip()
    told = ": " + repr(words[:_EXCERPT]) if words else ", and gave no reason"
    named = f" ({str(reason)[:100]})" if reason else ""
    provider, request_id = (message.response_metadata.get(key) for key in ("model_provider", "request_id"))
    return RefusedAnswerError(
        f"The model refused to answer{named}{told}. The same request is likely to be refused again: rephrase it, or "
        "take another model.",
        raw_message=message,
        provider=provider if isinstance(provider, str) else None,
        request_id=request_id if isinstance(request_id, str) else None,
        code=next(_reasons(message.response_metadata), None),
    )
