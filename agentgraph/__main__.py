"""`python -m agentgraph` is the `agentgraph` command."""

from agentgraph.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
