"""Chat models: ours over one httpx transport, and the way to name one as text.

`init_chat_model("provider:name")` builds a model; the wire formats are in their own modules
(`agentgraph.models.openai.ChatOpenAI`), each imported when it is first asked for.

Example:
    >>> from agentgraph.models import init_chat_model
    >>> init_chat_model("openai:gpt-4o").model
    'gpt-4o'
"""

import sys
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

_ELSEWHERE = {
    "ChatAnthropic": "agentgraph.models.anthropic",
    "ChatAzureOpenAI": "agentgraph.models.azure_openai",
    "ChatGemini": "agentgraph.models.gemini",
    "ChatLocal": "agentgraph.models.local",
    "ChatOllama": "agentgraph.models.ollama",
    "ChatOpenAI": "agentgraph.models.openai",
    "ChatOpenAIResponses": "agentgraph.models.openai_responses",
    "Provider": "agentgraph.models.registry",
    "Timeouts": "agentgraph.models.call",
}
"""Names that are looked for here, by the module that has them."""


def __getattr__(name: str) -> Any:
    # PEP 562: langchain-core takes half a second to import, which a mere `import agentgraph` should not cost.
    home = _HOMES.get(name)
    if home is None:
        module = _ELSEWHERE.get(name)
        told = f"; it is in {module}: from {module} import {name}" if module else ""
        # An import statement looks for names through this module, and drops the text of an AttributeError.
        asking = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 (documented, and the one way to know)
        is_told = told and asking == "importlib._bootstrap"
        raise (ImportError if is_told else AttributeError)(f"module {__name__!r} has no attribute {name!r}{told}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
