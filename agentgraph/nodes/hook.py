"""The station of before and after hooks: one hook that is a node, or several inline hooks that share one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels.base import BaseChannel
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Overwrite

from agentgraph.composing import hook_pair
from agentgraph.edges import Exits, settle_tools
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.history import with_call_ids, with_id
from agentgraph.hooks import HookSpec, can_jump_to
from agentgraph.nodes.effects import Effect, Steps, aperform, perform
from agentgraph.state import JumpTo, apply_update, unknown_field, visible_state

__all__ = ["Hook", "HookNode", "Passage", "arrival", "bind_hook", "identified", "reduces", "run_hooks"]

Channels = Mapping[str, BaseChannel[Any, Any, Any]]
Pairs = list[tuple[str, Any]]


@dataclass(frozen=True)
class Hook:
    """One middleware's before or after hook, ready to be called in both kinds of runs.

    Attributes:
        label: `<middleware name>.<hook>`, for errors.
        sync: the sync half.
        asynchronous: the async half.
        jumps: where it declares that it may send the run.
    """

    label: str
    sync: Callable[..., Any]
    asynchronous: Callable[..., Awaitable[Any]]
    jumps: tuple[JumpTo, ...] = ()


def bind_hook(middleware: Any, name: str, spec: HookSpec) -> Hook:
    """A middleware's hook; `name` is the middleware's name in this agent."""
    sync, asynchronous = hook_pair(middleware, spec)
    return Hook(f"{name}.{spec.name}", sync, asynchronous, can_jump_to(middleware, spec))


@dataclass
class Passage:
    """What a row of hooks has done so far.

    Attributes:
        channels: the state's channels, whose rules the writes follow.
        start: the visible state before the first hook.
        writes: `(field, value)` in order.
        commands: commands of hooks, which langgraph applies as they are.
        jumped: whether a hook sent the run away, so that what follows is left out.
    """

    channels: Channels
    start: dict[str, Any]
    writes: Pairs = field(default_factory=list)
    commands: list[Command[Any]] = field(default_factory=list)
    jumped: bool = False
    _shown: int = 0
    _origin: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._origin = self.start

    def state(self) -> dict[str, Any]:
        """The state as the next one sees it: with all writes applied, which is done only when somebody looks."""
        fresh, self._shown = self.writes[self._shown :], len(self.writes)
        if fresh:
            self.start = visible_state(apply_update(self.channels, self.start, fresh))
        return self.start

    def take(self, hook: Hook, result: Any) -> None:
        """Take over what a hook returned."""
        if result is None:
            return
        if isinstance(result, Command):
            self._take_command(hook, result)
        elif isinstance(result, Mapping):
            self._take_update(hook, list(result.items()))
        else:
            raise ConfigurationTypeError(
                f"The hook {hook.label} returned {type(result).__name__}; expected was a dict with the changes of the "
                "state, a Command, or None."
            )

    def result(self) -> Command[Any] | list[Command[Any]] | None:
        """The node's answer to langgraph."""
        if not self.writes:
            return self.commands or None
        return [Command(update=_mergeable(self.channels, self._origin, self.writes)), *self.commands]

    def write(self, pairs: Pairs, *, who: str = "The model node") -> None:
        """Add writes; `who` makes them, for errors."""
        for key, _ in pairs:
            if key not in self.channels:
                raise ConfigurationError(unknown_field(who, key, self.channels))
        self.writes.extend((key, _with_ids(value) if key == "messages" else value) for key, value in pairs)

    def _take_update(self, hook: Hook, pairs: Pairs) -> None:
        self.write(pairs, who=f"The hook {hook.label}")
        target = dict(pairs).get("jump_to")
        if target is not None:
            _check_jump(hook, target)
            self.jumped = True

    def _take_command(self, hook: Hook, command: Command[Any]) -> None:
        if command.graph is not None:
            self.commands.append(command)
            self.jumped = True
            return
        self._take_update(hook, list(command._update_as_tuples()))  # noqa: SLF001 - langgraph's own reading of all forms of an update
        if command.goto:
            raise ConfigurationError(
                f"The hook {hook.label} returned a Command with goto={command.goto!r:.100}. The edge out of its node "
                "would be taken as well, so a goto cannot redirect the run. Return a dict with "
                '"jump_to": "end", "model" or "tools", and declare it with @hook_config(can_jump_to=[...]).'
            )


@dataclass(frozen=True, eq=False)
class HookNode(Runnable[Any, Any]):
    """A node that runs one hook, or several inline hooks in a row.

    Attributes:
        hooks: in the order they run.
        channels: the state's channels, so that a hook sees what the one before it wrote.
        settles: where this node is the loop's start, what it must know to settle the last step's tools.
    """

    hooks: tuple[Hook, ...]
    channels: Channels
    settles: Exits | None = None

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Run the hooks in a sync run."""
        return perform(self._steps(input))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002, ARG002 - the interface of Runnable
        """Run the hooks in an async run."""
        return await aperform(self._steps(input))

    def _steps(self, state: dict[str, Any]) -> Steps:
        settled = arrival(state, self.settles)
        if settled is not None:
            return settled
        passage = Passage(self.channels, visible_state(state))
        yield from run_hooks(self.hooks, passage, get_runtime())
        return passage.result()


def run_hooks(hooks: Sequence[Hook], passage: Passage, runtime: Runtime[Any]) -> Steps:
    """Call hooks in a row until one sends the run away."""
    for hook in hooks:
        if passage.jumped:
            return
        passage.take(hook, (yield Effect(hook.sync, hook.asynchronous, (passage.state(), runtime))))


def arrival(state: Mapping[str, Any], settles: Exits | None) -> Command[Any] | None:
    """What the loop's first node answers at once when the tools before it have ended the run; None to go on."""
    if settles is None or not state.get("tool_exits"):
        return None
    decision = settle_tools(state, settles)
    return Command(update={"jump_to": "end"}) if decision == "end" else decision  # type: ignore[return-value] # "end" is the only str


def _check_jump(hook: Hook, target: Any) -> None:
    if target in hook.jumps:
        return
    declared = f"it declares {list(hook.jumps)}" if hook.jumps else "it declares no jumps"
    raise ConfigurationError(
        f"The hook {hook.label} returned jump_to={target!r}, but {declared}. "
        f"Mark the method with @hook_config(can_jump_to=[{target!r}]), or pass can_jump_to to the decorator."
    )


def _mergeable(channels: Channels, origin: dict[str, Any], writes: Pairs) -> Pairs:
    """The writes as langgraph takes them in one step, which hooks that share a node share.

    It takes one write for a field without reducer, and drops what stands beside an Overwrite.
    """
    overwritten = {key for key, value in writes if isinstance(value, Overwrite)}
    final = apply_update(channels, origin, [pair for pair in writes if pair[0] in overwritten])
    single = {key: value for key, value in writes if not reduces(channels[key])}
    merged = [(key, value) for key, value in writes if reduces(channels[key]) and key not in overwritten]
    return [*merged, *single.items(), *((key, Overwrite(final[key])) for key in overwritten if key not in single)]


def _with_ids(value: Any) -> Any:
    """Messages with ids, so that hooks which share a node and the stored state mean the same by an id."""
    if isinstance(value, Overwrite):
        return value
    items = value if isinstance(value, list) else [value]
    named = [identified(message) for message in convert_to_messages(items)]
    return value if all(a is b for a, b in zip(named, items, strict=True)) else named


def identified(message: Any) -> Any:
    """A message with an id of its own, and one for each of its calls."""
    return with_call_ids(with_id(message)) if isinstance(message, AIMessage) else with_id(message)


def reduces(channel: BaseChannel[Any, Any, Any]) -> bool:
    """Whether a channel merges several writes of one step."""
    return any(hasattr(channel, rule) for rule in ("operator", "reducer", "accumulate"))
