"""The decision to try again: for what, how often, after how long."""

import warnings

import pytest
from agentgraph.middleware._retrying import RetryPolicy, may_succeed_later
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.exceptions import ModelError as CoreModelError
from langchain_core.exceptions import ModelRateLimitError

from agentgraph.errors import (
    AuthenticationError,
    CheckpointError,
    ConfigurationError,
    ConfigurationTypeError,
    DeadlineError,
    QuotaError,
    RateLimitError,
    RunCancelledError,
    ServerError,
    ThreadBusyError,
    ToolTimeoutError,
)
from agentgraph.middleware import ModelRetryMiddleware, ToolRetryMiddleware

SLOW = TimeoutError("slow")


def lowest(low, high):
    return low


def highest(low, high):
    return high


def waits(error=SLOW, uniform=lowest, **settings):
    policy = RetryPolicy(**{"max_retries": 4, "jitter": False, **settings})
    return [policy.wait(error, retry, uniform=uniform) for retry in range(5)]


def test_waits_grow_by_the_factor_up_to_the_longest_and_then_it_is_given_up():
    assert waits() == [1.0, 2.0, 4.0, 8.0, None]
    assert waits(initial_delay=0.5, backoff_factor=3, max_delay=5) == [0.5, 1.5, 4.5, 5.0, None]
    assert waits(initial_delay=90) == [60.0, 60.0, 60.0, 60.0, None]
    assert waits(max_retries=0) == [None] * 5


def test_with_a_factor_of_0_all_waits_are_the_same_and_with_a_delay_of_0_there_are_none():
    assert waits(backoff_factor=0, initial_delay=3) == [3.0, 3.0, 3.0, 3.0, None]
    assert waits(initial_delay=0) == [0.0, 0.0, 0.0, 0.0, None]
    assert waits(max_delay=0) == [0.0, 0.0, 0.0, 0.0, None]


def test_jitter_moves_a_wait_by_a_quarter_and_never_beyond_the_longest():
    assert waits(jitter=True, max_delay=4.5, uniform=lowest) == [0.75, 1.5, 3.0, 3.375, None]
    assert waits(jitter=True, max_delay=4.5, uniform=highest) == [1.25, 2.5, 4.5, 4.5, None]


def test_a_server_that_said_when_is_never_asked_sooner():
    busy = RateLimitError("busy", retry_after=3)
    assert waits(busy) == [3.0, 3.0, 4.0, 8.0, None]
    assert waits(busy, jitter=True, uniform=lowest) == [3.0, 3.0, 3.0, 6.0, None]
    assert waits(busy, jitter=True, uniform=highest) == [3.75, 3.75, 5.0, 10.0, None]


def test_a_server_that_asks_for_more_than_the_longest_wait_is_not_waited_for():
    assert waits(RateLimitError("busy", retry_after=60))[0] == 60.0
    assert waits(RateLimitError("busy", retry_after=61)) == [None] * 5


@pytest.mark.parametrize("asked", ["soon", True, -1, float("nan"), None, [3]], ids=repr)
def test_a_time_that_cannot_be_understood_counts_for_nothing(asked):
    error = TimeoutError("slow")
    error.retry_after = asked
    assert waits(error) == [1.0, 2.0, 4.0, 8.0, None]


AMOUNT = st.floats(min_value=0, max_value=1e300)


@given(
    retry=st.integers(0, 5000),
    factor=AMOUNT,
    first=AMOUNT,
    longest=AMOUNT,
    jitter=st.booleans(),
    asked=AMOUNT | st.none(),
)
def test_no_wait_is_negative_beyond_the_longest_or_shorter_than_asked(retry, factor, first, longest, jitter, asked):
    policy = RetryPolicy(max_retries=5001, backoff_factor=factor, initial_delay=first, max_delay=longest, jitter=jitter)
    wait = policy.wait(RateLimitError("busy", retry_after=asked), retry)
    if wait is None:
        assert asked > longest
    else:
        assert (asked or 0) <= wait <= longest


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TimeoutError(), True),
        (KeyError("k"), True),
        (ToolTimeoutError("slow"), True),
        (RateLimitError("busy"), True),
        (ServerError("500"), True),
        (ServerError("501", retryable=False), False),
        (AuthenticationError("401"), False),
        (QuotaError("none left"), False),
        (ModelRateLimitError("busy"), True),
        (CoreModelError("refused"), False),
        (ConfigurationError("wrong"), False),
        (CheckpointError("unread"), False),
        (DeadlineError("over"), False),
        (RunCancelledError("ended"), False),
        (ThreadBusyError("busy"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_by_default_what_may_be_of_a_moment_is_tried_again(error, again):
    assert may_succeed_later(error) is again
    assert RetryPolicy().handles(error) is again


def test_types_or_a_function_say_what_is_tried_again():
    table = [(TimeoutError,), TimeoutError, lambda error: isinstance(error, TimeoutError)]
    for retry_on in table:
        policy = RetryPolicy(retry_on=retry_on)
        assert [policy.handles(error) for error in (TimeoutError(), KeyError())] == [True, False]
    assert RetryPolicy(retry_on=()).handles(TimeoutError()) is False


async def later(error):
    return "text"


BAD = [
    ({"max_retries": -1}, ConfigurationError, "max_retries is -1"),
    ({"max_retries": 1.5}, ConfigurationTypeError, "max_retries is 1.5"),
    ({"max_retries": True}, ConfigurationTypeError, "max_retries is True"),
    ({"initial_delay": -0.1}, ConfigurationError, "initial_delay is -0.1"),
    ({"max_delay": float("inf")}, ConfigurationError, "max_delay is inf"),
    ({"backoff_factor": float("nan")}, ConfigurationError, "backoff_factor is nan"),
    ({"backoff_factor": "2"}, ConfigurationTypeError, "backoff_factor is '2'"),
    ({"jitter": 0.25}, ConfigurationTypeError, "jitter is 0.25"),
    ({"retry_on": "TimeoutError"}, ConfigurationTypeError, "retry_on holds 'TimeoutError'"),
    ({"retry_on": (TimeoutError, int)}, ConfigurationTypeError, "retry_on holds <class 'int'>"),
    ({"retry_on": BaseException}, ConfigurationTypeError, "retry_on holds <class 'BaseException'>"),
    ({"retry_on": later}, ConfigurationTypeError, "retry_on holds <function later"),
    ({"on_failure": "stop"}, ConfigurationError, "on_failure is 'stop'"),
    ({"on_failure": None}, ConfigurationTypeError, "on_failure is None"),
    ({"on_failure": later}, ConfigurationTypeError, "on_failure is <function later"),
    ({"on_failure": ValueError}, ConfigurationTypeError, "on_failure is <class 'ValueError'>"),
]


@pytest.mark.parametrize("entry", [ToolRetryMiddleware, ModelRetryMiddleware])
@pytest.mark.parametrize(("settings", "kind", "told"), BAD, ids=[told for *_, told in BAD])
def test_an_argument_that_cannot_work_is_refused_at_once(entry, settings, kind, told):
    with pytest.raises(kind) as raised:
        entry(**settings)
    assert str(raised.value).startswith(told)
    assert "expected was" in str(raised.value)


@pytest.mark.parametrize("tools", ["fetch", 3, [3], [ValueError]], ids=repr)
def test_tools_that_are_no_tools_are_refused_at_once(tools):
    with pytest.raises(ConfigurationTypeError, match=r"^tools .*expected was"):
        ToolRetryMiddleware(tools=tools)


def test_the_older_words_for_what_happens_at_the_end_still_work_and_warn():
    for old, new in (("raise", "error"), ("return_message", "continue")):
        with pytest.warns(DeprecationWarning, match=f"on_failure='{old}' is now called '{new}'") as told:
            assert ToolRetryMiddleware(on_failure=old)._policy.on_failure == new
        assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ToolRetryMiddleware(on_failure="error")._policy.on_failure == "error"
