"""Is the history of a queue one that its promises allow? A recorder of the trace, and its checker.

recorder = Recorder(QueueStore(connection, "foos"))
recorder.start()
...                      # a load, faults; recorder.poll() each second
violations = check(recorder.finish(), acks=acks, intervals=read_intervals(paths))
"""

from tests.proofs.history.checker import check
from tests.proofs.history.recorder import Recorder
from tests.proofs.history.records import Ack, Interval, Segment, Violation, read_intervals

__all__ = ["Ack", "Interval", "Recorder", "Segment", "Violation", "check", "read_intervals"]
