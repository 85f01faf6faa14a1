"""A server in a process of its own that plays streamed answers, so that its CPU time is not counted.

It answers on the paths of five wire formats with the same words, one word an event. How many events one write holds is
what the request's header `x-burst` says, and how many seconds lie between two writes what `x-pause` says: servers that
compute a word at a time write events singly, gateways and fast providers several together, a replay all it has.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["BURST", "COUNT", "FORMATS", "PAUSE", "words"]

BURST = "x-burst"
COUNT = "x-count"
PAUSE = "x-pause"


def words(count: int) -> list[str]:
    """The words of an answer; their sum is what a client has to have read."""
    return [f" word{number}" for number in range(count)]


def _openai(count: int) -> Iterator[bytes]:
    top = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion.chunk",
        "created": 1741569952,
        "model": "gpt-4.1-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_f7a584cf1f",
    }

    def event(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**top, "choices": [choice], "usage": None}

    yield _sse(event({"role": "assistant", "content": "", "refusal": None}))
    for word in words(count):
        yield _sse(event({"content": word}))
    yield _sse(event({}, "stop"))
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
    yield _sse({**top, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _responses(count: int) -> Iterator[bytes]:
    number = itertools.count()
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    text = {"type": "output_text", "text": "", "annotations": []}
    head = {"id": "resp_1", "object": "response", "model": "gpt-4.1", "status": "in_progress", "output": []}
    whole = {**text, "text": "".join(words(count))}
    done = {**item, "status": "completed", "content": [whole]}
    usage = {"input_tokens": 9, "output_tokens": count, "total_tokens": 9 + count}
    completed = {**head, "status": "completed", "output": [done], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": head},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": text},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in words(count)),
        {"type": "response.output_text.done", **place, "text": whole["text"]},
        {"type": "response.content_part.done", **place, "part": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": completed},
    ]
    for event in events:
        yield _sse({**event, "sequence_number": next(number)}, event["type"])


def _anthropic(count: int) -> Iterator[bytes]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    usage = {"input_tokens": 9, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in words(count)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": count},
        },
        {"type": "message_stop"},
    ]
    for event in events:
        yield _sse(event, event["type"])


def _gemini(count: int) -> Iterator[bytes]:
    for number, word in enumerate(words(count), 1):
        candidate: dict[str, Any] = {"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}
        if number == count:
            candidate["finishReason"] = "STOP"
        usage = {"promptTokenCount": 9, "candidatesTokenCount": number, "totalTokenCount": 9 + number}
        yield _sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5", "responseId": "r"})


def _ollama(count: int) -> Iterator[bytes]:
    top = {"model": "qwen3", "created_at": "2026-01-01T00:00:00.000000Z"}
    for word in words(count):
        yield _line({**top, "message": {"role": "assistant", "content": word}, "done": False})
    counts = {"prompt_eval_count": 9, "eval_count": count, "eval_duration": 1, "total_duration": 2}
    yield _line({**top, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop", **counts})


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _sse(event: dict[str, Any], kind: str | None = None) -> bytes:
    name = b"" if kind is None else f"event: {kind}\n".encode()
    return name + b"data: " + _line(event) + b"\n"


FORMATS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "chat/completions": _openai,
    "responses": _responses,
    "messages": _anthropic,
    "streamGenerateContent": _gemini,
    "api/chat": _ollama,
}
"""How the path of a request ends -> the events of the answer, as bytes."""


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            await _answer(await reader.readuntil(b"\r\n\r\n"), reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request, *lines = head.decode("latin-1").split("\r\n")
    path = request.split(" ")[1].partition("?")[0]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    kind = "application/x-ndjson" if path.endswith("api/chat") else "text/event-stream"
    events = next(events for end, events in FORMATS.items() if path.endswith(end))
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    burst, pause = int(headers[BURST]), float(headers[PAUSE])
    pieces = events(int(headers[COUNT]))
    while piece := b"".join(itertools.islice(pieces, burst)):
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
        if pause:
            await asyncio.sleep(pause)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # Whoever started it holds the other end: it goes with them, also when they are killed.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
