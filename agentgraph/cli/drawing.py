"""A graph as Mermaid text, or as a picture by the programs that this machine has: dot or mmdc, never the network."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from langchain_core.runnables.graph import Graph as Drawable

from agentgraph.cli.exits import CommandError, ExitCode, one_line

__all__ = ["as_dot", "write_picture"]

TEXT_SUFFIXES = {".mmd", ".md", ".dot"}
PICTURE_SUFFIXES = {".png", ".svg"}
SECONDS = 60


def write_picture(drawable: Drawable, output: Path) -> None:
    """Write the graph to `output`, in the form that its suffix names.

    Args:
        drawable: what `graph.get_graph()` returns.
        output: a path that ends with .mmd, .md (a fenced block), .dot, .png or .svg.

    Raises:
        CommandError: another suffix (code 2), no program that draws (3), or one that failed (1); the file
            cannot be written (1).
    """
    suffix = output.suffix.lower()
    if suffix not in TEXT_SUFFIXES | PICTURE_SUFFIXES:
        known = ", ".join(sorted(TEXT_SUFFIXES | PICTURE_SUFFIXES))
        raise CommandError(f"cannot write {str(output)!r}: expected a name that ends with one of {known}")
    if not output.parent.is_dir():
        raise CommandError(f"cannot write {str(output)!r}: there is no directory {str(output.parent)!r}")
    try:
        if suffix in PICTURE_SUFFIXES:
            _draw(drawable, output, suffix[1:])
        else:
            output.write_text(_as_text(drawable, suffix), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {str(output)!r}: {error.strerror or error}", ExitCode.FAILED) from error


def as_dot(drawable: Drawable) -> str:
    """The graph in Graphviz' language; dashed edges are those that a rule decides about."""
    nodes = [f"  {_quoted(key)} [label={_quoted(node.name)}];" for key, node in drawable.nodes.items()]
    edges = [
        f"  {_quoted(edge.source)} -> {_quoted(edge.target)}"
        f" [label={_quoted(str(edge.data or ''))}, style={'dashed' if edge.conditional else 'solid'}];"
        for edge in drawable.edges
    ]
    shape = '  node [shape=box, style=rounded, fontname="sans-serif"];'
    return "\n".join(["digraph agent {", shape, *nodes, *edges, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _as_text(drawable: Drawable, suffix: str) -> str:
    if suffix == ".dot":
        return as_dot(drawable)
    mermaid = drawable.draw_mermaid()
    return f"```mermaid\n{mermaid}```\n" if suffix == ".md" else mermaid


def _draw(drawable: Drawable, output: Path, form: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".agentgraph-", dir=output.parent) as folder:
        drawn = Path(folder) / f"graph.{form}"
        command = _drawing_command(drawable, Path(folder), drawn, form)
        _execute(command)
        # Only a whole picture takes the place of an older one.
        drawn.replace(output)


def _drawing_command(drawable: Drawable, folder: Path, drawn: Path, form: str) -> list[str]:
    if dot := shutil.which("dot"):
        source = folder / "graph.dot"
        source.write_text(as_dot(drawable), encoding="utf-8")
        return [dot, f"-T{form}", "-o", str(drawn), str(source)]
    if mmdc := shutil.which("mmdc"):
        source = folder / "graph.mmd"
        source.write_text(drawable.draw_mermaid(), encoding="utf-8")
        return [mmdc, "--quiet", "--input", str(source), "--output", str(drawn)]
    advice = "install Graphviz (its program dot) or mermaid-cli (mmdc), or write the text: --output graph.mmd"
    raise CommandError(f"no program on this machine draws {form.upper()} files; {advice}", ExitCode.MISSING)


def _execute(command: list[str]) -> None:
    name = Path(command[0]).name
    try:
        done = subprocess.run(  # noqa: S603  the program was found on the PATH, its arguments are paths
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"{name} did not finish: {error}", ExitCode.FAILED) from error
    if done.returncode:
        said = one_line(done.stderr or done.stdout or "nothing", 300)
        raise CommandError(f"{name} ended with code {done.returncode} and said: {said}", ExitCode.FAILED)
