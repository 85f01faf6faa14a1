"""The two drivers of flows give the same result and make the same calls."""

import asyncio

import pytest
from langgraph.errors import GraphInterrupt

from agentgraph.errors import ConfigurationTypeError
from agentgraph.flows import Pause, adrive, drive


class World:
    """What a flow meets: calls with given outcomes, and a clock."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.log = []

    def call(self, request):
        self.log.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def acall(self, request):
        await asyncio.sleep(0)
        return self.call(request)

    def sleep(self, seconds):
        self.log.append(f"slept {seconds}")

    async def asleep(self, seconds):
        self.sleep(seconds)


@pytest.fixture(params=["sync", "async"])
def play(request):
    """Drive a flow in one of the two worlds."""

    def sync(flow, world):
        return drive(flow, world.call, sleep=world.sleep)

    def asynchronous(flow, world):
        return asyncio.run(asyncio.wait_for(adrive(flow, world.acall, sleep=world.asleep), 10))

    return sync if request.param == "sync" else asynchronous


def retrying(times):
    for attempt in range(times):
        try:
            return (yield f"try {attempt}")
        except TimeoutError:
            yield Pause(seconds=attempt - 0.5)
    return (yield "last try")


def falling_back(inner):
    try:
        return (yield from inner)
    except ConnectionError:
        return (yield "spare")


def test_a_flow_gets_the_answer_to_what_it_yields(play):
    world = World("answer")
    assert play(retrying(1), world) == "answer"
    assert world.log == ["try 0"]


def test_a_failed_call_is_raised_at_the_yield_and_a_pause_waits(play):
    world = World(TimeoutError(), TimeoutError(), "third")
    assert play(retrying(2), world) == "third"
    assert world.log == ["try 0", "slept 0", "try 1", "slept 0.5", "last try"]


def test_retry_inside_fallback_makes_the_expected_calls(play):
    world = World(TimeoutError(), ConnectionError(), "from the spare")
    assert play(falling_back(retrying(1)), world) == "from the spare"
    assert world.log == ["try 0", "slept 0", "last try", "spare"]


def test_a_flow_may_return_before_it_yields_anything(play):
    def cached():
        if True:
            return "cached"
        yield

    world = World()
    assert play(cached(), world) == "cached"
    assert world.log == []


def test_an_error_that_the_flow_does_not_treat_comes_out(play):
    for failing in (World(KeyError("lost")), World(TimeoutError(), KeyError("lost"))):
        with pytest.raises(KeyError, match="lost"):
            play(retrying(1), failing)


def test_an_error_of_the_flows_own_comes_out(play):
    def broken():
        yield "request"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(broken(), World("answer"))


@pytest.mark.parametrize("stop", [GraphInterrupt(), KeyboardInterrupt(), SystemExit()], ids=repr)
def test_interrupts_pass_and_the_flow_is_closed_without_seeing_them(stop):
    log = []

    def flow():
        try:
            return (yield "request")
        except Exception as error:
            log.append(error)
            return "swallowed"
        finally:
            log.append("closed")

    with pytest.raises(type(stop)):
        drive(flow(), World(stop).call)
    assert log == ["closed"]


async def test_interrupts_and_cancelling_pass_in_async_code_too():
    for stop in (GraphInterrupt(), asyncio.CancelledError()):
        log = []

        def flow(log=log):
            try:
                return (yield "request")
            except Exception as error:
                log.append(error)
                return "swallowed"
            finally:
                log.append("closed")

        with pytest.raises(type(stop)):
            await adrive(flow(), World(stop).acall)
        assert log == ["closed"]


def test_what_is_no_generator_is_refused(play):
    with pytest.raises(ConfigurationTypeError, match="gave str; expected was a generator"):
        play("no generator", World())


def test_without_a_clock_given_a_pause_really_waits():
    def waiting():
        yield Pause(seconds=0)
        return (yield "request")

    assert drive(waiting(), World("answer").call) == "answer"
    assert asyncio.run(adrive(waiting(), World("answer").acall)) == "answer"
