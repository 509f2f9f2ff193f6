"""The threads that make a process group's calls into gradwire, and what its callers wait for."""

import contextlib
import copy
import datetime
import os
import queue
import threading
import time

import torch
from torch import distributed as dist

import gradwire
from gradwire.torch.advice import ADVICE, for_users

_ADVICE = {
    gradwire.PeerLost: ADVICE[gradwire.PeerLost],
    gradwire.Mismatch: "with PyTorch: the same calls, of equal sizes and types, and the same "
                       "variables GRADWIRE_... on all ranks",
}
# What the end of a group waits for operations under way, and then once more for their abort.
_GRACE_S = 5.0
_NO_TIMEOUT = datetime.timedelta(0)  # torch's way to say so
# Threads that are kept: one makes calls while the other completes what the last one gave.
_IDLE_THREADS = 2


def _bare(error):
    """One like it, without frames, which would keep the tensors in them."""
    return copy.copy(error)


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
            self._error, self._outputs = for_users(_bare(error), _ADVICE), None
        self._ended.set()

    def complete(self):
        """Runs the callbacks of the future, after run()."""
        if self._error is None:
            self._result.set_result(self._outputs)
            return
        error = _bare(self._error)
        self._result.set_exception(error)
        # The frames of callbacks that raised it lead back to the future, which keeps it.
        error.with_traceback(None)

    def wait(self, timeout=_NO_TIMEOUT):
        """Until it has ended; raises how, if not well."""
        if not self._ended.wait(timeout.total_seconds() if timeout > _NO_TIMEOUT else None):
            raise gradwire.TimedOut(f"the collective has not ended within {timeout}")
        if self._error is not None:
            raise _bare(self._error)
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


class Both(dist.Work):
    """Two collectives under way, without results."""

    def __init__(self, one, other):
        super().__init__()
        self._works = (one, other)
        ended = torch.futures.collect_all([work.get_future() for work in self._works])
        self._future = ended.then(self._result_of)

    @staticmethod
    def _result_of(ended):
        for one in ended.value():
            one.value()  # raises what that has
        return []

    def wait(self, timeout=_NO_TIMEOUT):
        """Until both have ended, each within the timeout; raises how, if not well."""
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def is_success(self):
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next(filter(None, (work.exception() for work in self._works)), None)

    def result(self):
        self.wait()
        return []

    def get_future(self):
        return self._future


class Lane:
    """A communicator and the threads that make its calls, one by one, in the order in which they
    are given.

    The thread that has made a call runs the callbacks of its future, while another one makes the
    next call: callbacks may give further calls and wait for them.

    Whoever makes it stops it: only then it takes leave of the other ranks.
    """

    def __init__(self, comm):
        self._comm = comm
        self._jobs = queue.SimpleQueue()
        self._turn = threading.Lock()  # of the thread that makes the next call
        self._process = os.getpid()  # a fork's child has no such threads
        self._lock = threading.Lock()  # of what follows
        self._open = True  # nothing may come behind the end
        self._threads = []
        self._idle = 0  # those that make a call or wait for their turn
        for _ in range(_IDLE_THREADS):
            self._add_thread()

    def _add_thread(self):
        """With the lock, but for the first ones."""
        thread = threading.Thread(target=self._run, name="gradwire-backend", daemon=True)
        thread.start()
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        self._idle += 1

    def submit(self, call, outputs):
        """The Work of `call`, which writes the tensors `outputs`. Any thread."""
        work = Work(outputs)
        if self._process == os.getpid():
            with self._lock:
                if self._open:
                    self._jobs.put((work, call))
                    return work
        raise gradwire.InvalidUsage(
            "the process group was destroyed, or belongs to the process that forked")

    def _run(self):
        with torch.no_grad():
            stays = True
            while stays and (work := self._make_call()):
                self._see_to_next_call()
                work.complete()
                # What it holds must not stay until the next one comes.
                del work
                stays = self._is_needed()

    def _make_call(self):
        """The Work of the next one, which has ended; None: the last one was."""
        with self._turn:
            job = self._jobs.get()
            if job is not None:
                work, call = job
                # A caller in that mode has tensors that can be written in that mode only. Not the
                # callbacks: what they make is for other modes too.
                with torch.inference_mode():
                    work.run(call)
                return work
            self._jobs.put(None)  # for the other threads
            with contextlib.suppress(gradwire.GradwireError):
                self._comm.close()
            return None

    def _see_to_next_call(self):
        with self._lock:
            self._idle -= 1
            if self._idle == 0:
                # Where the system has no more threads, this one goes on after its callbacks.
                with contextlib.suppress(RuntimeError):
                    self._add_thread()

    def _is_needed(self):
        """Whether this thread stays; others came while its callbacks waited."""
        with self._lock:
            stays = self._idle < _IDLE_THREADS
            self._idle += stays
        return stays

    def stop(self):
        """Bounded; what is under way completes if the other ranks take part soon. Idempotent."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._open:
                self._open = False
                self._jobs.put(None)
        if not self._join():
            self.abort()
            self._join()

    def _join(self):
        """Whether the threads ended in time, but for this one, where a callback ends the group."""
        end = time.monotonic() + _GRACE_S
        while (thread := self._another_thread()) and time.monotonic() < end:
            thread.join(max(0.0, end - time.monotonic()))
        return thread is None

    def _another_thread(self):
        with self._lock:
            return next((thread for thread in self._threads
                         if thread.is_alive() and thread is not threading.current_thread()), None)

    def abort(self):
        """Ends what is under way, here and at the other ranks."""
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.abort()
