"""Retries of tools: a call that failed is made again, after a wait that grows."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.typing import ContextT

from agentgraph.hooks import AgentMiddleware, Pause
from agentgraph.state import ResponseT, StateT
from agentgraph.tools.failures import error_text, let_out, passes
from agentgraph.tools.results import answer

from ._retrying import OnFailure, RetryOn, RetryPolicy, answer_of, in_new_words, may_succeed_later, names_of

__all__ = ["ToolRetryMiddleware"]


class ToolRetryMiddleware(AgentMiddleware[StateT, ContextT, ResponseT]):
    """Makes a failed tool call again, a bounded number of times, after a wait that grows.

    It stands around each tool call. What stands further in, after it in the list, runs once a try; what stands before
    it sees only the last try. The other calls of the turn do not wait. Exceptions count as failures, and nothing else:
    wrong arguments, and errors that the tool itself made a message of, are answers to the model. Interrupts pass.

    The same call may run more than once, so give it tools for which that is right. A tool that ran into its time limit
    may still be at work in its thread when it is called again.

    It adds nothing to the state. It costs no model calls and no steps of the graph. Waits block no event loop, and end
    with a run that is cancelled or out of time.

    Args:
        max_retries: further tries after the first, at least 0.
        tools: tools, or names of tools, that are retried; None for all.
        retry_on: types of exceptions that are retried, or a function that says so of one. What it leaves out ends the
            run at once, whatever `on_tool_error` says. By default everything is retried that may be of a moment: of a
            model's errors those that are retryable, and all others that say nothing. What the default leaves out goes
            the agent's way (`on_tool_error`).
        on_failure: after the last try, "continue" tells the model what failed and how often it was tried; "error"
            ends the run with the exception; a function of the exception gives the text for the model.
        backoff_factor: each wait is this many times the one before; 0 for waits that stay the same.
        initial_delay: seconds before the first retry.
        max_delay: the longest wait in seconds. Where an error asks for more (`retry_after`), it is not tried again.
        jitter: whether waits vary by a quarter.

    Raises:
        ConfigurationError: an argument cannot work.

    Warns:
        DeprecationWarning: `on_failure` is "raise" or "return_message", the older words for "error" and "continue".

    Example:
        >>> from agentgraph import create_agent
        >>> from agentgraph.testing import ScriptedModel, flaky, tool_call
        >>> def fetch() -> str:
        ...     "Fetch the page."
        ...     return "the page"
        >>> agent = create_agent(
        ...     ScriptedModel(tool_call("fetch"), "Done."),
        ...     [flaky(fetch, [TimeoutError])],
        ...     middleware=[ToolRetryMiddleware(initial_delay=0)],
        ... )
        >>> agent.invoke({"messages": "Fetch it."})["messages"][-2].text
        'the page'
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: Sequence[BaseTool | Callable[..., Any] | str] | None = None,
        retry_on: RetryOn = may_succeed_later,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
    ) -> None:
        super().__init__()
        self._names = names_of(tools)
        self._policy = RetryPolicy(
            max_retries=max_retries,
            retry_on=retry_on,
            on_failure=in_new_words(on_failure),
            backoff_factor=backoff_factor,
            initial_delay=initial_delay,
            max_delay=max_delay,
            jitter=jitter,
        )

    def tool_call(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Run the call, and again while it fails and tries are left.

        Args:
            request: the call.

        Returns:
            The first answer of the tool; or what the model is told after the last try.
        """
        if self._names is not None and request.tool_call["name"] not in self._names:
            return (yield request)
        tries = 0
        while True:
            try:
                return (yield request)
            except Exception as error:
                tries += 1
                if passes(error):
                    raise
                if not self._policy.handles(error):
                    if self._policy.has_own_choice:
                        let_out(error)
                    raise
                wait = self._policy.wait(error, tries - 1)
                if wait is None:
                    return self._told(error, request, tries)
            yield Pause(seconds=wait)

    def _told(self, error: Exception, request: ToolCallRequest, tries: int) -> ToolMessage:
        call, on_failure = request.tool_call, self._policy.on_failure
        if on_failure == "error":
            raise let_out(error)
        if callable(on_failure):
            return answer(call, answer_of(on_failure, error), error=True)
        often = "" if tries == 1 else f"\nIt was tried {tries} times; the same call is not likely to succeed soon."
        return answer(call, error_text(error, call) + often, error=True)
