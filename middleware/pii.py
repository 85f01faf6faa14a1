"""Personal data: e-mail addresses, card numbers and the like are kept from the model, the state and the streams."""

import copy
import json
from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from langgraph.typing import ContextT
from pydantic import SecretStr
from typing_extensions import TypedDict

from agentgraph import bridge
from agentgraph.decorators import hook_config
from agentgraph.hooks import AgentMiddleware
from agentgraph.requests import ExtendedModelResponse, ModelRequest, ModelResponse
from agentgraph.state import PrivateStateAttr, ResponseT, StateT
from agentgraph.tools.failures import passes

from ._pii_callbacks import clean_config, clean_error, cleanly
from ._pii_detectors import (
    Detector,
    PIIMatch,
    detect_credit_card,
    detect_email,
    detect_ip,
    detect_mac_address,
    detect_url,
)
from ._pii_messages import answer_with, clean_message, clean_value, newest, restored
from ._pii_rules import PIIDetectionError, RedactionRule, Strategy
from ._pii_seen import SeenMessages

__all__ = [
    "PIIDetectionError",
    "PIIMatch",
    "PIIMiddleware",
    "RedactionRule",
    "detect_credit_card",
    "detect_email",
    "detect_ip",
    "detect_mac_address",
    "detect_url",
]

_BLOCKED = "pii_blocked"


class PIIMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Finds one type of sensitive values in a conversation and redacts, masks or hashes them, or blocks the run.

    For several types mount it several times; they work together.

    - Input: user messages are replaced in the state before the model is called, by their ids. The caller's input itself
      is stored, and shown as the first of `stream_mode="values"`, before any middleware runs; clean it beforehand
      where that is too late.
    - Output: the model's text, reasoning, arguments of calls and structured answer are cleaned before they are stored.
      Tools are given the real arguments. Until the model's next answer these are kept beside the messages, as a
      `SecretStr` in the private field `pii_<type>_arguments`, so that a run which paused or crashed can go on; a
      checkpoint of that time contains them. A person who approves calls sees them cleaned, and may edit the rest;
      list HumanInTheLoopMiddleware before this one, so that it looks at the same calls each time.
    - Tool results: what tools answer, messages of their commands and their errors are cleaned before they are stored.
      A message's `artifact` is left alone, and so is what a tool itself writes to the stream.

    All streams and callback handlers show what is stored, tokens and events too. Text is held back until it is decided:
    for built-in types to the next character that no value contains, for detectors of your own to the end of the
    message; arguments of calls always to the end. Tracers, and handlers of the model's own, see what the model said.
    Images and files are passed as they are, and so is the system prompt.

    "block" raises PIIDetectionError before the text is sent, stored or streamed: for the last user message, the model's
    answer, and the newest tool results. A tool's result is kept with `[REDACTED_<TYPE>]` in its place, as the tool has
    run. When the conversation goes on, older messages that would block are redacted.

    It costs no step of the graph and no model call.

    Args:
        pii_type: "email", "credit_card", "ip", "mac_address", "url", or a name for what `detector` finds.
        strategy: "redact" puts `[REDACTED_<TYPE>]`, "mask" leaves the end readable, "hash" puts `<type_hash:...>`,
            "block" raises. Default "redact".
        detector: a regular expression, or a function from a text to its matches (`start`, `end`, `value`). Default: the
            built-in one of the type.
        apply_to_input: whether user messages are looked at. Default True.
        apply_to_output: whether the model's answers are looked at. Default False.
        apply_to_tool_results: whether tool results are looked at. Default False.

    Raises:
        ConfigurationError: an unknown type without a detector, an unknown strategy, or no regular expression.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> redacting = PIIMiddleware("email", apply_to_output=True)
        >>> agent = create_agent(ScriptedModel("Ask bob@example.com."), middleware=[redacting])
        >>> result = agent.invoke({"messages": "I am ann@example.com."})
        >>> [message.text for message in result["messages"]]
        ['I am [REDACTED_EMAIL].', 'Ask [REDACTED_EMAIL].']
    """

    def __init__(
        self,
        pii_type: str,
        *,
        strategy: Strategy = "redact",
        detector: Detector | str | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
    ) -> None:
        super().__init__()
        self._rule = RedactionRule(pii_type, strategy, detector).resolve()
        self._soft = self._rule.softened()
        self.pii_type = pii_type
        self.strategy = strategy
        self.apply_to_input = apply_to_input
        self.apply_to_output = apply_to_output
        self.apply_to_tool_results = apply_to_tool_results
        self._looked_at = tuple(
            kind
            for kind, applies in (
                (HumanMessage, apply_to_input),
                (AIMessage, apply_to_output),
                (ToolMessage, apply_to_tool_results),
            )
            if applies
        )
        self._field = f"pii_{pii_type}_arguments"
        self._slow = detector is not None and not isinstance(detector, str)
        # A function of the user's may find something else the next time, so what it looked at is not remembered.
        self._seen = None if self._slow else SeenMessages()
        if apply_to_output:
            kept = NotRequired[Annotated[dict[str, SecretStr], PrivateStateAttr]]
            self.state_schema = TypedDict("PIIState", {self._field: kept})  # type: ignore[misc] # the field's name is known at run time only

    @property
    def name(self) -> str:
        """The class's name with the type, so that one agent can have several."""
        return f"{type(self).__name__}[{self.pii_type}]"

    @hook_config(inline=True)
    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:  # noqa: ARG002 (the contract)
        """Replace what is in the conversation already.

        Args:
            state: the state.
            runtime: not used.

        Returns:
            The messages that change, None for none.

        Raises:
            PIIDetectionError: the strategy is "block", and the last user message or the newest tool results have some.
        """
        cleaned = self._cleaned(state["messages"])
        changed = [new for new, old in zip(cleaned, state["messages"], strict=True) if new is not old]
        return {"messages": changed} if changed else None

    @hook_config(inline=True)
    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """As `before_model`, for async runs."""
        if self._slow:
            return await bridge.run_blocking(self.before_model, state, runtime)
        return self.before_model(state, runtime)

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Send a clean request, and clean the answer while it is streamed and before it is stored.

        Args:
            request: the call to make.

        Returns:
            The response.

        Raises:
            PIIDetectionError: the strategy is "block", and the answer has some.
        """
        cleaned = self._cleaned(request.messages)
        if any(new is not old for new, old in zip(cleaned, request.messages, strict=True)):
            request = request.override(messages=cleaned)
        if not self.apply_to_output:
            return (yield request)
        with cleanly(self._rule):
            response = yield request
        kept = self._kept(response.result)
        told = ModelResponse(
            [clean_message(message, self._rule) for message in response.result],
            clean_value(response.structured_response, self._rule),
        )
        if not kept and not request.state.get(self._field):
            return told
        return ExtendedModelResponse(told, Command(update={self._field: kept}))

    def tool_call(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Run the tool with the real arguments, and clean its answer.

        Args:
            request: the call.

        Returns:
            The answer.
        """
        if self.apply_to_output:
            request = self._with_arguments(request)
        if self.apply_to_output or self.apply_to_tool_results:
            request = self._overheard(request)
        if not self.apply_to_tool_results:
            return (yield request)
        try:
            answer = yield request
        except Exception as error:
            if not passes(error):
                clean_error(error, self._soft)
            raise
        return answer_with(answer, self._clean_result)

    def _cleaned(self, messages: Sequence[Any]) -> list[Any]:
        """The conversation as it may be stored and sent."""
        fresh = newest(messages) if self.strategy == "block" else frozenset()
        return [self._cleaned_one(message, place in fresh) for place, message in enumerate(messages)]

    def _cleaned_one(self, message: Any, is_fresh: bool) -> Any:
        seen = self._seen
        if not is_fresh and seen is not None and seen.has(message):
            return message
        if not isinstance(message, self._looked_at):
            return message
        if is_fresh:
            self._checked(message)
        cleaned = clean_message(message, self._soft)
        if seen is not None and cleaned is message:
            seen.add(message)
        return cleaned

    def _checked(self, message: BaseMessage) -> None:
        """Refuse a message that blocks."""
        found = message.additional_kwargs.get(_BLOCKED, {}).get(self.pii_type)
        if found:
            places = [PIIMatch(type=self.pii_type, value="", start=start, end=end) for start, end in found]
            raise PIIDetectionError(self.pii_type, places)
        clean_message(message, self._rule)

    def _kept(self, messages: Sequence[Any]) -> dict[str, SecretStr]:
        """The real arguments of the calls that will run."""
        answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        return {
            call["id"]: SecretStr(json.dumps(call["args"], default=str))
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
            if call["id"] and call["id"] not in answered and clean_value(call["args"], self._soft) != call["args"]
        }

    def _with_arguments(self, request: ToolCallRequest) -> ToolCallRequest:
        call, state = request.tool_call, request.state
        kept = state.get(self._field) if isinstance(state, Mapping) else None
        secret = (kept or {}).get(call["id"] or "")
        if secret is None:
            return request
        raw = json.loads(secret.get_secret_value())
        args = restored(call["args"], clean_value(raw, self._soft), raw)
        return request.override(tool_call={**call, "args": args})

    def _overheard(self, request: ToolCallRequest) -> ToolCallRequest:
        """The request under a config whose handlers are told only the clean form."""
        runtime = request.runtime
        config = getattr(runtime, "config", None)
        cleaned = config and clean_config(
            config, self._rule, inputs=self.apply_to_output, results=self.apply_to_tool_results
        )
        if not cleaned:
            return request
        # The same one for each try: hooks further in remember on it what they have asked.
        key = f"_pii_runtime_{id(self)}"
        if key not in vars(runtime):
            changed = copy.copy(runtime)
            changed.config = cleaned
            vars(runtime)[key] = changed
        return request.override(runtime=vars(runtime)[key])  # type: ignore[call-arg] # a field like the others

    def _clean_result(self, message: Any) -> Any:
        try:
            return clean_message(message, self._rule)
        except PIIDetectionError as error:
            places = [[match["start"], match["end"]] for match in error.matches]
            found = {**message.additional_kwargs.get(_BLOCKED, {}), self.pii_type: places}
            marked = {**message.additional_kwargs, _BLOCKED: found}
            return clean_message(message, self._soft).model_copy(update={"additional_kwargs": marked})
