"""The protocols that have a name, and how `tool_protocol` is resolved."""

import difflib
from importlib import import_module

from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.protocols.base import TextProtocol

__all__ = ["PROTOCOLS", "resolve_protocol"]

PROTOCOLS: dict[str, str] = {
    "json": "agentgraph.protocols.json:JSONProtocol",
    "react": "agentgraph.protocols.react:ReActProtocol",
    "react-original": "agentgraph.protocols.react:OriginalReActProtocol",
    "structured_chat": "agentgraph.protocols.structured_chat:StructuredChatProtocol",
    "tool_tags": "agentgraph.protocols.tool_tags:ToolTagsProtocol",
    "xml": "agentgraph.protocols.xml:XMLProtocol",
}
"""Name of `tool_protocol` -> "module:class". Imported when asked for; a further protocol is a further row."""


def resolve_protocol(protocol: "str | TextProtocol | type[TextProtocol]") -> TextProtocol:
    """Find the protocol that `tool_protocol` means.

    Args:
        protocol: a name ("json"), a protocol, or a protocol class that is built without arguments.

    Raises:
        ConfigurationError: no protocol has that name; the error lists those that there are.
        ConfigurationTypeError: it is none of the three.

    Example:
        >>> resolve_protocol("json").name
        'json'
    """
    if isinstance(protocol, TextProtocol):
        return protocol
    if isinstance(protocol, type) and issubclass(protocol, TextProtocol):
        return protocol()
    if not isinstance(protocol, str):
        raise ConfigurationTypeError(
            f"tool_protocol={protocol!r:.200} is a {type(protocol).__name__}. Expected a name "
            f"({', '.join(sorted(PROTOCOLS))}), a TextProtocol, or a class derived from it."
        )
    if protocol not in PROTOCOLS:
        nearest = difflib.get_close_matches(protocol.lower(), PROTOCOLS, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigurationError(
            f"tool_protocol={protocol!r:.200} is not known.{hint} Known are: {', '.join(sorted(PROTOCOLS))}. A format "
            "of your own is a class derived from agentgraph.protocols.TextProtocol."
        )
    module, _, name = PROTOCOLS[protocol].partition(":")
    found: type[TextProtocol] = getattr(import_module(module), name)
    return found()
