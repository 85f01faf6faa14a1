"""The four ways to run an agent. Every case of the contract goes through all of them, so no twin can drift."""

import asyncio

import pytest

SECONDS = 30


def _invoke(agent, given, config=None, **options):
    return agent.invoke(given, config, **options)


def _stream(agent, given, config=None, **options):
    return list(agent.stream(given, config, stream_mode="values", **options))[-1]


def _bounded(coroutine):
    async def run():
        return await asyncio.wait_for(coroutine, SECONDS)

    return asyncio.run(run())


def _ainvoke(agent, given, config=None, **options):
    return _bounded(agent.ainvoke(given, config, **options))


def _astream(agent, given, config=None, **options):
    async def last():
        values = [value async for value in agent.astream(given, config, stream_mode="values", **options)]
        return values[-1]

    return _bounded(last())


@pytest.fixture(params=[_invoke, _stream, _ainvoke, _astream], ids=["invoke", "stream", "ainvoke", "astream"])
def run(request):
    """Run an agent to its end in one of the four ways; gives the final state."""
    return request.param
