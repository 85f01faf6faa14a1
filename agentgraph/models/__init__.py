"""Chat models: ours over one httpx transport, and the way to name one as text.

`init_chat_model("provider:name")` builds a model; the wire formats are in their own modules
(`agentgraph.models.openai.ChatOpenAI`), each imported when it is first asked for.

Example:
    >>> from agentgraph.models import init_chat_model
    >>> init_chat_model("openai:gpt-4o").model
    'gpt-4o'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from agentgraph.models.registry import init_chat_model

__all__ = ["BaseChatModel", "init_chat_model"]

_HOMES = {
    "BaseChatModel": "langchain_core.language_models.chat_models",
    "init_chat_model": "agentgraph.models.registry",
}


def __getattr__(name: str) -> Any:
    # PEP 562: langchain-core takes half a second to import, which a mere `import agentgraph` should not cost.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
