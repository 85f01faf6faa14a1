"""Nothing outside the folder is reached or shown by the search of files, and hostile input is told or made harmless."""

import os
import shutil
import socket
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgraph import create_agent
from agentgraph.errors import ConfigurationError
from agentgraph.middleware import (
    FilesystemFileSearchMiddleware,
    _file_search_patterns,
    _file_search_process,
    _file_search_tree,
    _file_search_worker,
    file_search,
)
from agentgraph.testing import ScriptedModel, tool_call
from tests.middleware.approving import WAYS

RG = shutil.which("rg")
BOTH = pytest.mark.parametrize(
    "rg", [None, pytest.param(RG, marks=pytest.mark.skipif(RG is None, reason="ripgrep is not installed"))]
)
SECRET = "SECRET-OUTSIDE"


@pytest.fixture(name="root")
def make_root(tmp_path):
    """A folder with one file of its own, next to a secret and with all kinds of ways to it."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "deep").mkdir(parents=True)
    (root / "sub").mkdir(parents=True)
    for place in (outside, outside / "deep", tmp_path):
        (place / "secret.txt").write_text(SECRET)
    (root / "sub" / "own.txt").write_text("SECRET-INSIDE")
    for link, target in {
        "file": outside / "secret.txt",
        "folder": outside,
        "up": "..",
        "relative": "../outside/secret.txt",
        "sub/chain": "../folder",
        "loop": "loop",
        "self": ".",
        "gone": "nowhere",
        "proc": "/proc/self/root",
        "inside": "sub",
    }.items():
        (root / link).symlink_to(target)
    return root


def search(root, rg=None, **options):
    found = FilesystemFileSearchMiddleware(root_path=root, **options)
    found._rg = rg
    return found


PATHS = [
    "..", "/..", "/../", "../outside", "/sub/../..", "/sub/../../outside", "sub/..", "//..//outside", "/./../outside",
    "~", "~/", "/~root", "~root/.ssh", "/sub/~",
    "..\\outside", "\\..\\outside", "C:\\Windows", "/sub\\..\\..", "\\\\server\\share",
    "\uff0e\uff0e", "/\uff0e\uff0e/outside", "\uff0e\uff0e\uff0foutside", "\u2025/outside", "..\uff0foutside",
    ".\uff0e/outside",
    "\x00", "/sub\x00/../..", "/..\x00", "\n/..", "/sub\r", "\x1b[2J", "\x7f", "\u2028/..", "\ud800", "/\udcff", "\x85",
    "/" + "a" * 5_000, "/" + "a/" * 3_000,
    "/file", "/folder", "/folder/deep", "/up", "/up/outside", "/sub/chain", "/sub/chain/deep", "/loop", "/self",
    "/self/sub", "/proc/etc", "/inside", "/relative", "/gone",
    "/nowhere", "/sub/own.txt/x", "%2e%2e/outside", "/etc/passwd", "file:///etc", "{..,.}/outside", "$HOME",
    "`id`", "-x",
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out(root, rg, path):
    found = search(root, rg)
    for said, nothing in (
        (found.glob_search.func("**", path), "No files found"),
        (found.grep_search.func("SECRET", path, None, "content"), "No matches found"),
    ):
        assert said.split(":")[0] == nothing
        assert SECRET not in said
        assert said.isprintable()


PATTERNS = [
    "../*", "../**", "**/../../*", "sub/../../outside/*", "..", "/etc/*", "/**", "//etc/passwd", "~/*", "**/~/*",
    "..\\*", "C:\\*", "\uff0e\uff0e/*", "\u2025/**", "..\uff0f*", "{..,x}/*", "{.,..}/outside/*", ".{.,x}/*",
    "{../,}*/secret.txt",
    "x\x00", "\x00", "*\n", "\ud800", "\x1b", "", ".", "./", "{a", "a}", "{}", "a{}b", "}{", "{{a,b}", "*" * 2_000,
    "{a,b}" * 8, "{" * 500 + "}" * 500,
    "folder/*", "folder/**", "*/secret.txt", "**/secret.txt",
    "up/*", "sub/chain/*", "self/**", "proc/**", "file", "inside/*",
    "[.][.]/*", "[.].[.]/**", ".?/*", "?./*", ".*/*", ".*/**", "**/.*/**/secret.txt", "[!a]/../*", "?[.]/secret.txt",
]  # fmt: skip


@BOTH
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_leads_out(root, rg, pattern):
    found = search(root, rg)
    said = found.glob_search.func(pattern)
    assert said.split(":")[0] == "No files found"
    assert said.isprintable()
    told = found.grep_search.func("SECRET", "/", pattern, "content")
    assert told == "No matches found" or told.startswith("Invalid include pattern: ")
    assert told.isprintable()


@BOTH
def test_links_are_neither_listed_nor_followed(root, rg):
    found = search(root, rg)
    assert found.glob_search.func("**") == "/sub/own.txt"
    assert found.glob_search.func("*/**") == "/sub/own.txt"
    assert found.grep_search.func("SECRET", "/", None, "content") == "/sub/own.txt:1:SECRET-INSIDE"


@WAYS
def test_the_model_is_told_what_is_wrong_and_the_run_goes_on(run, root):
    calls = [
        tool_call("glob_search", pattern="../*"),
        tool_call("glob_search", pattern="*", path="~"),
        tool_call("grep_search", pattern="x", path="\\"),
        tool_call("grep_search", pattern="x", path="/folder"),
        tool_call("grep_search", pattern="("),
        tool_call("grep_search", pattern="x" * 1_001),
        tool_call("grep_search", pattern="x", include="{a"),
        tool_call("grep_search", pattern="x", output_mode="everything"),
    ]
    agent = create_agent(ScriptedModel(calls, "Done."), middleware=[search(root)])
    told = [message.text for message in run(agent, {"messages": "hi"})["messages"][2:-1]]
    assert told[:-1] == [
        'No files found: the pattern has ".." in it, and nothing above "/" can be searched.',
        'No files found: the path has "~" in it, which has no meaning here; "/" is the top.',
        'No matches found: the path has a backslash in it; parts are separated by "/".',
        "No matches found: there is nothing at '/folder' that can be searched. Links are not followed.",
        "Invalid regex pattern: missing ), unterminated subpattern at position 0",
        "Invalid regex pattern: it has 1001 characters; the most are 1000",
        "Invalid include pattern: its braces do not match",
    ]
    assert "output_mode" in told[-1]


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 500,
        "(" * 400 + "no" + ")" * 400,
        "a{99999999999}",
        "\\",
        "[",
        "(?P<a>b)(?P<a>c)",
        "(?<=a+)b",
        "*",
        "\ud800",
    ],
)
def test_a_wrong_or_strange_regular_expression_is_told(root, pattern):
    said = search(root).grep_search.func(pattern)
    assert said == "No matches found" or said.startswith("Invalid regex pattern: ")
    assert said.isprintable()


@BOTH
@pytest.mark.parametrize("pattern", ["-e x", "--pre=id", "--files", "-f/etc/passwd", "--", "--config=x", "-"])
def test_a_pattern_is_never_an_option(root, rg, pattern):
    (root / "sub" / "options.txt").write_text(f"x\n{pattern}\n")
    assert search(root, rg).grep_search.func(pattern, "/sub", "options.txt", "count") == "/sub/options.txt:1"


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
def test_settings_of_ripgrep_from_the_environment_and_the_folder_change_nothing(root, monkeypatch):
    settings_file = root / "sub" / "ripgreprc"
    settings_file.write_text("--files\n--follow\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings_file))
    (root / ".ignore").write_text("*\n")
    (root / ".rgignore").write_text("*\n")
    assert search(root, RG).grep_search.func("SECRET") == "/sub/own.txt"


def test_code_in_the_folder_and_settings_of_python_are_not_loaded(root, monkeypatch):
    for name in ("json.py", "re.py", "sitecustomize.py"):
        (root / name).write_text("raise SystemExit")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("PYTHONSTARTUP", str(root / "re.py"))
    assert search(root).grep_search.func("INSIDE") == "/sub/own.txt"


@BOTH
def test_pipes_sockets_and_what_may_not_be_read_are_left_out(root, rg, monkeypatch):
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    (root / "locked").mkdir()
    (root / "locked" / "x").write_text("SECRET")
    (root / "locked").chmod(0)
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind("socket")
        found = search(root, rg)
        said = [
            found.glob_search.func("*"),
            found.grep_search.func("SECRET", "/pipe"),
            found.grep_search.func("x", "/socket"),
        ]
    may_read = os.access(root / "locked", os.R_OK)
    (root / "locked").chmod(0o700)
    told = "No matches found: there is nothing at {!r} that can be searched. Links are not followed."
    assert said == ["No files found", told.format("/pipe"), told.format("/socket")]
    if not may_read:
        assert found.grep_search.func("SECRET", "/locked") == "/locked/x"


class Swapping:
    """A folder whose entries are exchanged for links to the outside, just after they were looked at."""

    def __init__(self, root, target):
        self.root, self.target, self.real = root, target, _file_search_tree._listed

    def __call__(self, at, budget):
        listed = self.real(at, budget)
        for name in ("sub", "own.txt"):
            place = self.root / name
            if any(one == name for one, _ in listed) and not place.is_symlink():
                place.rename(self.root / f"moved-{name}")
                place.symlink_to(self.target / ("deep" if name == "sub" else "secret.txt"))
        return listed


def request(root, regex):
    bounds = {"seconds": 10, "entries": 1_000, "depth": 10, "results": 10, "most_bytes": 1_000}
    return {"root": str(root), "path": [], "globs": [["**"]], "regex": regex, "output": "content", "rg": None, **bounds}


@pytest.mark.parametrize("regex", [None, "SECRET"])
def test_a_link_made_between_looking_and_opening_is_not_followed(root, tmp_path, monkeypatch, regex):
    (root / "own.txt").write_text("mine")
    monkeypatch.setattr(_file_search_tree, "_listed", Swapping(root, tmp_path / "outside"))
    told = []
    _file_search_worker.search(request(root, regex), told.append)
    assert (root / "own.txt").read_text() == SECRET  # the link is there, and leads out
    names = [] if regex else [{"file": "/own.txt"}]  # a name that was in the folder, and no more of it
    assert told == [{"ready": True}, *names, {"stopped": None, "total": len(names)}]


@pytest.mark.parametrize("name", ["..", ".", "", "../outside", "sub/own.txt", "/etc"])
def test_the_last_guard_opens_only_names_in_the_folder(root, name):
    with _file_search_tree.opened(None, str(root)) as at:
        assert _file_search_tree.read(at, name, 1_000) is None
        with pytest.raises(FileNotFoundError), _file_search_tree.opened(at, name):
            pass


def test_a_root_that_is_exchanged_for_a_link_later_is_not_followed(root, tmp_path):
    found = search(root)
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "outside")
    assert found.grep_search.func("SECRET").startswith("No matches found: there is nothing at ")
    assert found.glob_search.func("**").startswith("No files found: there is nothing at ")


def test_a_root_given_as_a_link_is_the_folder_it_leads_to(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    assert search(tmp_path / "link").glob_search.func("**") == "/sub/own.txt"
    with pytest.raises(ConfigurationError):
        FilesystemFileSearchMiddleware(root_path=root / "loop")


@BOTH
def test_names_and_lines_cannot_forge_other_results(tmp_path, rg):
    names = {"a\n%2Fetc:1:x": "\\x0a", "b\x1b[2J": "\\x1b", "c\u2028": "\\u2028"}
    for name in names:
        (tmp_path / name).write_text("hit\x1b[0m\u2029\x85end\n")
    (tmp_path / os.fsdecode(b"d\xff")).write_text("hit")
    found = search(tmp_path, rg)
    assert sorted(found.glob_search.func("*").split("\n")) == [
        "/a\\x0a%2Fetc:1:x", "/b\\x1b[2J", "/c\\u2028", "/d\\xff",
    ]  # fmt: skip
    line = "hit\\x1b[0m\\u2029\\x85end"
    assert found.grep_search.func("hit", "/", None, "content") == "\n".join(
        [f"/a\\x0a%2Fetc:1:x:1:{line}", f"/b\\x1b[2J:1:{line}", f"/c\\u2028:1:{line}", "/d\\xff:1:hit"]
    )


def test_a_process_that_writes_without_end_is_stopped(root, monkeypatch):
    monkeypatch.setattr(
        _file_search_process, "_START", 'import os\nwhile True: os.write(1, b\'{"file": "/x"}\\n\' * 9999)'
    )
    monkeypatch.setattr(_file_search_process, "_MOST_BYTES", 1_000_000)
    found = _file_search_process.searched(request(root, None))
    assert 0 < len(found.found) < 200_000
    assert found.stopped == "text"


def test_running_out_of_memory_is_told(root, monkeypatch):
    def full(*args):
        raise MemoryError

    monkeypatch.setattr(_file_search_worker, "read", full)
    told = []
    _file_search_worker.search(request(root, "SECRET"), told.append)
    assert told == [{"ready": True}, {"stopped": "memory"}]
    monkeypatch.setattr(
        file_search, "searched", lambda given: _file_search_process.Outcome(stopped="memory", started=True)
    )
    assert search(root).glob_search.func("*") == f"No files found\n[{file_search._STOPPED['memory']}]"


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
    | st.sampled_from("..~\\{}[]*?!\uff0e\uff0f\u2025"),
    min_size=1,
    max_size=12,
)  # fmt: skip


@given(parts=st.lists(NAMES, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_path_is_refused_or_has_only_parts_that_lead_down(parts):
    text = "/".join(parts)
    try:
        found = _file_search_patterns.components(text, "path")
    except ValueError:
        return
    assert found == [part for part in parts if part != "."]
    assert all(".." not in unicodedata.normalize("NFKC", part).split("/") for part in found)


@given(names=st.lists(NAMES, min_size=1, max_size=5, unique=True))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_file_whose_name_can_exist_is_found_and_shown_on_one_line(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("names")
    made = []
    for name in names:
        if name not in {".", ".."} and len(name.encode()) <= 255:
            (root / name).write_text("x")
            made.append(name)
    visible = [name for name in made if not name.startswith(".")]
    said = search(root).grep_search.func("x")
    shown = {f"/{_file_search_patterns.shown(name)}" for name in visible}
    assert set(said.split("\n")) == (shown or {"No matches found"})
    said.encode()


@given(pattern=st.text(st.sampled_from("ab./*?[]{},!-~\\"), max_size=20))
@settings(max_examples=300, deadline=None)
def test_every_glob_is_refused_or_can_be_matched(pattern):
    try:
        globs = _file_search_patterns.alternatives(pattern)
    except ValueError:
        return
    assert not _file_search_patterns.Glob(globs).matches(["..", "a"])
