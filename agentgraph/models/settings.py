"""What is wrong with the arguments of a chat model, told in one sentence each."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError

__all__ = ["settings_fault"]

_MAX_FAULTS = 5


def settings_fault(name: str, error: ValidationError, known: Iterable[str]) -> str:
    """Give the text for arguments that pydantic refused; values are not shown, for one may be a key.

    Args:
        name: the class's name.
        error: what pydantic raised.
        known: the names of the arguments that there are.
    """
    names, told = tuple(known), {}
    for row in error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_FAULTS]:
        argument = str(row["loc"][0])[:100] if row["loc"] else ""
        if row["type"] == "extra_forbidden":
            nearest = difflib.get_close_matches(argument, names, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else "give parameters of the server in extra_body={...}."
            told[argument] = f"there is no argument {argument!r}; {hint}"
        else:
            told.setdefault(argument, f"{argument or 'the arguments'}: {row['msg']}.")
    return f"{name} cannot be built: {' '.join(told.values())}"
