"""What chat models cost that wait: no client before the first call, one for all after it, no other format's modules."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentgraph.models.clients import DefaultClients
from tests.models.soak_formats import MODELS
from tests.models.soak_server import BOUND, SoakServer

IDLE = 200
BYTES_A_MODEL = 8 * 1024

# Written in OpenAI's form, which is that of langchain-core's tools and structured answers: all formats read it.
WORDS = {f"openai_{name}" for name in ("blocks", "refusals", "request", "structured", "tool_calls", "tools", "words")}
# With what the names of a format's own modules begin, and what it may load besides of another's.
OWN: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "openai": (("openai",), set()),
    "openai_responses": (("openai_responses", "responses"), {*WORDS, "openai_profiles"}),
    "anthropic": (("anthropic",), WORDS),
    "gemini": (("gemini",), WORDS),
    "ollama": (("ollama",), WORDS),
}
OF_A_FORMAT = ("openai", "responses", "anthropic", "azure", "gemini", "ollama")
# Where the formats are chosen, which must not be needed to use one.
CHOOSING = {"configurable", "local", "registry"}
FOREIGN = {"anthropic", "google.genai", "httpx", "langchain", "langgraph", "ollama", "openai"}

_COUNTED = f"""
import asyncio, gc, sys, threading, tracemalloc
from agentgraph.models.openai import ChatOpenAI
url = sys.argv[1]
def made(number):
    return ChatOpenAI(model="gpt-4o", base_url=url, api_key=f"key-{{number}}-0123456789", max_retries=0)
made(0)
tracemalloc.start()
models = [made(number) for number in range({IDLE})]
size = tracemalloc.get_traced_memory()[0] // {IDLE}
tracemalloc.stop()
print("httpx" in sys.modules, threading.active_count(), size < {BYTES_A_MODEL} or size)
import httpx
def clients():
    gc.collect()
    kinds = [type(thing) for thing in gc.get_objects()]
    return kinds.count(httpx.Client), kinds.count(httpx.AsyncClient)
async def everyone():
    await asyncio.gather(*[model.ainvoke(f"call {{100000 + at}} none 0") for at, model in enumerate(models)])
    return clients()
print(clients(), asyncio.run(everyone()), clients())
threads = [threading.Thread(target=model.invoke, args=(f"call {{200000 + at}} none 0",))
           for at, model in enumerate(models)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(clients(), asyncio.run(everyone()), clients())
"""


def run(program: str, *arguments: str) -> str:
    ran = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_two_hundred_models_make_no_client_before_their_first_call_and_one_a_loop_and_a_process_after_it() -> None:
    with SoakServer() as server:
        said = run(_COUNTED, server.url)

        assert said.splitlines() == ["False 1 True", "(0, 0) (0, 1) (0, 0)", "(1, 0) (1, 1) (1, 0)"]
        assert server.attempts.total() == 3 * IDLE
        assert server.wait_until(lambda: not server.open)


class _Making:
    """Counts what is made, and is slow at the certificates: until all that are expected have come, or a while."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self._first = threading.Event()

    def trusted(self) -> Any:
        self.made.append("context")
        self._first.wait(0.1)  # whoever comes meanwhile has to wait, not to make another
        return object()

    def client(self, context: Any) -> Any:
        self.made.append("client")
        return self

    def close(self) -> None:
        """As a client's."""


def test_threads_that_call_first_at_the_same_time_make_one_client() -> None:
    making, together = _Making(), threading.Barrier(20, timeout=BOUND)
    clients = DefaultClients(making.trusted, making.client, making.client)

    def get() -> Any:
        together.wait()
        return clients.get()

    with ThreadPoolExecutor(20) as pool:
        got = [done.result(BOUND) for done in [pool.submit(get) for _ in range(20)]]

    assert got == [making] * 20
    assert making.made == ["context", "client"]


@pytest.mark.parametrize("form", OWN)
def test_a_format_loads_no_other_ones_modules_and_no_library_of_a_provider(form: str) -> None:
    loaded = set(run(f"import sys, agentgraph.models.{form}\nprint(*sys.modules)").split())
    ours = {name.removeprefix("agentgraph.models.") for name in loaded if name.startswith("agentgraph.models.")}
    begin, words = OWN[form]
    others = {name for name in ours if name.startswith(OF_A_FORMAT) and not name.startswith(begin)}

    assert form in ours
    assert others <= words, others - words
    assert ours & CHOOSING == set()
    assert loaded & FOREIGN == set()


def test_every_format_is_looked_at() -> None:
    assert {f"agentgraph.models.{form}" for form in OWN} == {module for module, _, _ in MODELS.values()}
