"""The benchmark of long conversations runs and reports; what it measures is judged by people, not by tests."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("threads.py")


def test_the_program_writes_a_table_and_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "threads.json"
    done = subprocess.run(  # noqa: S603 (our own interpreter and program)
        [sys.executable, "-P", str(PROGRAM), "--turns", "10", "--json", str(file)],
        capture_output=True,
        check=False,
        text=True,
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(file.read_text(encoding="utf-8"))
    shown = [
        (saver, rival, [point["turn"] for point in points])
        for saver in report
        for rival, points in report[saver].items()
    ]
    assert shown == [(saver, rival, [10]) for saver in ("sqlite", "memory") for rival in ("agentgraph", "langchain")]
    rows = {saver: {rival: points[0]["rows"] for rival, points in report[saver].items()} for saver in report}
    assert rows["sqlite"] == {"agentgraph": 12, "langchain": 12}
    assert len(done.stdout.splitlines()) == 5
