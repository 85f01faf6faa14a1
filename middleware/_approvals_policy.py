"""Which calls need a decision, and how they are put to a person."""

import copy
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime

from agentgraph.approvals import DECISIONS, call_digest
from agentgraph.errors import ConfigurationError, ConfigurationTypeError

from ._approvals_formats import (
    ActionRequest,
    Decision,
    DecisionType,
    HITLRequest,
    InterruptOnConfig,
    ReviewConfig,
    ToolApprovalRequest,
    decision_schema,
)

__all__ = ["Policy", "Put", "as_json", "digest_of", "early_request"]

_KEYS = frozenset({"allowed_decisions", "description", "args_schema", "when"})


@dataclass(frozen=True)
class Put:
    """A call as it is put to a person.

    Attributes:
        call: what would run.
        model_call: the call in the model's message.
        seen: digests of the forms in which a person has seen it.
    """

    call: ToolCall
    model_call: ToolCall
    seen: tuple[str, ...] = ()
    edited_from: str | None = None

    @property
    def id(self) -> str:
        """The id of the model's call."""
        return self.model_call["id"] or ""

    def edited(self, decision: Decision) -> "Put":
        """The call that an edit puts in its place."""
        action: Any = cast("Mapping[str, Any]", decision)["edited_action"]
        call: ToolCall = {**self.call, "name": action["name"], "args": action["args"]}
        return Put(call, self.model_call, (*self.seen, digest_of(self.call)), self.call["name"])


def digest_of(call: ToolCall) -> str:
    """What a call does, as one short text."""
    return call_digest(call["name"], call["args"])


@dataclass(frozen=True, eq=False)
class Policy:
    """Which calls are guarded and how a person is asked.

    Attributes:
        configs: by the tool's name.
        prefix: of the description of a call whose config has none.
        mark: a digest that tells this policy from others, the same in every process.
    """

    configs: Mapping[str, InterruptOnConfig]
    prefix: str
    mark: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mark", call_digest("", {name: _identity(one) for name, one in self.configs.items()}))

    @classmethod
    def of(cls, interrupt_on: Mapping[str, bool | InterruptOnConfig], prefix: str) -> "Policy":
        """The policy that a user described.

        Raises:
            ConfigurationError: a config would guard nothing or cannot work.
        """
        if not isinstance(interrupt_on, Mapping):
            raise ConfigurationTypeError(
                f"interrupt_on is {repr(interrupt_on)[:200]}; expected was a dict of tool names, each with True, False "
                'or a config such as {"allowed_decisions": ["approve", "reject"]}.'
            )
        given = {name: _config(name, one) for name, one in interrupt_on.items()}
        return cls({name: one for name, one in given.items() if one is not None}, prefix)

    @property
    def asks_user_code(self) -> bool:
        """Whether functions of the user's take part, which may block."""
        return any("when" in one or callable(one.get("description")) for one in self.configs.values())

    def guards(self, put: Put) -> bool:
        """Whether the call could need a decision at all."""
        return put.call["name"] in self.configs

    def is_due(self, put: Put, request: ToolCallRequest) -> bool:
        """Whether the call needs a decision; `request` is what a `when` is asked with.

        A person's edit is a decision itself. It is asked about again where it leads to another guarded tool, or where
        the policy asks about its very arguments.
        """
        config = self.configs.get(put.call["name"])
        if config is None or digest_of(put.call) in put.seen:
            return False
        when = config.get("when")
        if when is None:
            return put.edited_from != put.call["name"]
        said = when(request.override(tool_call=_own(request.tool_call)))
        if inspect.isawaitable(said):
            raise ConfigurationTypeError(_awaitable(put.call["name"], "when", said, "True or False"))
        return bool(said)

    def question(self, puts: Sequence[Put], state: Any, runtime: Runtime[Any]) -> HITLRequest:
        """The question about several calls at once."""
        return HITLRequest(
            action_requests=[
                ActionRequest(
                    name=put.call["name"], args=put.call["args"], description=self._description(put, state, runtime)
                )
                for put in puts
            ],
            review_configs=[self._review_config(put.call["name"]) for put in puts],
        )

    def single_question(
        self, put: Put, request: ToolCallRequest, runtime: Runtime[Any]
    ) -> tuple[ToolApprovalRequest, dict[str, Any]]:
        """The question about one call, and the schema of its answer."""
        name = put.call["name"]
        config = self.configs.get(name, _ANY)
        tool = request.tool if request.tool is not None and request.tool.name == name else None
        return ToolApprovalRequest(
            type="tool_approval",
            tool_call_id=put.id,
            name=name,
            args=put.call["args"],
            description=self._description(put, request.state, runtime),
        ), decision_schema(config["allowed_decisions"], name, tool, config.get("args_schema"))

    def _review_config(self, name: str) -> ReviewConfig:
        config = self.configs.get(name, _ANY)
        review = ReviewConfig(action_name=name, allowed_decisions=list(config["allowed_decisions"]))
        if "args_schema" in config:
            review["args_schema"] = config["args_schema"]
        return review

    def _description(self, put: Put, state: Any, runtime: Runtime[Any]) -> str:
        name = put.call["name"]
        given = self.configs.get(name, _ANY).get("description")
        if callable(given):
            given = given(_own(put.call), state, runtime)
            if inspect.isawaitable(given):
                raise ConfigurationTypeError(_awaitable(name, "description", given, "a text"))
            if not isinstance(given, str):
                raise ConfigurationTypeError(
                    f"The description of interrupt_on[{name!r}] gave {repr(given)[:200]}; expected was a text."
                )
        if given is not None:
            return given
        return f"{self.prefix}\n\nTool: {put.call['name']}\nArguments: {as_json(put.call['args'])}"


_ANY = InterruptOnConfig(allowed_decisions=cast("list[DecisionType]", list(DECISIONS)))
"""For a call that a person was asked about before the policy was changed: whatever was decided holds."""


def _own(call: ToolCall) -> ToolCall:
    """A call for a function of the user's, which cannot change by it what is asked about or what runs."""
    return {**call, "args": copy.deepcopy(call["args"])}


def _awaitable(name: str, part: str, given: Any, expected: str) -> str:
    if inspect.iscoroutine(given):
        given.close()
    return (
        f"The {part} of interrupt_on[{name!r}] gave something to await, {repr(given)[:200]}; expected was {expected} "
        "from a plain function, which may block: in async runs it is called in a thread."
    )


def _identity(config: InterruptOnConfig) -> list[str]:
    when = config.get("when")
    return [*config["allowed_decisions"], getattr(when, "__qualname__", type(when).__qualname__)]


def early_request(call: ToolCall, state: Any, runtime: Runtime[Any]) -> ToolCallRequest:
    """The request that a `when` is asked with before the tools."""
    of_call: ToolRuntime[Any, Any] = ToolRuntime(
        state=state,
        context=runtime.context,
        config=ensure_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
        execution_info=runtime.execution_info,
        server_info=runtime.server_info,
    )
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=of_call)


def as_json(args: Any) -> str:
    """Arguments as a person or a model reads them."""
    return json.dumps(args, ensure_ascii=False, default=str)


def _config(name: Any, given: Any) -> InterruptOnConfig | None:
    """One tool's config; None where it is not guarded."""
    if not isinstance(name, str) or not isinstance(given, bool | Mapping):
        raise ConfigurationTypeError(
            f"interrupt_on[{name!r}] is {repr(given)[:200]}; expected was a tool's name with True, False or a config "
            'such as {"allowed_decisions": ["approve", "reject"]}.'
        )
    if isinstance(given, bool):
        every = cast("list[DecisionType]", list(DECISIONS))
        return InterruptOnConfig(allowed_decisions=every) if given else None
    unknown = set(given) - _KEYS
    if unknown:
        raise ConfigurationError(
            f"interrupt_on[{name!r}] has {sorted(map(str, unknown))}; a config takes {', '.join(sorted(_KEYS))}."
        )
    # An own copy, so that a later change of the user's dict cannot open a guard.
    config = cast("InterruptOnConfig", {**given, "allowed_decisions": _decisions(name, given.get("allowed_decisions"))})
    _check_parts(name, config)
    return config


def _decisions(name: str, given: Any) -> list[DecisionType]:
    if isinstance(given, Sequence) and not isinstance(given, str) and given and all(one in DECISIONS for one in given):
        return list(dict.fromkeys(given))
    raise ConfigurationError(
        f"interrupt_on[{name!r}] has allowed_decisions={repr(given)[:200]}; expected was a list of at least one of "
        f"{', '.join(repr(kind) for kind in DECISIONS)}. Without one, nobody could ever decide about the tool."
    )


def _check_parts(name: str, config: InterruptOnConfig) -> None:
    when, description = config.get("when", callable), config.get("description", "")
    if not callable(when) or _is_async(when):
        raise ConfigurationTypeError(
            f"interrupt_on[{name!r}] has when={repr(when)[:200]}; expected was a plain function of a ToolCallRequest "
            "that returns True where the call needs a decision."
        )
    if not (isinstance(description, str) or callable(description)) or _is_async(description):
        raise ConfigurationTypeError(
            f"interrupt_on[{name!r}] has description={repr(description)[:200]}; expected was a text, or a plain "
            "function (tool_call, state, runtime) that returns one."
        )
    if "args_schema" in config:
        if not isinstance(config["args_schema"], Mapping):
            raise ConfigurationTypeError(
                f"interrupt_on[{name!r}] has args_schema={repr(config['args_schema'])[:200]}; expected was a JSON "
                "schema as a dict."
            )
        from agentgraph.structured_output.json_schemas import check_json_schema  # noqa: PLC0415 - few configs have one

        check_json_schema(config["args_schema"])


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
