"""The events of Chat Completions that bring words and nothing else: told apart from all others at little cost. Pure.

They are nearly all of a streamed answer, so it is worth asking once whether there is anything to read but words.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

__all__ = ["RepeatedForm", "only_words"]

_ATTEMPTS: Final = 8
_MARK: Final = "\u2014agentgraph\u2014"

_OF_THE_CHOICE: Final = frozenset({"delta", "index"})
_OF_THE_DELTA: Final = frozenset({"content", "role"})


def only_words(body: Mapping[str, Any]) -> str | None:
    """Return the words of an event that brings nothing else, None of any other.

    Args:
        body: the parsed event. A failure, an end, a second answer, and whatever is not known are something else.

    Example:
        >>> only_words({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]})
        'Hi'
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(delta, dict):
        return None
    content = delta.get("content")
    if not isinstance(content, str) or body.get("error") or "error" in (body.get("type"), body.get("object")):
        return None
    if choice.get("index") not in (0, None) or _says_more(choice, _OF_THE_CHOICE) or _says_more(delta, _OF_THE_DELTA):
        return None
    return content


class RepeatedForm:
    """Reads events that differ from the one before them in their words alone, and parses no more of them than these.

    All events of an answer that bring words are mostly the same text around another string. What stands before and
    behind the string is kept of one that was read in full, so that the next is known to say the same of all else.

    Example:
        >>> form = RepeatedForm()
        >>> form.learn('{"choices": [{"delta": {"content": "Hi"}}]}', "Hi")
        >>> form.words_of('{"choices": [{"delta": {"content": " you"}}]}')
        ' you'
        >>> form.words_of('{"choices": [{"delta": {"content": "", "refusal": "No."}}]}') is None
        True
    """

    def __init__(self) -> None:
        self._head = self._tail = ""
        # A server whose events all differ (a time, an id of each) is not learned from for ever.
        self._attempts = _ATTEMPTS

    def forget(self) -> None:
        """Take no event for another until one was learned again: something else was said in between."""
        self._head = self._tail = ""

    def learn(self, data: str, words: str) -> None:
        """Keep the form of an event.

        Args:
            data: the event, which `only_words` has read.
            words: what it read.
        """
        self.forget()
        if not self._attempts:
            return
        self._attempts -= 1
        for written in (json.dumps(words, ensure_ascii=False), json.dumps(words)):
            head, found, tail = data.partition(written)
            if found and written not in tail and _holds_words(head, tail):
                self._head, self._tail = head, tail
                return

    def words_of(self, data: str) -> str | None:
        """Return the words of an event of the form that is kept, None of any other."""
        head, tail = self._head, self._tail
        if not head or not data.startswith(head) or not data.endswith(tail):
            return None
        try:
            # An overlap of the two leaves nothing that could be a string.
            words = orjson.loads(data[len(head) : len(data) - len(tail)])
        except ValueError:
            return None
        return words if isinstance(words, str) else None


def _holds_words(head: str, tail: str) -> bool:
    """Whether the string between these is the words: it might be another that reads the same."""
    try:
        body = orjson.loads(f'{head}"{_MARK}"{tail}')
    except ValueError:
        return False
    return isinstance(body, dict) and only_words(body) == _MARK


def _says_more(value: Mapping[str, Any], known: Collection[str]) -> bool:
    # An empty text may mean something (a finish reason that is not known yet), and so may an empty object (a call).
    for key, item in value.items():  # noqa: SIM110 a generator in `any` costs as much again, for each word of an answer
        if key not in known and item is not None and item != []:
            return True
    return False
