r"""Finding by ripgrep the files in which a search by Python can find anything.

The two know different regular expressions. So the pattern is made wider, in the part of the language that both share,
and ripgrep only leaves out files that cannot match; what matches is decided by Python, and the results are the same
with it and without it. A pattern beyond that part is not given to it.
"""

import os
import re
import subprocess

from ._file_search_tree import Budget

__all__ = ["candidates", "widened"]

_SHARE = 0.7  # of the time that is left, so that there is some for looking into what was found

# Without Unicode, ripgrep compares bytes: one character beyond ASCII, or one wrong byte, is one to four of them.
_OTHER = r"[\x80-\xff]{1,4}"
_ANY = rf"(?:[\x00-\x09\x0b-\x7f]|{_OTHER})"

_FLAGS = re.compile(r"\(\?([ims]+)\)")
_PLAIN_CLASS = re.compile(r"\[(?!.*--)[A-Za-z0-9_ ./,:;@#%+*$=<>-]+\]")
_TOKENS = re.compile(
    r"(?P<digit>\\d)|(?P<word>\\w)|(?P<space>\\s)|(?P<other>\\[DWS]|\.)|(?P<anchor>\\[bBAZ]|\^|\$)"
    r"|(?P<control>\\[tnrfv])|\\(?P<escaped>[^A-Za-z0-9\s])|(?P<open>\((?:\?:|\?P<\w+>|(?!\?)))|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{\d+(?:,\d*)?\})|(?P<bar>\|)|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<plain>[^\\(){}\[\]])",
    re.DOTALL,
)
_FIXED = {
    "digit": rf"(?:[0-9]|{_OTHER})",
    "word": rf"(?:[0-9A-Za-z_]|{_OTHER})",
    "space": rf"(?:[\x09-\x0d\x1c-\x20]|{_OTHER})",
    "other": _ANY,
    "anchor": "(?:)",
    "open": "(?:",
}


def widened(pattern: str) -> str | None:
    """A pattern for ripgrep that matches in every line in which Python finds this one, and maybe in others.

    Args:
        pattern: a regular expression of Python.

    Returns:
        None where there is none.
    """
    flags = _FLAGS.match(pattern)
    ignore_case = flags is not None and "i" in flags[1]
    position = flags.end() if flags else 0
    found = ["(?i)" if ignore_case else ""]
    while position < len(pattern):
        token = _TOKENS.match(pattern, position)
        if token is None:
            return None
        found.append(_translated(token, ignore_case=ignore_case))
        position = token.end()
    return "".join(found)


def _translated(token: re.Match[str], *, ignore_case: bool) -> str:
    kind = str(token.lastgroup)
    text = token[kind]
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in {"escaped", "plain"}:
        return _literal(text, ignore_case=ignore_case)
    if kind == "class":
        return _class(text, ignore_case=ignore_case)
    return text


def _literal(character: str, *, ignore_case: bool) -> str:
    # A mark of wrong bytes stands for any. Without case, a few letters of ASCII are equal to some beyond it.
    if character == "\ufffd":
        return f"(?:{_OTHER})"
    if ignore_case and not character.isascii():
        return _ANY
    if ignore_case and character in "iIkKsS":
        return f"(?:{character}|{_OTHER})"
    try:
        return "(?:" + "".join(f"\\x{byte:02x}" for byte in character.encode()) + ")"
    except UnicodeEncodeError:
        return _ANY


def _class(text: str, *, ignore_case: bool) -> str:
    if not _PLAIN_CLASS.fullmatch(text):
        return _ANY
    return f"(?:{text}|{_OTHER})" if ignore_case else text


def candidates(program: str, pattern: str, at: int, budget: Budget, *, hidden: bool) -> list[tuple[str, ...]] | None:
    """The files below a folder in which the pattern may match, in the order of a walk.

    Args:
        program: the path of ripgrep.
        pattern: a regular expression of Python.
        at: the descriptor of the folder; this process changes into it.
        budget: ends it early.
        hidden: whether names that begin with a dot are wanted.

    Returns:
        Their paths below the folder; None where ripgrep cannot tell.
    """
    wide = widened(pattern)
    if wide is None:
        return None
    os.fchdir(at)  # by the descriptor, so that it begins where the path was checked
    said = _said(_command(program, wide, hidden=hidden), budget)
    if said is None:
        return None
    # What follows the last NUL is half a name.
    names = said.split(b"\0")[:-1]
    if len(names) > budget.entries:
        budget.stopped = "entries"
    return sorted(tuple(os.fsdecode(name).split("/")[1:]) for name in names[: budget.entries])


def _command(program: str, pattern: str, *, hidden: bool) -> list[str]:
    return [
        program,
        "--no-config",
        "--no-ignore",
        *(["--hidden"] if hidden else []),
        "--no-follow",
        "--no-unicode",
        "--encoding=none",
        "--text",
        "--no-mmap",
        "--no-messages",
        "--color=never",
        "--threads=4",
        "--files-with-matches",
        "--null",
        "--",
        pattern,
        "./",
    ]


def _said(command: list[str], budget: Budget) -> bytes | None:
    try:
        done = subprocess.run(  # noqa: S603 (no shell, and the pattern stands behind "--")
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=budget.left() * _SHARE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        budget.stopped = "time"
        return error.stdout or b""
    except OSError:
        return None
    # 0: some match, 1: none does. Else it could not read everything, or not the pattern.
    return done.stdout if done.returncode in {0, 1} else None
