"""The benchmark of streamed answers runs and reports; what it measures is judged by people, not by tests."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("streaming.py")
ABSENT = "langchain-openai"


def test_the_program_writes_a_table_and_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "streams.json"
    done = subprocess.run(  # noqa: S603 (our own interpreter and program)
        [sys.executable, "-P", str(PROGRAM), "--repetitions", "1", "--chunks", "3", "--json", str(file)],
        capture_output=True,
        check=False,
        text=True,
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(file.read_text(encoding="utf-8"))
    assert set(report["absent"]) <= {ABSENT}
    rivals = {"httpx alone", "openai sdk", ABSENT, "agentgraph wire", "agentgraph model"} - set(report["absent"])
    others = {f"{name} {what}" for name in ("responses", "anthropic", "gemini", "ollama") for what in ("wire", "model")}
    assert {name: set(costs) for name, costs in report["streams"].items()} == {
        f"{how}, {writes}": rivals | (others if writes == "singly, no pause" else set())
        for how in ("async", "sync")
        for writes in ("one event a read", "five events a read", "singly, no pause", "all at once")
    }
    assert all(cost["median_us"] > 0 for costs in report["streams"].values() for cost in costs.values())
    assert len(done.stdout.splitlines()) == 1 + 8 + 2 + len(report["absent"])
