"""Retries of the model: a call that failed is made again, after a wait that grows."""

from collections.abc import Generator
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.typing import ContextT

from agentgraph.history import MARK
from agentgraph.hooks import AgentMiddleware, Pause
from agentgraph.requests import ModelRequest
from agentgraph.state import ResponseT, StateT
from agentgraph.tools.failures import passes

from ._retrying import OnFailure, RetryOn, RetryPolicy, answer_of, may_succeed_later, said

__all__ = ["ModelRetryMiddleware"]


class ModelRetryMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Makes a failed call of the model again, a bounded number of times, after a wait that grows.

    It stands around each model call. What stands further in, after it in the list, runs once a try: before a
    ModelFallbackMiddleware in the list it retries the whole row of models, after it each model by itself. A stream
    shows what came before a try broke off as well; the state holds only the try that succeeded.

    The chat models of agentgraph send a request again by themselves (`max_retries`); set that to 0 where this entry is
    to be the only one, or the tries multiply.

    It adds nothing to the state but the message that "continue" makes. It costs up to `max_retries` more model calls a
    turn, and no steps of the graph. Waits block no event loop, and end with a run
    that is cancelled or out of time.

    Args:
        max_retries: further tries after the first, at least 0.
        retry_on: types of exceptions that are retried, or a function that says so of one. By default everything that
            may be of a moment: of a model's errors those that are retryable, and all others that say nothing. What is
            left out ends the run at once.
        on_failure: after the last try, "continue" ends the turn with a message of the model that says what failed,
            marked with `response_metadata={"agentgraph": {"failed": "<type of the exception>"}}`; "error" ends the run
            with the exception; a function of the exception gives the text of that message.
        backoff_factor: each wait is this many times the one before; 0 for waits that stay the same.
        initial_delay: seconds before the first retry.
        max_delay: the longest wait in seconds. Where a server asks for more (`retry_after`), it is not tried again.
        jitter: whether waits vary by a quarter.

    Raises:
        ConfigurationError: an argument cannot work.

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel
        >>> model = ScriptedModel(ConnectionError("no route"), "Hello.")
        >>> agent = create_agent(model, middleware=[ModelRetryMiddleware(initial_delay=0)])
        >>> agent.invoke({"messages": "Hi."})["messages"][-1].text
        'Hello.'
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        retry_on: RetryOn = may_succeed_later,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
    ) -> None:
        super().__init__()
        self._policy = RetryPolicy(
            max_retries=max_retries,
            retry_on=retry_on,
            on_failure=on_failure,
            backoff_factor=backoff_factor,
            initial_delay=initial_delay,
            max_delay=max_delay,
            jitter=jitter,
        )

    def model_call(self, request: ModelRequest[ContextT]) -> Generator[Any, Any, Any]:
        """Call the model, and again while it fails and tries are left.

        Args:
            request: the call to make.

        Returns:
            The first response; or the message that says what failed.
        """
        tries = 0
        while True:
            try:
                return (yield request)
            except Exception as error:
                tries += 1
                if passes(error) or not self._policy.handles(error):
                    raise
                wait = self._policy.wait(error, tries - 1)
                if wait is None and self._policy.on_failure == "error":
                    raise
                if wait is None:
                    return self._told(error, tries)
            yield Pause(seconds=wait)

    def _told(self, error: Exception, tries: int) -> AIMessage:
        kind, on_failure = type(error).__name__, self._policy.on_failure
        if callable(on_failure):
            text = answer_of(on_failure, error)
        else:
            what = said(error)
            often = "once" if tries == 1 else f"{tries} times"
            text = (
                f"The model gave no answer: it was called {often}, and failed with {kind}{f': {what}' if what else ''}"
            )
        return AIMessage(text, response_metadata={MARK: {"failed": kind}})
