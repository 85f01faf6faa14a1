"""The exceptions of agentgraph.

Each says what was given, what was expected and what to do. The tree::

    AgentGraphError
    +-- ConfigurationError (ValueError)         an argument of create_agent, a tool, a schema, a middleware
    |   +-- ConfigurationTypeError (TypeError)  ... is of the wrong type
    |   +-- MissingCheckpointerError            an approval that nobody could ever answer
    +-- CheckpointError                         a stored thread cannot be read; nothing of it is lost
    +-- RunError                                a run cannot go on
    |   +-- EmptyTurnError                      the model gave an empty turn, also when asked again
    |   +-- RepeatedToolCallError               one identical call with identical results without end
    |   +-- MalformedToolCallError              calls whose arguments cannot be read, also when asked again
    |   +-- MissingToolCallError                a forced tool call did not come, also when asked again
    |   +-- ToolTimeoutError (TimeoutError)     a tool took longer than its limit
    |   +-- DeadlineError (TimeoutError)        the run took longer than its limit
    |   +-- RunCancelledError                   the run was asked to end, by a RunControl
    |   +-- ThreadBusyError                     another run is at work on the thread
    |   +-- ResumeError (ValueError)            an answer that does not fit an open question; it was not stored
    |   +-- StructuredOutputError               see agentgraph.structured_output
    |       +-- MultipleStructuredOutputsError
    |       +-- StructuredOutputValidationError
    |       +-- MissingStructuredOutputError    the model answered in prose, also when asked again
    +-- ModelError                              a model's server, see its own section
        +-- AuthenticationError                 401, 403
        +-- ModelNotFoundError                  404
        +-- BadRequestError                     400, 413, 422 and other 4xx
        |   +-- ContextOverflowError            the prompt is longer than the model's window
        |   +-- ContentFilterError              the provider's filter refused
        |       +-- RefusalError                the model refused; holds its message
        +-- RateLimitError                      429
        |   +-- QuotaError                      429 that waiting does not mend
        +-- OverloadedError                     503, 529
        +-- ServerError                         other 5xx
        +-- ModelConnectionError                no connection, or one that broke before the first byte
        |   +-- ModelTimeoutError (TimeoutError)
        +-- TruncatedStreamError                a stream without its end; holds the partial message
        +-- InvalidResponseError                not JSON, not this API, half a JSON
"""

from typing import Any

__all__ = [
    "AgentGraphError",
    "AuthenticationError",
    "BadRequestError",
    "CheckpointError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "ContentFilterError",
    "ContextOverflowError",
    "DeadlineError",
    "EmptyTurnError",
    "InvalidResponseError",
    "MalformedToolCallError",
    "MissingCheckpointerError",
    "MissingToolCallError",
    "ModelConnectionError",
    "ModelError",
    "ModelNotFoundError",
    "ModelTimeoutError",
    "OverloadedError",
    "QuotaError",
    "RateLimitError",
    "RefusalError",
    "RepeatedToolCallError",
    "ResumeError",
    "RunCancelledError",
    "RunError",
    "ServerError",
    "ThreadBusyError",
    "ToolTimeoutError",
    "TruncatedStreamError",
]


class AgentGraphError(Exception):
    """The root of all exceptions that agentgraph raises on purpose."""


class ConfigurationError(AgentGraphError, ValueError):
    """An agent, tool, schema, model or middleware was described in a way that cannot work.

    Raised when the agent is built, or at the first moment at which the mistake can be known.
    """


class ConfigurationTypeError(ConfigurationError, TypeError):
    """As ConfigurationError, where the mistake is the type of what was given."""


class MissingCheckpointerError(ConfigurationError):
    """The agent asks for approvals but keeps no threads, so that no answer could ever reach it."""


class RunError(AgentGraphError):
    """A run cannot go on. What was done until then is in the state of the thread."""


class EmptyTurnError(RunError):
    """The model answered with neither text nor a tool call, and did so again when it was asked once more."""


class RepeatedToolCallError(RunError):
    """The model repeats one identical call, gets identical results, and did not stop when it was told."""


class MalformedToolCallError(RunError):
    """The model keeps sending tool calls whose arguments cannot be read."""


class MissingToolCallError(RunError):
    """A tool call was demanded (`tool_choice`) and did not come, also when it was asked for again.

    Raised in the call of the model, within the `wrap_model_call` hooks, so that a fallback model can be asked.

    Attributes:
        tool_names: the tools of which one had to be called.
        ai_message: the answer without the call, None if it is not known.
    """

    def __init__(self, message: str, *, tool_names: tuple[str, ...] = (), ai_message: Any = None) -> None:
        super().__init__(message)
        self.tool_names = tool_names
        self.ai_message = ai_message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args` alone, which would lose the keyword-only fields.
        return _rebuild, (type(self), self.args, self.__dict__)


class ToolTimeoutError(RunError, TimeoutError):
    """A tool took longer than its time limit. Told to the model like every error of a tool."""


class DeadlineError(RunError, TimeoutError):
    """The run took longer than the limit it was given. The thread can be used on."""


class RunCancelledError(RunError):
    """The run was asked to end by `RunControl.cancel`. What was finished is kept, and the thread can be used on.

    Attributes:
        mode: "now", "after_tools" or "after_turn".
        reason: what was given as the reason, None for nothing.
        finished: the nodes that were finished, in order, in the whole run.
    """

    def __init__(
        self, message: str, *, mode: str = "now", reason: str | None = None, finished: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.mode = mode
        self.reason = reason
        self.finished = finished

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args` alone, which would lose the keyword-only fields.
        return _rebuild, (type(self), self.args, self.__dict__)


class ThreadBusyError(RunError):
    """Another run, in this process or another, is at work on the thread. Nothing was done; try again later."""


class ResumeError(RunError, ValueError):
    """An answer does not fit the open questions of a thread. It was not stored, and the questions stay open."""


class CheckpointError(AgentGraphError):
    """A stored thread cannot be read, for instance because it holds an unknown type. Nothing of it is lost."""


class ModelError(AgentGraphError):
    """A model's server refused, failed or could not be reached.

    Attributes:
        provider: name of the provider, e.g. "openai".
        status: HTTP status, None when there was no HTTP answer.
        code: the provider's own code or type of the error, if it named one.
        request_id: the provider's id of the request, to quote to its support.
        url: the URL that was asked, without secrets.
        retryable: whether the same request may succeed later.
        retry_after: seconds that the server asked to wait, None if it did not.
        attempts: how often the request was sent; a retry from outside multiplies it.
    """

    retryable_by_default = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        url: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.code = code
        self.request_id = request_id
        self.url = url
        self.retryable = self.retryable_by_default if retryable is None else retryable
        self.retry_after = retry_after
        self.attempts = attempts

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are rebuilt from `args` alone, which would lose the keyword-only fields.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[AgentGraphError], args: tuple[Any, ...], fields: dict[str, Any]) -> AgentGraphError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


class AuthenticationError(ModelError):
    """The key is missing, wrong, or not allowed to do this (401, 403)."""


class ModelNotFoundError(ModelError):
    """The model or the path does not exist on this server (404)."""


class BadRequestError(ModelError):
    """The server refused the request as it stands (400, 413, 422 and other 4xx)."""


class ContextOverflowError(BadRequestError):
    """The prompt is longer than the model's context window."""


class ContentFilterError(BadRequestError):
    """The provider's content filter refused the prompt or cut the answer."""


class RefusalError(ContentFilterError):
    """The model refused to answer, where its answer was needed; asking the same again is of no use.

    Attributes:
        raw_message: the model's message, None if there is none.
    """

    def __init__(self, message: str, *, raw_message: Any = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.raw_message = raw_message


class RateLimitError(ModelError):
    """Too many requests (429); waiting helps."""

    retryable_by_default = True


class QuotaError(RateLimitError):
    """The account has no quota left (429); waiting does not help."""

    retryable_by_default = False


class OverloadedError(ModelError):
    """The provider has no capacity at the moment (503, 529)."""

    retryable_by_default = True


class ServerError(ModelError):
    """The provider failed (other 5xx)."""

    retryable_by_default = True


class ModelConnectionError(ModelError):
    """No connection to the server, or one that broke before the first byte of the answer."""

    retryable_by_default = True


class ModelTimeoutError(ModelConnectionError, TimeoutError):
    """The server did not answer, or fell silent, for longer than the limit."""


class TruncatedStreamError(ModelError):
    """A stream ended, or broke, before its end marker. Nothing of it was run.

    Attributes:
        partial: the message as far as it came (an AIMessageChunk), None if nothing came.
    """

    retryable_by_default = True

    def __init__(self, message: str, *, partial: Any = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.partial = partial


class InvalidResponseError(ModelError):
    """The server's answer is not what this API says: not JSON, HTML of a proxy, half a JSON."""
