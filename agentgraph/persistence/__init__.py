"""Where threads are kept: `open_checkpointer`, strict serialising, leases on threads, and the guard of savers.

==================  ==========================================================================================
module              answers
==================  ==========================================================================================
`opening`           which URL means which checkpointer?
`checkpointer`      what do all of ours share?
`memory`, `sqlite`  how is langgraph's saver of that kind made safe for threads, forks and async code?
`postgres`          the same, with a pool of connections and one session for the leases (`sessions`)
`leases`            who may run on a thread now?
`serializing`       which bytes are a value, and which value are these bytes? (`registry`: which types may come back;
                    `rebuilding`: objects from their parts)
`restoring`         how is a saver of langgraph's read, so that nothing of what it stored is lost?
`guard`             does a saver keep the history that a thread's messages need?
==================  ==========================================================================================
"""

from agentgraph.persistence.checkpointer import Checkpointer, OnBusy
from agentgraph.persistence.guard import keeps_history
from agentgraph.persistence.leases import ThreadLease
from agentgraph.persistence.opening import open_checkpointer
from agentgraph.persistence.registry import types_of
from agentgraph.persistence.restoring import restoring
from agentgraph.persistence.serializing import StrictSerializer, register_types

__all__ = [
    "Checkpointer",
    "OnBusy",
    "StrictSerializer",
    "ThreadLease",
    "keeps_history",
    "open_checkpointer",
    "register_types",
    "restoring",
    "types_of",
]
