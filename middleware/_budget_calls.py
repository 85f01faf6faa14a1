"""One model call against its budgets: what it will cost at least, whether it fits, and what it has cost."""

import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.types import Command

from agentgraph.history import MARK, last_ai_message, pending_calls
from agentgraph.requests import ExtendedModelResponse, ModelRequest, ModelResponse

from ._budget_keys import Place, reading, writing
from ._budget_ledger import LOCK, Level
from ._budget_limits import Degrade, Standing, Verdict, amount, decide
from ._budget_prices import Prices, Tokens, name_of
from ._budget_usage import Usage
from ._other_models import for_model

__all__ = ["ANSWERS", "BudgetCall", "question"]

LAST = (
    "The budget of this run is nearly used up, so no tool can be called any more. Answer now, briefly, with what you "
    "know, and say what is left undone."
)
_OVER = "The call was not run: the budget allows no further tool calls. Do not send another one; go on without it."
_TOOLS_NEEDED = ("anthropic", "amazon_bedrock", "chat-anthropic")
"""Kinds of models whose servers refuse a history with tool calls where the request has no tools."""

_APPROVE = {"type": {"const": "approve"}, "raise_by": {"type": "number", "exclusiveMinimum": 0}}
_STOP = {"type": {"const": "stop"}}


def _schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


ANSWERS: dict[str, Any] = {"oneOf": [_schema(_APPROVE), _schema(_STOP)]}
"""The schema of the answers to a question about a budget; amounts of what is counted are whole numbers."""


def question(verdict: Verdict) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a person is asked when a call does not fit, and the schema of the answer."""
    standing, dimension = verdict.standing, verdict.dimension
    asked = {"type": "budget_exceeded", **_facts(standing, dimension), "answers": ["approve", "stop"]}
    whole = dimension in {"tokens", "model_calls", "tool_calls"}
    raised = {"type": "integer" if whole else "number", "exclusiveMinimum": 0}
    return asked, {"oneOf": [_schema({**_APPROVE, "raise_by": raised}), _schema(_STOP)]}


@dataclass
class BudgetCall:
    """A model call that is looked at before and after it is made.

    Attributes:
        request: the call.
        level: the agent's run.
        reserve: tokens that are kept for the output of a last answer; None for no last answer.
        key: of its booking.
        elsewhere: for the places of keys, what other runs have spent.
        raised: what people have added in answer to this call, as the state keeps it.
        warned: which warnings this call gives, as the state keeps it.
    """

    request: ModelRequest[Any]
    level: Level
    reserve: int | None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    elsewhere: dict[Place, Usage] = field(default_factory=dict)
    raised: dict[str, str] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)
    input_tokens: int | None = None

    def read(self) -> Generator[Any, Any, None]:
        """Learn what other runs have spent of shared budgets."""
        self.elsewhere = yield from reading(self._places(), self.level.run)

    def write(self) -> Generator[Any, Any, None]:
        """Tell other runs what this one has spent."""
        yield from writing(self._places(), self.level.run, self.level.total().own())

    def decide(self) -> Verdict:
        """Whether the call is made; what it will spend at least is then held for it."""
        self.level = replace(self.level, raised={**self.level.raised, **self.raised})
        self._expected(0)  # counts the tokens, which nobody should have to wait for
        with LOCK:
            standings = self._standings()
            self._degrade(standings)
            expected = self._expected(0)
            last = self._expected(self.reserve) if self.reserve is not None and self.request.tools else None
            verdict = decide(standings, expected, last)
            if verdict.kind in {"go", "last"}:
                for level in self.level.chain():
                    level.tab.held[self.key] = expected
        self._warn(standings, expected, verdict)
        return verdict

    def release(self) -> None:
        """Hold nothing any more."""
        with LOCK:
            for level in self.level.chain():
                level.tab.held.pop(self.key, None)

    def answered(self, verdict: Verdict, answer: Mapping[str, Any]) -> Verdict | None:
        """Take a person's answer; gives how the run ends by it, None to look again."""
        standing, dimension = verdict.standing, verdict.dimension
        if standing is None or answer["type"] == "stop":
            return replace(verdict, kind="end")
        more = Decimal(str(answer["raise_by"])) + Decimal(str(standing.raised.get(dimension, 0)))
        self.raised[f"{standing.key}:{dimension}"] = str(more if dimension in {"cost", "seconds"} else int(more))
        return None

    def outgoing(self, verdict: Verdict) -> ModelRequest[Any]:
        """The request to make; a last one offers no tools."""
        if verdict.kind != "last":
            return self.request
        kind = str(getattr(self.request.model, "_llm_type", ""))
        tools = self.request.tools if kind.startswith(_TOOLS_NEEDED) else []
        messages = [*self.request.messages, HumanMessage(LAST)]
        return self.request.override(messages=messages, tools=tools, tool_choice=None)

    def settled(self, response: ModelResponse[Any], verdict: Verdict) -> ExtendedModelResponse[Any]:
        """Book the call, and refuse the tool calls that do not fit; gives the response with the update."""
        message = last_ai_message(response.result)
        if message is None:
            return self._with_update(response)
        pending = pending_calls(response.result)
        with LOCK:
            self.release()
            room = 0 if verdict.kind == "last" else self._room(len(pending))
            usage = self._spent(message, pending[:room], len(pending) - room)
            self.level.tab.booked[self.key] = usage
            # What is held no more must be booked on all levels before another call looks.
            self.level.tell()
        refused = pending[room:]
        result = [*response.result, *map(_refusal, refused)]
        if verdict.kind == "last":
            result = _ended(result, verdict, closed=bool(refused))
        return self._with_update(replace(response, result=result))

    def ended(self, verdict: Verdict) -> ExtendedModelResponse[Any]:
        """The response where no call is made any more."""
        return self._with_update(ModelResponse([_closing(verdict)]))

    def _with_update(self, response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
        update = self.level.settled(warned=sorted(self.warned), raised=self.raised)
        return ExtendedModelResponse(response, Command(update=update))

    def _places(self) -> list[Place]:
        return [place for level in self.level.chain() for place in level.places if place is not None]

    def _standings(self) -> list[Standing]:
        return [one for level in self.level.chain() for one in level.standings(self.elsewhere, self.level)]

    def _prices(self) -> Prices:
        """The nearest that are needed: a caller's limit of cost holds also where this agent has none."""
        prices = [level.prices for level in self.level.chain()]
        return next((one for one in prices if one.needed), prices[0])

    def _degrade(self, standings: Iterable[Standing]) -> None:
        for one in standings:
            if isinstance(one.budget.on_exceeded, Degrade) and one.over(self._expected(0)) is not None:
                self.request = for_model(self.request, one.budget.on_exceeded.model)

    def _expected(self, output: int) -> Usage:
        """What a call with so many tokens of output spends, by an estimate of its input."""
        total, budgets = self.level.total(), [budget for level in self.level.chain() for budget in level.budgets]
        counts = any(budget.limits.keys() & {"tokens", "cost"} for budget in budgets)
        tokens = Tokens(self._input(), output) if counts else Tokens(0)
        priced = any("cost" in budget.limits for budget in budgets)
        return Usage(
            model_calls=1,
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cost=self._prices().cost(name_of(self.request.model), tokens) if priced else Decimal(0),
            seconds=total.seconds / total.model_calls if total.model_calls else 0.0,
        )

    def _input(self) -> int:
        if self.input_tokens is None:
            system = [self.request.system_message] if self.request.system_message is not None else []
            tools = list(self.request.tools) or None
            self.input_tokens = count_tokens_approximately([*system, *self.request.messages], tools=tools)
        return self.input_tokens

    def _room(self, wanted: int) -> int:
        rooms = [one.room_for_tools() for one in self._standings()]
        return min([wanted, *(room for room in rooms if room is not None)])

    def _spent(self, message: AIMessage, calls: Sequence[ToolCall], refused: int) -> Usage:
        tokens = self._tokens(message)
        model = name_of(self.request.model)
        amounts: dict[str, Any] = {
            "model_calls": 1,
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cached_tokens": tokens.cache_read,
            "cost": self._prices().cost(model, tokens),
        }
        # A model may make up names without end, and the state must not grow by them.
        offered = {getattr(tool, "name", "") for tool in self.request.tools}
        names = Counter(call["name"] if call["name"] in offered else "unknown" for call in calls)
        return Usage(
            **amounts,
            tool_calls=len(calls),
            refused_calls=refused,
            seconds=self.level.tab.take_seconds(),
            models={model.name: Usage(**amounts)},
            tools={name: Usage(tool_calls=count) for name, count in names.items()},
        )

    def _tokens(self, message: AIMessage) -> Tokens:
        reported = message.usage_metadata
        if not reported:
            # A server that reports nothing must not be a way around a limit.
            return Tokens(self._input(), count_tokens_approximately([message]))
        details = reported.get("input_token_details") or {}
        counts = (
            reported.get("input_tokens"),
            reported.get("output_tokens"),
            details.get("cache_read"),
            details.get("cache_creation"),
        )
        # Nor may one that reports less than nothing give back what was spent.
        return Tokens(*(max(count or 0, 0) for count in counts))

    def _warn(self, standings: Iterable[Standing], expected: Usage, verdict: Verdict) -> None:
        """Tell the stream, once a run, which limits are nearly or quite reached."""
        for one in standings:
            if one.inherited:
                continue  # its own agent tells
            over = one.over(expected)
            events = [("warning", dimension) for dimension in one.nearly_reached()]
            events += [("exceeded", over)] if over is not None else []
            if verdict.standing is one and verdict.kind != "ask":
                events.append(("exceeded", verdict.dimension))
            for event, dimension in events:
                mark = f"{one.key}:{dimension}:{event}"
                if mark not in {*self.warned, *self.level.warned} and verdict.kind != "ask":
                    self.warned.add(mark)
                    self.request.runtime.stream_writer({"type": "budget", "event": event, **_facts(one, dimension)})


def _facts(standing: Standing | None, dimension: Any) -> dict[str, Any]:
    if standing is None:
        return {}
    spent, allowed = amount(standing.spent, dimension), standing.allowed(dimension)
    shown = (str(spent), str(allowed)) if dimension == "cost" else (spent, allowed)
    return {"limit": standing.which(dimension), "spent": shown[0], "allowed": shown[1]}


def _refusal(call: ToolCall) -> ToolMessage:
    return ToolMessage(
        _OVER,
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
        response_metadata={MARK: {"refused": "budget"}},
    )


def _closing(verdict: Verdict) -> AIMessage:
    standing = verdict.standing
    text = standing.told(verdict.dimension) if standing is not None else "The budget is used up."
    return AIMessage(text, response_metadata=_marked({}, verdict))


def _ended(result: list[Any], verdict: Verdict, *, closed: bool) -> list[Any]:
    """The last answer, which says that a limit ended the run; one that called tools all the same is no answer."""
    if closed:
        return [*result, _closing(verdict)]
    last = result[-1]
    return [*result[:-1], last.model_copy(update={"response_metadata": _marked(last.response_metadata, verdict)})]


def _marked(metadata: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    which = verdict.standing.which(verdict.dimension) if verdict.standing is not None else "budget"
    return {**metadata, MARK: {**(metadata.get(MARK) or {}), "limit": which}}
