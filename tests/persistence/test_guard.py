"""Which savers keep the history that messages stored as changes need."""

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import ShallowPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agentgraph.persistence import keeps_history, open_checkpointer


class Newest(InMemorySaver):
    """Keeps only the newest checkpoint of a thread, as some savers for caches do."""

    def put(self, config, checkpoint, metadata, new_versions):
        thread = config["configurable"]["thread_id"]
        self.storage.pop(thread, None)
        return super().put(config, checkpoint, metadata, new_versions)


class WithoutWrites(InMemorySaver):
    """Forgets what tasks wrote once the next checkpoint is there."""

    def put(self, config, checkpoint, metadata, new_versions):
        self.writes.clear()
        return super().put(config, checkpoint, metadata, new_versions)


class Counting(InMemorySaver):
    """Counts reads and stores as its parent does."""

    reads = 0

    def get_tuple(self, config):
        self.reads += 1
        return super().get_tuple(config)


class Logging(InMemorySaver):
    """Overrides storing, and stores all the same."""

    def put(self, *args, **kwargs):
        return super().put(*args, **kwargs)


class Foreign(BaseCheckpointSaver):
    """Somebody's own saver on top of another."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def get_tuple(self, config):
        return self.inner.get_tuple(config)

    def put(self, *args):
        return self.inner.put(*args)

    def put_writes(self, *args):
        return self.inner.put_writes(*args)

    def delete_thread(self, thread_id):
        return self.inner.delete_thread(thread_id)


class OnlyAsync(BaseCheckpointSaver):
    """Has no sync methods, so it cannot be tried while an agent is built."""


class Cannot(OnlyAsync):
    keeps_history = False


class Does(OnlyAsync):
    keeps_history = True


def test_our_checkpointers_keep_history(url):
    with open_checkpointer(url) as saver:
        assert keeps_history(saver)
        assert list(saver.list(None)) == []


def test_langgraphs_savers_are_known():
    with SqliteSaver.from_conn_string(":memory:") as saver:
        assert keeps_history(saver)
    assert keeps_history(InMemorySaver())
    assert keeps_history(AsyncSqliteSaver.__new__(AsyncSqliteSaver))
    assert not keeps_history(ShallowPostgresSaver.__new__(ShallowPostgresSaver))


@pytest.mark.parametrize("saver", [None, True, False])
def test_no_saver_loses_nothing(saver):
    assert keeps_history(saver)


@pytest.mark.parametrize(
    ("saver", "keeps"),
    [
        (Newest(), False),
        (WithoutWrites(), False),
        (Logging(), True),
        (Foreign(InMemorySaver()), True),
        (OnlyAsync(), False),
        (Cannot(), False),
        (Does(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_saver_of_another_class_is_tried_or_asked(saver, keeps):
    assert [keeps_history(saver), keeps_history(saver)] == [keeps, keeps]
    storage = getattr(saver, "storage", {})
    assert [*storage] == [], "the trial's thread is deleted"


def test_a_saver_that_only_reads_in_its_own_way_is_not_tried():
    saver = Counting()

    assert keeps_history(saver)
    assert saver.reads == 0


def test_a_failed_trial_is_not_remembered():
    inner = InMemorySaver()

    class Shaky(Foreign):
        def put(self, *args):
            if broken:
                raise ConnectionError("away")
            return super().put(*args)

    broken = [True]
    saver = Shaky(inner)
    assert not keeps_history(saver)
    broken.clear()

    assert keeps_history(saver)
