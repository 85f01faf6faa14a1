"""A process that can be killed: after its death nothing of it runs, and nothing arrives in the storage."""

from typing import Any

from langchain_core.messages import ToolMessage

from tests.contract.machine_ledger import Answer

__all__ = ["Killed", "Process", "tool_messages"]


class Killed(BaseException):
    """The process is dead; nothing may catch it."""


class Process:
    """One life of the program. After its death nothing runs, and nothing arrives in the storage."""

    def __init__(self) -> None:
        self.alive = True
        self.writes_left: int | None = None
        self._checkpoints: set[str] = set()
        self._results: set[tuple[str, int]] = set()

    def check(self) -> None:
        if not self.alive:
            raise Killed

    def die(self) -> None:
        self.alive = False
        raise Killed

    @property
    def stored(self) -> set[int]:
        """The executions whose results arrived, with a checkpoint to belong to."""
        return {number for checkpoint, number in self._results if checkpoint in self._checkpoints}

    def live_on(self, saver: Any) -> Any:
        """The saver as this process writes to it."""
        put, put_writes = saver.put, saver.put_writes

        def mortal_put(config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            self._write()
            after = put(config, checkpoint, metadata, new_versions)
            self._checkpoints.add(checkpoint["id"])
            return after

        def mortal_put_writes(config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            self._write()
            put_writes(config, writes, task_id, task_path)
            place = config["configurable"]["checkpoint_id"]
            answers = [Answer.of(one) for _, value in writes for one in tool_messages(value)]
            self._results |= {(place, one.number) for one in answers if one.number is not None}

        saver.put, saver.put_writes = mortal_put, mortal_put_writes
        return saver

    def _write(self) -> None:
        self.check()
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                self.die()


def tool_messages(written: Any) -> list[ToolMessage]:
    return [one for one in written if isinstance(one, ToolMessage)] if isinstance(written, list) else []
