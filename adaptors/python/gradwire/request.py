"""What is under way: submissions, and the requests by which callers wait for them."""

import ctypes
import time
import weakref

from gradwire import _bindings as c
from gradwire._library import SLICE_S, check, error_text, lib
from gradwire.errors import GradwireError, InvalidUsage, TimedOut, error_of


class Submission:
    """A request of the library's, and the memory that must stay until it is complete.

    It must not lead to the communicator, which would then never be dropped.
    """

    def __init__(self, *memory):
        self.handle = c.gwRequest_t()
        self._memory = memory
        self.request = None  # a weak reference to the Request

    @property
    def is_dropped(self):
        """Nobody can wait for it any more."""
        return self.request is None or self.request() is None

    def free(self):
        """Whether it was complete and is freed now. Within one_at_a_time(), or at the end."""
        # Cleared before the call: a handler of a signal may raise right behind it, and what is free
        # must not be freed again. Where it was not complete the memory then stays to the end.
        handle, self.handle = self.handle, c.gwRequest_t()
        if not handle or lib.gwRequestFree(handle) != c.gwResult_t.gwSuccess:
            self.handle = handle
            return False
        self._memory = None
        return True


class Request:
    """A submission under way; the buffers stay until it is complete, also if this is dropped.

    Those of one that was dropped go with the end of the step or a later submission. How it ended
    stays known, also after Comm.close().
    """

    def __init__(self, comm, submission):
        self._comm = comm
        self._submission = submission
        submission.request = weakref.ref(self)
        self._outcome = None  # its result code and the text of that, once it is complete

    def _is_ended(self):
        """False: it is under way. Raises how it ended, if not well."""
        if self._outcome is not None:
            code, text = self._outcome
            if code != c.gwResult_t.gwSuccess:
                raise error_of(code, text)
            return True
        if not self._submission.handle:
            raise InvalidUsage("the communicator was closed before the request was waited for")
        return False

    def wait(self, timeout=None):
        """Until it is complete, or `timeout` seconds: then TimedOut, and it stays valid.

        Raises how it ended, if not well.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_ended():
            left = SLICE_S if end is None else min(SLICE_S, max(0.0, end - time.monotonic()))
            with self._comm.in_call(), self._comm.one_at_a_time():
                if self._is_ended():  # another thread's call has seen to it
                    return
                code = lib.gwRequestWait(self._submission.handle, int(left * 1e9))
                if code != c.gwResult_t.gwTimeout:
                    self._complete(code)
                    return
            # It may also have ended with this code: an operation has a bound of its own.
            if not self.test() and end is not None and time.monotonic() >= end:
                raise TimedOut(self._comm.last_error())

    def test(self):
        """True: it is complete; raises how it ended, if not well."""
        if self._is_ended():
            return True
        done = ctypes.c_int()
        with self._comm.in_call(), self._comm.one_at_a_time():
            if self._is_ended():
                return True
            code = lib.gwRequestTest(self._submission.handle, ctypes.byref(done))
            if done.value:
                self._complete(code)
            else:
                check(code, self._comm._handle)
        return bool(done.value)

    def keep_outcome(self):
        """Before the communicator's end, which frees it: for who waits for it later."""
        try:
            self.test()
        except GradwireError:
            pass  # for who waits

    def _complete(self, code):
        """Raises how it ended, or why the wait itself was refused: then it stays as it is."""
        well = code == c.gwResult_t.gwSuccess
        text = None if well else error_text(code, self._comm._handle)
        # Before: a handler of a signal may raise right behind the call that frees it.
        self._outcome = code, text
        if not self._comm.release(self._submission):
            self._outcome = None
        if not well:
            raise error_of(code, text)
