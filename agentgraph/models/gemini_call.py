"""One call of Gemini's API: its request, mended where a server knows only the elder form of it, and its answer."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from langchain_core.outputs import ChatGeneration, ChatResult

from agentgraph.errors import BadRequestError
from agentgraph.models.answers import EVENTS_KEY
from agentgraph.models.gemini_codec import Asked, StreamReader, read_answer, read_events
from agentgraph.models.gemini_schema import with_openapi_schemas
from agentgraph.models.transport import Reply
from agentgraph.models.wire import Link

__all__ = ["Call", "mended", "path_of"]

_REFUSED: Final = re.compile(r"""[Uu]nknown name ["']?(\w+)|[Cc]annot find field:? ["']?(\w+)""")


def _without_ids(body: Mapping[str, Any]) -> dict[str, Any]:
    """Give a request without the ids of calls: their order and names say enough."""
    contents = [{**one, "parts": [_without_id(part) for part in one["parts"]]} for one in body["contents"]]
    return {**body, "contents": contents}


def _without_id(part: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {"functionCall", "functionResponse"} & part.keys()
    return {**part, **{kind: {key: value for key, value in part[kind].items() if key != "id"} for kind in kinds}}


# What elder servers, and others in Google's place, do not know, and how to do without it.
_MENDING: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "jsonschema": with_openapi_schemas,
    "id": _without_ids,
}
_MEANT: Final[Mapping[str, str]] = {
    "id": "id",
    "parametersjsonschema": "jsonschema",
    "responsejsonschema": "jsonschema",
}


def mended(body: Mapping[str, Any], refused: Iterable[str]) -> dict[str, Any]:
    """Give a request without what its server is known to refuse."""
    out = dict(body)
    for what in refused:
        out = _MENDING[what](out)
    return out


def path_of(model: str, *, stream: bool) -> str:
    """Give the path of a model's method; the model may be a name, or a resource ("models/...", "tunedModels/...").

    Args:
        model: whatever it holds, it does not lead out of its place in the URL.
        stream: whether events are asked for.
    """
    segments = [quote(one, safe="@:") for one in model.split("/") if one.strip(".")]
    resource = "/".join(segments if len(segments) > 1 else ["models", *segments])
    return f"{resource}:streamGenerateContent?alt=sse" if stream else f"{resource}:generateContent"


@dataclass(slots=True)
class Call:
    """One call: its request, which a refusal may change once for each kind, and what reading the answer needs."""

    link: Link
    path: str
    body: dict[str, Any]
    asked: Asked
    mended: list[str] = field(default_factory=list)

    def mend(self, error: BadRequestError) -> None:
        """Put what the server does not know into its elder form, now and later; raise `error` if that is not it."""
        found = _REFUSED.search(str(error))
        named = (found[1] or found[2]).replace("_", "").lower() if found else ""
        what = _MEANT.get(named)
        if what is None or what in self.mended:
            raise error
        self.body = mended(self.body, [what])
        self.mended.append(what)
        # Calls that were under way together are all refused: the first of them tells it to later ones.
        if what not in self.link.refused:
            self.link.refused.append(what)

    def result(self, reply: Reply) -> ChatResult:
        """Read a whole answer."""
        asked = replace(self.asked, request_id=reply.request_id)
        body: Any = reply.json
        events = body.get(EVENTS_KEY) if isinstance(body, dict) else None
        message = read_answer(body, asked) if events is None else read_events(events, asked)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def reader(self) -> StreamReader:
        """Give a reader of the streamed answer."""
        return StreamReader(self.asked)
