"""The benchmark program runs and reports; what it measures is judged by people, not by tests."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("run.py")
ARGUMENTS = ("--quick", "--repetitions", "1", "--no-imports", "--no-streams")


def test_the_program_writes_a_table_and_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    done = subprocess.run(  # noqa: S603 (our own interpreter and program)
        [sys.executable, "-P", str(PROGRAM), *ARGUMENTS, "--json", str(file)],
        capture_output=True,
        check=False,
        text=True,
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["absent"] == {}
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == list(report["runs"])
    everybody = {"handwritten", "langchain", "agentgraph"}
    expected = [everybody | ({"agentgraph inline"} if "middleware" in name else set()) for name in report["runs"]]
    assert [set(costs) for costs in report["runs"].values()] == expected
