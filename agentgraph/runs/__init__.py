"""Runs from outside: resume them, see what they ask, cancel and limit them, read how they ended.

============================= ===============================================================
`resume`, `aresume`           answer the open questions of a thread, and let the run go on
`pending_questions`           the open questions of one thread
`inbox`, `ainbox`             the open questions of all threads of a saver
`RunControl`                  cancel a run, limit its time
`outcome`                     how a run ended: answer, interrupt, limit, cancelled, error
============================= ===============================================================
"""

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from agentgraph.errors import ResumeError
from agentgraph.runs.control import CancelMode, RunControl
from agentgraph.runs.inbox import Question, ThreadQuestions, ainbox, apending_questions, inbox, pending_questions
from agentgraph.runs.outcomes import Outcome, OutcomeKind, outcome

__all__ = [
    "CancelMode",
    "Outcome",
    "OutcomeKind",
    "Question",
    "RunControl",
    "ThreadQuestions",
    "ainbox",
    "apending_questions",
    "aresume",
    "inbox",
    "outcome",
    "pending_questions",
    "resume",
]


def resume(agent: Any, config: RunnableConfig, answers: Any, **options: Any) -> Any:
    """Answer the open questions of a thread, and let its run go on.

    The same as `agent.invoke(Command(resume=...), config)`, and besides takes answers by position. Each answer is
    checked before any is stored, stored once, and belongs to its question for good: what is delivered twice, or too
    late, answers nothing else.

    Args:
        agent: from `create_agent`, with a checkpointer.
        config: with the thread's id.
        answers: a dict from the ids of questions to their answers (all, or some: the run then asks the others again);
            or, where several are open, a list with an answer for each in the order of `pending_questions`; or the one
            answer where one question is open.
        **options: for `agent.invoke`.

    Returns:
        What the run returns; under `__interrupt__` its next questions, if there are any.

    Raises:
        ResumeError: no question is open, or the answers do not fit the open ones; nothing was stored.
        ThreadBusyError: another run is at work on the thread.

    Example:
        >>> from agentgraph import create_agent, tool
        >>> from agentgraph.testing import ScriptedModel, tool_call
        >>> from langgraph.checkpoint.memory import InMemorySaver
        >>> from langgraph.types import interrupt
        >>> @tool
        ... def ask(question: str) -> str:
        ...     "Ask the user."
        ...     return str(interrupt(question))
        >>> model = ScriptedModel(tool_call("ask", question="Sure?"), "Done.")
        >>> agent = create_agent(model, [ask], checkpointer=InMemorySaver())
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> agent.invoke({"messages": "Delete it."}, config)["__interrupt__"][0].value
        'Sure?'
        >>> resume(agent, config, "yes")["messages"][-1].text
        'Done.'
    """
    if isinstance(answers, list) and len(questions := pending_questions(agent, config)) > 1:
        answers = _in_order(answers, questions)
    return agent.invoke(_command(answers), config, **options)


async def aresume(agent: Any, config: RunnableConfig, answers: Any, **options: Any) -> Any:
    """Async form of `resume`."""
    if isinstance(answers, list) and len(questions := await apending_questions(agent, config)) > 1:
        answers = _in_order(answers, questions)
    return await agent.ainvoke(_command(answers), config, **options)


def _in_order(answers: list[Any], questions: list[Question]) -> Mapping[str, Any]:
    if len(answers) != len(questions):
        raise ResumeError(
            f"{len(answers)} answers were given, but {len(questions)} questions are open: "
            f"{'; '.join(f'{one.id!r}: {one.value!r:.120}' for one in questions[:10])}. "
            "Give one for each, in this order, or a dict {id: answer} for some of them. Nothing was stored."
        )
    return {one.id: answer for one, answer in zip(questions, answers, strict=True)}


def _command(answers: Any) -> Command[Any]:
    if answers is None:
        raise ResumeError(
            "The answer None was given, which langgraph cannot tell from no answer. Give it by its question's id, "
            "{id: None}, or any other value. Nothing was stored."
        )
    return Command(resume=answers)
