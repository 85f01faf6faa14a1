"""What is wrong with the arguments of a chat model, told in one sentence each."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError

__all__ = ["settings_fault"]

_MAX_FAULTS = 5
_OWN_CLIENT = "give an httpx client that has it as http_client= (for async calls http_async_client=)."
# What other clients call their arguments, and what does the same here.
_ADVICE = {
    "azure_ad_token_provider": 'give an httpx client whose "auth" sets the header as http_client= (and '
    "http_async_client=), or a token as auth_token=.",
    "extra_headers": "headers of every request are default_headers={...}.",
    "extra_query": "parameters of every request's URL are default_query={...}.",
    "model_kwargs": "parameters of the API are arguments here; what is none goes into extra_body={...}.",
    "n": "one answer is read; for several, call batch() with the input repeated.",
    "organization": 'give default_headers={"OpenAI-Organization": ...}.',
    "proxy": _OWN_CLIENT,
    "system": "instructions are a system message, or create_agent(..., system_prompt=...).",
    "use_responses_api": 'the Responses API is a class, ChatOpenAIResponses, and a name, "openai_responses:<model>".',
    "verify": f"{_OWN_CLIENT} Your own certificate authority can also be named in SSL_CERT_FILE.",
}
_SAME = {
    "openai_organization": "organization",
    "openai_proxy": "proxy",
    "anthropic_proxy": "proxy",
    "client_args": "proxy",
    "client_kwargs": "proxy",
    "proxies": "proxy",
    "token_provider": "azure_ad_token_provider",
}
# Pydantic's own words would name one of the two types.
_EXPECTED = {"timeout": "expected seconds as a number, or agentgraph.models.call.Timeouts(total=...)."}


def _advice(argument: str, names: Iterable[str]) -> str:
    """What to do in place of giving an argument that there is not."""
    known = _ADVICE.get(_SAME.get(argument, argument))
    nearest = difflib.get_close_matches(argument, names, n=1)
    guess = f"did you mean {nearest[0]!r}?" if nearest else "give parameters of the server in extra_body={...}."
    return known or guess


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
            told[argument] = f"there is no argument {argument!r}; {_advice(argument, names)}"
        else:
            told.setdefault(argument, f"{argument or 'the arguments'}: {_EXPECTED.get(argument, row['msg'] + '.')}")
    return f"{name} cannot be built: {' '.join(told.values())}"
