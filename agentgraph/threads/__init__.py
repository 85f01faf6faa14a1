"""What one does with a thread: look at it, go back, branch off, copy, prune, repair and delete it.

==================  =================================================  ==============
function            what it does                                       given
==================  =================================================  ==============
`list_threads`      which threads there are, the last used first       saver
`messages`          the conversation                                   agent or saver
`history`           what each step did                                 agent or saver
`diff`              what differs between two checkpoints               agent or saver
`fork`              branch off, in the thread or into a new one        agent or saver
`rewind`            go back to a checkpoint, or before a message       agent or saver
`repair_report`     what is wrong with the stored messages             agent or saver
`repair`            mend them                                          agent
`copy_thread`       copy all of it                                     saver
`delete_thread`     delete all of it                                   saver
`size`              checkpoints, writes, bytes                         saver
`prune`             delete old checkpoints                             saver
==================  =================================================  ==============

Each has an async form whose name begins with `a`. An agent does wherever a saver is wanted. What only a saver is given
to knows the messages of a thread, and neither its nodes nor other fields.

All of these work on threads of langgraph's InMemorySaver, SqliteSaver and PostgresSaver, of their async forms, and of
what `open_checkpointer` returns. Of other savers, those functions work that langgraph's interface has a way for; the
others raise a ConfigurationError that says so.
"""

from agentgraph.threads.branching import afork, arewind, fork, rewind
from agentgraph.threads.comparing import FieldChange, MessageChange, MessagesDiff, ThreadDiff, adiff, diff
from agentgraph.threads.listing import (
    ThreadSummary,
    acopy_thread,
    adelete_thread,
    alist_threads,
    asize,
    copy_thread,
    delete_thread,
    list_threads,
    size,
)
from agentgraph.threads.pruning import Pruned, aprune, prune
from agentgraph.threads.repairing import Finding, RepairReport, arepair, arepair_report, repair, repair_report
from agentgraph.threads.rows import ThreadSize
from agentgraph.threads.steps import Step, ToolRun, ahistory, amessages, history, messages

__all__ = [
    "FieldChange",
    "Finding",
    "MessageChange",
    "MessagesDiff",
    "Pruned",
    "RepairReport",
    "Step",
    "ThreadDiff",
    "ThreadSize",
    "ThreadSummary",
    "ToolRun",
    "acopy_thread",
    "adelete_thread",
    "adiff",
    "afork",
    "ahistory",
    "alist_threads",
    "amessages",
    "aprune",
    "arepair",
    "arepair_report",
    "arewind",
    "asize",
    "copy_thread",
    "delete_thread",
    "diff",
    "fork",
    "history",
    "list_threads",
    "messages",
    "prune",
    "repair",
    "repair_report",
    "rewind",
    "size",
]
