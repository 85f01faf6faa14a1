"""The search of files: what it finds and shows in every way to run it, with and without ripgrep, and what bounds it."""

import asyncio
import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError, ConfigurationTypeError
from agentgraph.middleware import FilesystemFileSearchMiddleware, _file_search_process, file_search
from agentgraph.testing import ScriptedModel, ai, answer, assert_messages, tool_call
from tests.middleware.approving import WAYS

RG = shutil.which("rg")
BOTH = pytest.mark.parametrize(
    "rg", [None, pytest.param(RG, marks=pytest.mark.skipif(RG is None, reason="ripgrep is not installed"))]
)
SLOW = r"(\w+\s?)+$x"
VICTIM = "word " * 30

FILES = {
    "README.md": "# Title\nTODO: write\n",
    "src/a.py": "import os\n\ndef first():\n    return 1  # TODO\n",
    "src/b.ts": "const first = 1\r\nconst second = 2\r\n",
    "src/deep/er/c.py": "def second(): ...  # TODO\n# TODO again",
    "src.txt": "TODO",
    ".env": "TODO=secret\n",
    ".github/flow.yml": "todo: TODO\n",
    "src/.hidden.py": "TODO\n",
    "data.bin": b"TODO\0TODO\n",
    "latin.txt": b"caf\xe9 TODO\n",
    "bom.txt": b"\xef\xbb\xbfTODO first\n",
    "empty.txt": "",
}


@pytest.fixture(name="root")
def make_root(tmp_path):
    return planted(tmp_path / "root", FILES)


def planted(root, files):
    for age, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return root


def search(root, rg=None, **options):
    found = FilesystemFileSearchMiddleware(root_path=root, **options)
    found._rg = rg
    return found


def grep(root, rg, *given, **options):
    return search(root, rg).grep_search.invoke({"pattern": given[0], **options})


@WAYS
def test_both_tools_answer_in_one_step_each_and_cost_nothing_else(run, root):
    names = tool_call("glob_search", pattern="**/*.py")
    lines = tool_call("grep_search", pattern="def", output_mode="content")
    model = ScriptedModel([names, lines], "Done.")
    agent = create_agent(model, middleware=[search(root)])

    result = run(agent, {"messages": "hi"})

    found = answer(names, "/src/a.py\n/src/deep/er/c.py")
    said = answer(lines, "/src/a.py:3:def first():\n/src/deep/er/c.py:1:def second(): ...  # TODO")
    assert_messages(result["messages"], [HumanMessage("hi"), ai(names, lines), found, said, AIMessage("Done.")])
    assert set(result) == {"messages"}
    assert [sorted(request.tools) for request in model.requests] == [["glob_search", "grep_search"]] * 2
    updates = list(create_agent(ScriptedModel(names, "Done."), middleware=[search(root)]).stream({"messages": "hi"}))
    assert [list(update) for update in updates] == [["model"], ["tools"], ["model"]]


GLOBS = [
    ("*", ["README.md", "src.txt", "data.bin", "latin.txt", "bom.txt", "empty.txt"]),
    ("**/*.py", ["src/a.py", "src/deep/er/c.py"]),
    ("src/*", ["src/a.py", "src/b.ts"]),
    ("src/**", ["src/a.py", "src/b.ts", "src/deep/er/c.py"]),
    ("./src//a.py", ["src/a.py"]),
    ("**/{a,c}.{py,ts}", ["src/a.py", "src/deep/er/c.py"]),
    ("{src/{a,b},bom}.{py,t{s,xt}}", ["src/a.py", "src/b.ts", "bom.txt"]),
    ("src/[!a].?s", ["src/b.ts"]),
    ("*/**/er/**/c.py", ["src/deep/er/c.py"]),
    (".*", [".env"]),
    ("**/.*", [".env", "src/.hidden.py"]),
    (".github/**", [".github/flow.yml"]),
    ("**/flow.yml", []),
    ("SRC/*", []),
]


@pytest.mark.parametrize(("pattern", "found"), GLOBS)
def test_a_glob_finds_files_by_their_paths_the_newest_first(root, pattern, found):
    said = search(root).glob_search.invoke({"pattern": pattern})
    assert said == ("\n".join(f"/{name}" for name in found) or "No files found")


def test_a_glob_longer_than_a_pipe_holds_is_searched_for(tmp_path):
    name = f"7{'x' * 200}"
    planted(tmp_path, {name: ""})
    pattern = f"{{{','.join(map(str, range(100)))}}}{'[x]' * 200}"
    assert search(tmp_path).glob_search.invoke({"pattern": pattern}) == f"/{name}"


@pytest.mark.parametrize("path", ["/src", "src", "/src/", "./src/."])
def test_a_glob_begins_at_the_path_and_names_files_from_the_top(root, path):
    assert search(root).glob_search.invoke({"pattern": "*.py", "path": path}) == "/src/a.py"


TODO = ["/README.md", "/bom.txt", "/latin.txt", "/src.txt", "/src/a.py", "/src/deep/er/c.py"]
GREPS = [
    ({"pattern": "TODO"}, TODO),
    ({"pattern": "(?i)todo", "include": "*.{md,py}"}, ["/README.md", "/src/a.py", "/src/deep/er/c.py"]),
    ({"pattern": "TODO", "include": "src/**/*.py"}, ["/src/a.py", "/src/deep/er/c.py"]),
    ({"pattern": "TODO", "include": ".*"}, ["/.env", "/src/.hidden.py"]),
    ({"pattern": "TODO", "path": "/.github"}, ["/.github/flow.yml"]),
    ({"pattern": "TODO", "path": "/.env"}, ["/.env"]),
    ({"pattern": "TODO", "path": "src/a.py", "output_mode": "count"}, ["/src/a.py:1"]),
    ({"pattern": "^TODO", "include": "*.txt", "output_mode": "content"}, ["/bom.txt:1:TODO first", "/src.txt:1:TODO"]),
    ({"pattern": r"\d$", "output_mode": "content"}, ["/src/b.ts:1:const first = 1", "/src/b.ts:2:const second = 2"]),
    ({"pattern": "caf. ", "output_mode": "content"}, ["/latin.txt:1:caf\ufffd TODO"]),
    ({"pattern": "TODO", "path": "/src", "output_mode": "count"}, ["/src/a.py:1", "/src/deep/er/c.py:2"]),
    ({"pattern": "^$", "output_mode": "content"}, ["/src/a.py:2:"]),
    ({"pattern": r"(?<=def )\w+", "include": "c.py"}, ["/src/deep/er/c.py"]),
    ({"pattern": "--files", "path": "/"}, []),
    ({"pattern": r"1\n"}, []),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("arguments", "found"), GREPS)
def test_a_grep_finds_lines_in_text_files(root, rg, arguments, found):
    said = search(root, rg).grep_search.invoke(arguments)
    assert said == ("\n".join(found) or "No matches found")


LETTERS = list("abki.^$()|*+?&~#-/\u0130\u212a\u017f\u00e9\ufffd")
ESCAPES = [rf"\{one}" for one in ["d", "w", "W", "s", "b", ".", "/", "<", "x61", "t"]]
GROUPS = ["(?:", "(?i)", "(?P<n>", "(?=a)", "{2}", "{1,}", "{,2}"]
CLASSES = ["[ab]", "[^a]", "[\u00e9]", "[a&&b]", "[a--b]", "[+-/]", "[]a]"]
PIECES = st.sampled_from(LETTERS + ESCAPES + GROUPS + CLASSES)
MIXED = {
    "a": "a\nb2\nkk i\u0307 \u0130 \u0131 \u212a\u017f\n",
    "b": "\u00b2 \u00e9a\u00e9 \u00bd\x1c\x85 \u2028 a&b a-b a/b <a> #\n",
    "c": b"\xe9a\xe9 \xf0\x9f\xa4 \xff\xfe\n\n",
    "d": "\n",
    "e": b"a\0b",
    "f": "\r\n",
    "g": b"\xff\xfea\0b\0",
    "h": "aa bb\tki",
}


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
@given(pattern=st.lists(PIECES, min_size=1, max_size=5).map("".join), flags=st.sampled_from(["", "(?i)", "(?im)"]))
@settings(max_examples=40, deadline=None)
def test_ripgrep_changes_no_result_whatever_the_pattern(tmp_path_factory, pattern, flags):
    root = tmp_path_factory.getbasetemp() / "mixed"
    if not root.exists():
        planted(root, MIXED)
    results = [grep(root, rg, flags + pattern, output_mode="content") for rg in (None, RG)]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("script", "what"),
    [("exit 2", "cannot read the pattern"), ("exit 127", "is broken"), ("printf './src/../../x\\0./no\\0'", "lies")],
)
def test_a_ripgrep_that_fails_is_done_without_and_one_that_lies_is_checked(root, tmp_path, script, what):
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    said = grep(root, str(program), "TODO")
    assert said == ("No matches found" if what == "lies" else "\n".join(TODO))


def test_ripgrep_below_the_root_is_not_used(root, monkeypatch):
    program = root / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(root))
    assert FilesystemFileSearchMiddleware(root_path=root)._rg is None
    assert FilesystemFileSearchMiddleware(root_path=root / "src")._rg == str(program)
    assert FilesystemFileSearchMiddleware(root_path=root / "src", use_ripgrep=False)._rg is None


@BOTH
def test_files_above_the_size_are_not_looked_into(tmp_path, rg):
    planted(tmp_path, {"small": "x" * 1024, "large": "x" * 1025})
    found = search(tmp_path, rg, max_file_size_mb=1 / 1024)
    assert found.grep_search.invoke({"pattern": "x"}) == "/small"
    assert found.glob_search.invoke({"pattern": "*"}) == "/small\n/large"


STOPPED = file_search._STOPPED["time"].format(seconds=0.5)


@WAYS
def test_a_pattern_that_runs_away_ends_with_what_was_found_before(run, tmp_path):
    planted(tmp_path, {"a": "x\n", "b": VICTIM})
    call = tool_call("grep_search", pattern=rf"^x$|{SLOW}")
    agent = create_agent(ScriptedModel(call, "Done."), middleware=[search(tmp_path, time_limit=0.5)])
    assert run(agent, {"messages": "hi"})["messages"][2].text == f"/a\n[{STOPPED}]"


def test_a_glob_that_runs_away_is_stopped(tmp_path):
    planted(tmp_path, {"a" * 200: ""})
    said = search(tmp_path, time_limit=0.5).glob_search.invoke({"pattern": "[a]*" * 40 + "b"})
    assert said in {"No files found", f"No files found\n[{STOPPED}]"}


@pytest.mark.parametrize(
    ("name", "limit", "told"),
    [("_MOST_ENTRIES", 2, file_search._STOPPED["entries"]), ("_MOST_DEPTH", 2, file_search._STOPPED["depth"])],
)
def test_a_large_tree_is_searched_in_part_and_the_result_says_so(tmp_path, monkeypatch, name, limit, told):
    planted(tmp_path, {"a": "x", "b/c/d/e": "x"})
    monkeypatch.setattr(file_search, name, limit)
    found = search(tmp_path)
    assert found.glob_search.invoke({"pattern": "**"}) == f"/a\n[{told}]"
    assert found.grep_search.invoke({"pattern": "x"}) == f"/a\n[{told}]"


@BOTH
@pytest.mark.parametrize(
    ("mode", "shown"),
    [("files_with_matches", "/a\n/b"), ("count", "/a:1\n/b:3"), ("content", "/a:1:x\n/b:1:x")],
)
def test_a_long_result_is_cut_and_says_so(tmp_path, monkeypatch, rg, mode, shown):
    planted(tmp_path, {"a": "x", "b": "x\nx\nx", "c": "x"})
    monkeypatch.setattr(file_search, "_MOST_RESULTS", 2)
    told = file_search._STOPPED["results"]
    assert grep(tmp_path, rg, "x", output_mode=mode) == f"{shown}\n[{told}]"
    assert search(tmp_path).glob_search.invoke({"pattern": "*"}) == f"/a\n/b\n[{told}]"


def test_exactly_as_many_results_as_there_is_room_for_are_not_called_cut(tmp_path, monkeypatch):
    planted(tmp_path, {"a": "x", "b": "x"})
    monkeypatch.setattr(file_search, "_MOST_RESULTS", 2)
    results = [grep(tmp_path, None, "x", output_mode=mode) for mode in ("files_with_matches", "count", "content")]
    assert results == ["/a\n/b", "/a:1\n/b:1", "/a:1:x\n/b:1:x"]


def test_a_long_line_and_a_long_text_are_cut(tmp_path, monkeypatch):
    planted(tmp_path, {"a": "x" * 501, "b": "y"})
    assert grep(tmp_path, None, "x", output_mode="content") == f"/a:1:{'x' * 500} ..."
    monkeypatch.setattr(file_search, "_MOST_CHARACTERS", 3)
    assert search(tmp_path).glob_search.invoke({"pattern": "*"}) == f"/a\n[{file_search._STOPPED['text']}]"


@pytest.fixture(name="started")
def record_processes(monkeypatch):
    """The processes that searches started."""
    found, real = [], _file_search_process.subprocess.Popen

    def popen(*args, **kwargs):
        found.append(real(*args, **kwargs))
        begun.set()
        return found[-1]

    begun = threading.Event()
    monkeypatch.setattr(_file_search_process.subprocess, "Popen", popen)
    return found, begun


async def test_cancelling_an_async_run_ends_the_process_and_the_loop_goes_on_meanwhile(tmp_path, started):
    planted(tmp_path, {"b": VICTIM})
    processes, begun = started
    call = tool_call("grep_search", pattern=SLOW)
    agent = create_agent(ScriptedModel(call, "Done."), middleware=[search(tmp_path, time_limit=100)])
    task = asyncio.create_task(agent.ainvoke({"messages": "hi"}))
    assert await asyncio.wait_for(asyncio.to_thread(begun.wait, 20), 30)  # the loop is free while the search runs
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    assert await asyncio.to_thread(processes[0].wait, 10) == -9


def test_cancelling_ends_what_the_process_started_as_well(tmp_path, started):
    program, told = tmp_path / "rg", tmp_path / "pid"
    os.mkfifo(told)
    program.write_text(f"#!/bin/sh\necho $$ > {told}\nexec /bin/sleep 100\n")
    program.chmod(0o755)
    found = search(tmp_path, str(program), time_limit=100)

    async def cancelled():
        task = asyncio.create_task(found.grep_search.ainvoke({"pattern": "x"}))
        pid = int(await asyncio.wait_for(asyncio.to_thread(told.read_text), 20))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(started[0][0].wait, 10)
        return pid

    pid = asyncio.run(cancelled())
    # Without a parent it stays a zombie where nobody collects it, which runs no more.
    status = Path(f"/proc/{pid}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_many_searches_of_one_object_do_not_disturb_each_other(root):
    found = search(root)
    calls = [tool_call("grep_search", pattern=pattern) for pattern in ["TODO", "def", "first", "nowhere"] * 2]
    result = create_agent(ScriptedModel(calls, "Done."), middleware=[found]).invoke({"messages": "hi"})
    assert [one.text for one in result["messages"][2:-1]] == [found.grep_search.invoke(call["args"]) for call in calls]


def test_a_search_that_cannot_be_started_is_told(root, monkeypatch):
    found = search(root)
    monkeypatch.setattr(_file_search_process.sys, "executable", "/nowhere/python")
    told = "the search could not be started. It may succeed later."
    assert found.glob_search.invoke({"pattern": "*"}) == f"No files found: {told}"
    assert found.grep_search.invoke({"pattern": "x"}) == f"No matches found: {told}"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"root_path": 1}, ConfigurationTypeError),
        ({"root_path": b"/"}, ConfigurationTypeError),
        ({"root_path": ""}, ConfigurationError),
        ({"root_path": "/nowhere/at/all"}, ConfigurationError),
        ({"root_path": "/\0"}, ConfigurationError),
        ({"root_path": __file__}, ConfigurationError),
        ({"root_path": "/", "max_file_size_mb": 0}, ConfigurationError),
        ({"root_path": "/", "max_file_size_mb": "1"}, ConfigurationTypeError),
        ({"root_path": "/", "max_file_size_mb": True}, ConfigurationTypeError),
        ({"root_path": "/", "time_limit": float("nan")}, ConfigurationError),
        ({"root_path": "/", "time_limit": float("inf")}, ConfigurationError),
    ],
)
def test_arguments_that_cannot_work_are_refused(options, error):
    with pytest.raises(error):
        FilesystemFileSearchMiddleware(**options)


def test_a_frozen_program_is_refused(root, monkeypatch):
    monkeypatch.setattr(_file_search_process.sys, "frozen", True, raising=False)
    with pytest.raises(ConfigurationError, match="frozen program"):
        FilesystemFileSearchMiddleware(root_path=root)
