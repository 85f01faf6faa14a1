"""What `ShellToolMiddleware` is given, checked before a run."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.tools import ToolException

from agentgraph.errors import ConfigurationError, ConfigurationTypeError

from ._pii_rules import PIIDetectionError, RedactionRule, ResolvedRule
from ._shell_policies import BaseExecutionPolicy, HostExecutionPolicy

__all__ = ["cleaning", "default_shell", "environment_of", "policy_of", "sendable", "texts"]


def cleaning(rules: Sequence[RedactionRule] | None) -> Callable[[str], str]:
    """What takes the values of some rules out of an output."""
    if not all(isinstance(rule, RedactionRule) for rule in rules or ()):
        raise ConfigurationTypeError(f"redaction_rules is {rules!r:.200}; expected was a list of RedactionRule.")
    return functools.partial(_cleaned, [rule.resolve() for rule in rules or ()])


def _cleaned(rules: Sequence[ResolvedRule], output: str) -> str:
    try:
        for rule in rules:
            output = rule.apply(output)[0]
    except PIIDetectionError as error:
        return f"[The output is withheld: it has {len(error.matches)} value(s) of type {error.pii_type}.]"
    return output


def policy_of(given: Any) -> BaseExecutionPolicy:
    """The `execution_policy` argument, or the host's where none was given."""
    policy: BaseExecutionPolicy = HostExecutionPolicy() if given is None else given
    needed = ("spawn", "command_timeout", "startup_timeout", "termination_timeout", "max_output_lines")
    if isinstance(policy, type) or not all(hasattr(policy, name) for name in needed):
        raise ConfigurationTypeError(f"execution_policy is {given!r:.200}; expected was such as HostExecutionPolicy().")
    return policy


def default_shell(policy: Any) -> tuple[str, ...]:
    """The first of a policy's shells that this machine has."""
    shells: tuple[str, ...] = getattr(policy, "default_shell", BaseExecutionPolicy.default_shell)
    return (next((one for one in shells if Path(one).exists()), shells[-1]),)


def texts(name: str, given: Any) -> tuple[str, ...]:
    """One text or several as a tuple; raises where an item is no text, or empty."""
    texts = (given,) if isinstance(given, str) else tuple(given or ())
    if not all(isinstance(one, str) for one in texts):
        raise ConfigurationTypeError(f"{name} is {given!r:.200}; expected was a text, or a list of texts.")
    if (given is not None and not texts and name == "shell_command") or not all(one.strip() for one in texts):
        raise ConfigurationError(f"{name} is {given!r:.200}; expected were texts that are not empty.")
    return texts


def environment_of(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The `env` argument as texts; raises where no environment can hold a name or value."""
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        if not isinstance(name, str):
            raise ConfigurationTypeError(f"env has the name {name!r:.200}; expected was a text.")
        if not name or "=" in name or "\0" in name or "\0" in str(value):
            raise ConfigurationError(f"env has {name!r:.200}, with a name or value that no environment can hold.")
        found[name] = str(value)
    return found


def sendable(command: str) -> str:
    """The command, where it can reach a shell as it is."""
    if "\0" in command or any("\ud800" <= one <= "\udfff" for one in command):
        raise ToolException("The command has a character that no shell can be given (NUL, or half of a pair).")
    return command
