"""Five thousand calls, one in ten of them spoilt: each ends in its own answer or in a typed error, and nothing is left.

All wire formats, whole and streamed, from threads and from one loop, at once and over the same connections. What a call
has to end in follows from its number alone.
"""

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agentgraph.errors import ModelConnectionError, ModelError
from agentgraph.models.openai import ChatOpenAI
from tests.models.soak_formats import MODELS, PIECES
from tests.models.soak_server import BOUND, SoakServer

CALLS = 5000
DESCRIPTORS = Path("/proc/self/fd")
THREADS, TASKS = 4, 16
FIRST = 100_000  # all numbers have six digits, so that every answer is as long as the next
STATUSES = {"429": "RateLimitError", "500": "ServerError", "503": "OverloadedError", "529": "OverloadedError"}
SPOILT = {
    **STATUSES,
    "html": "InvalidResponseError",
    "empty": "InvalidResponseError",
    "no_json": "InvalidResponseError",
    "cut_before_head": "ModelConnectionError",
    "cut_mid_stream": "TruncatedStreamError",
    "cut_in_event": "TruncatedStreamError",
    "error_event": "ServerError",
}
KINDS = {
    "invoke": tuple(SPOILT),
    "ainvoke": (*SPOILT, "cancelled"),
    "stream": (*SPOILT, "left"),
    "astream": (*SPOILT, "left", "cancelled"),
}
RETRIES = 2
ALWAYS = RETRIES + 1

Outcome = tuple[Any, ...]
Models = Mapping[tuple[str, bool], Any]


@dataclass(frozen=True)
class Job:
    """One call: in which format and way, and how it is spoilt."""

    number: int
    form: str
    way: str
    fault: str = "none"
    times: int = 0

    @property
    def prompt(self) -> str:
        fault = "held" if self.fault in {"left", "cancelled"} else self.fault
        return f"call {self.number} {fault} {self.times}"

    @property
    def streamed(self) -> bool:
        return "stream" in self.way

    @property
    def hasty(self) -> bool:
        """Whether it is not sent again: only a server that answers can say that there is no need to wait."""
        return self.fault.startswith("cut")

    @property
    def sent_again(self) -> bool:
        return self.fault in STATUSES or (self.fault == "error_event" and not self.streamed)

    @property
    def attempts(self) -> int:
        return min(self.times, RETRIES) + 1 if self.sent_again else 1


def jobs() -> Iterator[Job]:
    cells = [(form, way) for form in MODELS for way in KINDS]
    for at in range(CALLS):
        (form, way), round_ = cells[at % len(cells)], at // len(cells)
        spoilt, rest = divmod(round_, 10)
        again, kind = divmod(spoilt, len(KINDS[way]))
        fault = () if rest else (KINDS[way][kind], 1 if again else ALWAYS)
        yield Job(FIRST + at, form, way, *fault)


def expected(job: Job, said: Mapping[tuple[str, bool], str]) -> Outcome:
    """What the job has to end in; `said` are the answers to the first number."""
    if job.fault in {"left", "cancelled"}:
        return (job.fault, PIECES[0] if job.fault == "left" else None)
    if job.fault == "none" or (job.sent_again and job.times <= RETRIES):
        return ("answered", said[job.form, job.streamed].replace(str(FIRST), str(job.number)))
    busy = job.fault == "error_event" and job.form in {"anthropic", "gemini"}
    cut = job.streamed and SPOILT[job.fault] == "TruncatedStreamError"
    return ("OverloadedError" if busy else SPOILT[job.fault], job.attempts, PIECES[0] if cut else None)


def connected(url: str) -> dict[tuple[str, bool], Any]:
    """A model of each format, twice: one that asks again, one that does not."""
    return {
        (form, hasty): getattr(import_module(module), name)(
            model=model, base_url=url, api_key="k" * 20, max_retries=0 if hasty else RETRIES
        )
        for form, (module, name, model) in MODELS.items()
        for hasty in (False, True)
    }


def answered(message: AIMessage) -> Outcome:
    # The id is langchain-core's, anew for each call.
    return ("answered", repr(message.model_dump(exclude={"id"})))


def failed(error: ModelError) -> Outcome:
    partial_message = getattr(error, "partial", None)
    return (type(error).__name__, error.attempts, partial_message and partial_message.text)


def ask(job: Job, models: Models) -> Outcome:
    model = models[job.form, job.hasty]
    try:
        if not job.streamed:
            return answered(model.invoke(job.prompt))
        total = None
        for chunk in model.stream(job.prompt):
            total = chunk if total is None else total + chunk
            if job.fault == "left" and total.text:
                return ("left", total.text)
    except ModelError as error:
        return failed(error)
    assert total is not None
    return answered(total)


async def aask(job: Job, models: Models) -> Outcome:
    model = models[job.form, job.hasty]
    try:
        if not job.streamed:
            return answered(await model.ainvoke(job.prompt))
        total = None
        async for chunk in model.astream(job.prompt):
            total = chunk if total is None else total + chunk
            if job.fault == "left" and total.text:
                return ("left", total.text)
    except ModelError as error:
        return failed(error)
    assert total is not None
    return answered(total)


async def cancelled(job: Job, models: Models, server: SoakServer) -> Outcome:
    """Cancel a call that the server holds back, each second one twice at once."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(aask(job, models))

    def cancel() -> None:
        task.cancel()
        if job.number % 2:
            loop.call_soon(task.cancel)

    server.when_held(job.number, partial(loop.call_soon_threadsafe, cancel))
    await asyncio.wait({task})
    return ("cancelled", None) if task.cancelled() else ("not cancelled", task.result())


async def worked_off(work: list[Job], models: Models, server: SoakServer) -> dict[int, Outcome]:
    """Do the jobs in some tasks at once; no other task may be left."""
    waiting, outcomes = iter(work), dict[int, Outcome]()

    async def worker() -> None:
        for job in waiting:
            way: Coroutine[Any, Any, Outcome] = (
                cancelled(job, models, server) if job.fault == "cancelled" else aask(job, models)
            )
            outcomes[job.number] = await asyncio.wait_for(way, BOUND)

    await asyncio.gather(*[worker() for _ in range(TASKS)])
    gc.collect()  # a stream that was left behind is closed when it is collected
    if ending := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(ending, timeout=BOUND)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return outcomes


def descriptors_in_use(refused: str) -> int:
    """Count the open files, once the pool has let go of what its servers have closed: at its next call."""
    with pytest.raises(ModelConnectionError):
        ChatOpenAI(model="m", base_url=refused, api_key="k" * 20, max_retries=0).invoke("Are you there?")
    gc.collect()
    return len(list(DESCRIPTORS.iterdir()))


def soaked(work: list[Job], models: Models, server: SoakServer) -> dict[int, Outcome]:
    with ThreadPoolExecutor(THREADS) as pool:
        sync = {job.number: pool.submit(ask, job, models) for job in work if not job.way.startswith("a")}
        outcomes = asyncio.run(worked_off([job for job in work if job.way.startswith("a")], models, server))
        return outcomes | {number: done.result(BOUND) for number, done in sync.items()}


@pytest.mark.timeout(600)  # half a minute of work, on a machine that may have other work
@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="the open files are counted in /proc")
def test_five_thousand_calls_with_one_in_ten_spoilt_end_in_their_answer_or_a_typed_error_and_leave_nothing() -> None:
    with SoakServer() as closed_by_then:
        refused = closed_by_then.url
    threads, descriptors, work = set(threading.enumerate()), descriptors_in_use(refused), list(jobs())

    with SoakServer() as server:
        models = connected(server.url)
        first = {(form, way): ask(Job(FIRST, form, way), models) for form in MODELS for way in ("invoke", "stream")}
        server.attempts.clear()
        outcomes = soaked(work, models, server)
        assert server.wait_until(lambda: not server.busy)
    for thread in set(threading.enumerate()) - threads:
        thread.join(BOUND)

    said = {(form, way == "stream"): outcome[1] for (form, way), outcome in first.items()}
    ends = {job.number: expected(job, said) for job in work}
    text = "".join(PIECES).replace("NUMBER", str(FIRST))
    assert all(text in answer for answer in said.values())
    assert {number: (outcomes.get(number), end) for number, end in ends.items() if outcomes.get(number) != end} == {}
    assert sum(job.fault != "none" for job in work) == CALLS // 10
    assert server.attempts == Counter({job.number: job.attempts for job in work})
    assert server.left == {job.number for job in work if job.fault in {"left", "cancelled"}}
    assert server.most_open <= THREADS + 2 * TASKS
    # Servers of earlier tests may have ended meanwhile, so that there are fewer.
    assert set(threading.enumerate()) <= threads
    assert descriptors_in_use(refused) <= descriptors
