"""langgraph's own conformance suite, on every checkpointer of ours."""

import asyncio
from collections.abc import AsyncIterator

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from agentgraph.persistence import open_checkpointer

SECONDS = 100
BASE = {"put", "put_writes", "get_tuple", "list", "delete_thread"}


async def test_a_checkpointer_conforms_to_langgraphs_contract(url: str) -> None:
    async def opened() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with open_checkpointer(url) as saver:
            yield saver

    registered = checkpointer_test(name=url.partition(":")[0])(opened)

    report = await asyncio.wait_for(validate(registered), SECONDS)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    passed = {name for name, result in report.results.items() if result.passed}
    assert failures == {}
    assert passed >= BASE
