"""Run pytest with branch coverage: `python -P tests/coverage_run.py [pytest arguments]`.

The table is part of pytest's own summary, so that pytest's closing line stays the last one.
"""

import io
import sys
import warnings

import coverage
import coverage.exceptions
import pytest


class CoverageTable:
    """A pytest plugin that prints what was not covered."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._measured.stop()
        with warnings.catch_warnings():
            # A part of the suite imports a part of the product; pytest would turn the hint into an error.
            warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)
            self._measured.save()
        if self._measured.get_data().measured_files():
            terminalreporter.section("branch coverage")
            table = io.StringIO()
            self._measured.report(file=table, show_missing=True, skip_covered=True)
            terminalreporter.write(table.getvalue())


def main(arguments: list[str]) -> int:
    measured = coverage.Coverage()
    measured.start()
    return int(pytest.main(arguments, plugins=[CoverageTable(measured)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
