"""What a streamed answer costs, in CPU time: the openai SDK, langchain-openai, and our transport, codecs and models.

    python -P tests/benchmarks/streaming.py [--quick] [--repetitions N] [--chunks N] [--json FILE]

A server on the loopback, in a process of its own, plays an answer of 500 words, one an event. What is measured is the
CPU time of this process for each event; the rivals take turns. "wire" is `agentgraph.models.wire.stream_chunks` or
`astream_chunks`: bytes to chunks of messages, through the transport and the codec. "model" is the chat model's `stream`
or `astream`. "httpx alone" reads the bytes and throws them away: what no client over httpx can fall below. The other
wire formats are measured without a rival. In brackets: how many times that of our wire.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

sys.path.insert(0, str(Path(__file__).parents[2]))

from agentgraph.models.wire import astream_chunks, stream_chunks
from tests.benchmarks.measuring import Samples, interleaved, summary
from tests.benchmarks.streaming_server import BURST, COUNT, PAUSE, words

__all__ = ["BURSTS", "main", "measure", "table"]

BURSTS = {
    "one event a read": (1, 0.001),
    "five events a read": (5, 0.001),
    "singly, no pause": (1, 0.0),
    "all at once": (1_000_000, 0.0),
}
"""How the server writes: events in a write, and seconds between two. A pause lets the client read what was written."""

_OURS = {
    "openai": "agentgraph.models.openai.ChatOpenAI",
    "responses": "agentgraph.models.openai_responses.ChatOpenAIResponses",
    "anthropic": "agentgraph.models.anthropic.ChatAnthropic",
    "gemini": "agentgraph.models.gemini.ChatGemini",
    "ollama": "agentgraph.models.ollama.ChatOllama",
}
_QUESTION = [HumanMessage("go")]


@dataclass(frozen=True)
class _Setting:
    """Where the server is, and what it is to play."""

    url: str
    headers: dict[str, str]


Texts = tuple[Callable[[], Iterator[str]], Callable[[], AsyncIterator[str]]]
"""The words of one answer after the other, asked for without and with `await`."""


def _sdk(setting: _Setting) -> Texts:
    openai = importlib.import_module("openai")
    given = {"base_url": f"{setting.url}/v1", "api_key": "sk-none", "default_headers": setting.headers}
    client, aclient = openai.OpenAI(**given), openai.AsyncOpenAI(**given)
    asked: dict[str, Any] = {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": "go"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    def said(chunk: Any) -> str:
        return (chunk.choices[0].delta.content or "") if chunk.choices else ""

    def texts() -> Iterator[str]:
        for chunk in client.chat.completions.create(**asked):
            yield said(chunk)

    async def atexts() -> AsyncIterator[str]:
        async for chunk in await aclient.chat.completions.create(**asked):
            yield said(chunk)

    return texts, atexts


def _httpx(setting: _Setting) -> Texts:
    httpx = importlib.import_module("httpx")
    client, aclient = httpx.Client(timeout=60), httpx.AsyncClient(timeout=60)
    asked: dict[str, Any] = {
        "method": "POST",
        "url": f"{setting.url}/v1/chat/completions",
        "json": {"model": "gpt-4.1", "messages": [{"role": "user", "content": "go"}], "stream": True},
        "headers": setting.headers,
    }
    # It reads no words, so it says at the end what they would have been.
    said = "".join(words(int(setting.headers[COUNT])))

    def texts() -> Iterator[str]:
        with client.stream(**asked) as response:
            for _ in response.iter_bytes():
                pass
        yield said

    async def atexts() -> AsyncIterator[str]:
        async with aclient.stream(**asked) as response:
            async for _ in response.aiter_bytes():
                pass
        yield said

    return texts, atexts


def _model(model: Any) -> Texts:
    def texts() -> Iterator[str]:
        for chunk in model.stream(_QUESTION):
            yield chunk.text

    async def atexts() -> AsyncIterator[str]:
        async for chunk in model.astream(_QUESTION):
            yield chunk.text

    return texts, atexts


def _langchain(setting: _Setting) -> Texts:
    model = importlib.import_module("langchain_openai").ChatOpenAI(
        model="gpt-4.1",
        base_url=f"{setting.url}/v1",
        api_key="sk-none",
        default_headers=setting.headers,
        stream_usage=True,
    )
    return _model(model)


def _our_model(name: str, setting: _Setting) -> Any:
    module, _, kind = _OURS[name].rpartition(".")
    return getattr(importlib.import_module(module), kind)(
        model="gpt-4.1", base_url=setting.url, api_key="sk-none", default_headers=setting.headers
    )


def _wire(name: str) -> Callable[[_Setting], Texts]:
    def build(setting: _Setting) -> Texts:
        model = _our_model(name, setting)

        def texts() -> Iterator[str]:
            for chunk in stream_chunks(model._call(_QUESTION, None, {}, stream=True)):
                yield chunk.message.text

        async def atexts() -> AsyncIterator[str]:
            async for chunk in astream_chunks(model._call(_QUESTION, None, {}, stream=True)):
                yield chunk.message.text

        return texts, atexts

    return build


def _chat(name: str) -> Callable[[_Setting], Texts]:
    return lambda setting: _model(_our_model(name, setting))


BASE = "agentgraph wire"
RIVALS: dict[str, Callable[[_Setting], Texts]] = {
    "httpx alone": _httpx,
    "openai sdk": _sdk,
    "langchain-openai": _langchain,
    BASE: _wire("openai"),
    "agentgraph model": _chat("openai"),
}
FORMATS = {
    f"{name} {what}": build(name)
    for name in _OURS
    if name != "openai"
    for what, build in (("wire", _wire), ("model", _chat))
}


def _runners(
    rivals: Mapping[str, Callable[[_Setting], Texts]],
    setting: _Setting,
    count: int,
    loop: asyncio.Runner | None,
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """One answer of each rival as a function, tried once; and who could not take part, and why."""
    found: dict[str, Callable[[], Any]] = {}
    absent: dict[str, str] = {}
    expected = "".join(words(count))
    for name, build in rivals.items():
        try:
            texts, atexts = build(setting)
            found[name] = runner = _once(texts, atexts, expected, loop)
            runner()
        except Exception as error:
            found.pop(name, None)
            absent[name] = f"{type(error).__name__}: {error}"
    return found, absent


def _once(texts: Any, atexts: Any, expected: str, loop: asyncio.Runner | None) -> Callable[[], None]:
    async def gathered() -> list[str]:
        return [text async for text in atexts()]

    def run() -> None:
        said = "".join(list(texts()) if loop is None else loop.run(gathered()))
        if said != expected:
            raise AssertionError(f"another answer than the server's: {said[:200]!r}")

    return run


@contextlib.contextmanager
def _server() -> Iterator[str]:
    program = Path(__file__).with_name("streaming_server.py")
    server = subprocess.Popen(  # noqa: S603 (our own interpreter and program)
        [sys.executable, "-P", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.terminate()


def measure(*, repetitions: int, chunks: int) -> dict[str, Any]:
    """Measure everything.

    Args:
        repetitions: samples for each rival.
        chunks: words of an answer; a sample is one answer.

    Returns:
        `streams` (what and how -> rival -> medians in microseconds for each word), `absent` (who could not take part,
        and why).
    """
    costs: dict[str, Any] = {}
    absent: dict[str, str] = {}
    with _server() as url, asyncio.Runner() as loop:
        for how, runner in (("async", loop), ("sync", None)):
            for writes, (burst, pause) in BURSTS.items():
                setting = _Setting(url, {BURST: str(burst), PAUSE: str(pause), COUNT: str(chunks)})
                rivals = {**RIVALS, **FORMATS} if writes == "singly, no pause" else RIVALS
                runners, missing = _runners(rivals, setting, chunks, runner)
                absent |= missing
                costs[f"{how}, {writes}"] = _each(interleaved(runners, repetitions, 1), chunks)
    return {"streams": costs, "absent": absent}


def _each(samples: Samples, chunks: int) -> dict[str, dict[str, float]]:
    each = {name: [value * 1000 / chunks for value in values] for name, values in samples.items()}
    return {
        name: {key.replace("_ms", "_us"): value for key, value in figures.items()}
        for name, figures in summary(each).items()
    }


def table(report: Mapping[str, Any]) -> str:
    """The report as text."""
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield "CPU us a streamed word, median" + " " * 4 + "".join(f"{name:>22}" for name in RIVALS)
    for name, costs in report["streams"].items():
        base = costs.get(BASE, {}).get("median_us")
        yield f"{name:<34}" + "".join(f"{_cell(costs.get(rival), base):>22}" for rival in RIVALS)
    for name, costs in report["streams"].items():
        others = {rival: cost for rival, cost in costs.items() if rival not in RIVALS}
        if others:
            yield f"{name}: " + ", ".join(f"{rival} {cost['median_us']:.1f}" for rival, cost in others.items())
    for name, reason in report["absent"].items():
        yield f"absent: {name}: {reason}"


def _cell(cost: Mapping[str, float] | None, base: float | None) -> str:
    if cost is None:
        return "-"
    return f"{cost['median_us']:.1f}" + (f" ({cost['median_us'] / base:.2f})" if base else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description="CPU time of streamed answers, compared")
    parser.add_argument("--json", type=Path, help="file for all medians and quartiles")
    parser.add_argument("--quick", action="store_true", help="few repetitions: a look, no measurement")
    parser.add_argument("--repetitions", type=int, help="samples for each rival (15, quick 3)")
    parser.add_argument("--chunks", type=int, default=500, help="words of an answer")
    given = parser.parse_args(arguments)
    report = measure(repetitions=given.repetitions or (3 if given.quick else 15), chunks=given.chunks)
    sys.stdout.write(table(report) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
