"""The thread that makes a process group's calls into gradwire, and what its callers wait for."""

import contextlib
import datetime
import queue
import threading

import torch
from torch import distributed as dist

import gradwire
from gradwire._bindings import gwResult_t

# What the end of a group waits for operations under way, and then once more for their abort.
_GRACE_S = 5.0
_NO_TIMEOUT = datetime.timedelta(0)  # torch's way to say so


class Work(dist.Work):
    """A collective under way. Of one made in Python torch's C++ knows wait and get_future only."""

    def __init__(self, outputs):
        super().__init__()
        self._outputs = outputs
        self._error = None
        self._ended = threading.Event()
        self._result = torch.futures.Future()
        # C++ takes what set_exception sets for a value, but not what a callback raises.
        self._future = self._result.then(lambda result: result.value())

    def run(self, call):
        """The collective itself; never raises."""
        try:
            call()
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
        self._ended.set()
        if self._error is None:
            self._result.set_result(self._outputs)
        else:
            self._result.set_exception(self._error)

    def wait(self, timeout=_NO_TIMEOUT):
        """Until it has ended; raises how, if not well."""
        if not self._ended.wait(timeout.total_seconds() if timeout > _NO_TIMEOUT else None):
            raise gradwire.TimedOut(gwResult_t.gwTimeout,
                                    f"the collective has not ended within {timeout}")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._ended.is_set()

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._outputs

    def get_future(self):
        return self._future


class Lane:
    """A communicator and the thread that makes its calls, in the order in which they are given.

    Whoever makes it stops it: only then it takes leave of the other ranks.
    """

    def __init__(self, comm):
        self._comm = comm
        self._jobs = queue.SimpleQueue()
        self._open = True
        self._lock = threading.Lock()  # of _open: nothing may come behind the end
        self._thread = threading.Thread(target=self._run, name="gradwire-backend", daemon=True)
        self._thread.start()

    def submit(self, call, outputs):
        """The Work of `call`, which writes the tensors `outputs`. Any thread."""
        work = Work(outputs)
        with self._lock:
            # A fork's child has no such thread.
            if not (self._open and self._thread.is_alive()):
                raise gradwire.InvalidUsage(
                    gwResult_t.gwInvalidUsage,
                    "the process group was destroyed, or belongs to the process that forked")
            self._jobs.put((work, call))
        return work

    def _run(self):
        with torch.no_grad():
            while (job := self._jobs.get()) is not None:
                work, call = job
                work.run(call)
                # What they hold must not stay until the next one comes.
                del job, work, call
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.close()

    def stop(self):
        """Bounded; what is under way completes if the other ranks take part soon. Idempotent."""
        with self._lock:
            if self._open:
                self._open = False
                self._jobs.put(None)
        self._thread.join(_GRACE_S)
        if self._thread.is_alive():
            self.abort()
            self._thread.join(_GRACE_S)

    def abort(self):
        """Ends what is under way, here and at the other ranks."""
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.abort()
