"""The end of a communicator, behind the last of its calls."""

import contextlib
import threading
import time

from gradwire import _bindings as c
from gradwire._library import ProcessLock, lib
from gradwire.errors import InvalidUsage

# How long the end of a communicator waits for the call that an abort has ended.
_RETURN_S = 10.0


def end_later(call, made):
    """Nobody wants the communicator any more that a call which was interrupted may yet make."""
    def end():
        call.join()
        if made:
            lib.gwCommAbort(made)
            _destroy(made)

    threading.Thread(target=end, name="gradwire-end", daemon=True).start()


def _destroy(handle):
    """Frees the communicator and clears the handle; the result where that was refused."""
    end = time.monotonic() + _RETURN_S
    while True:
        # Cleared before the call: a handler of a signal may raise right behind it, and nobody must
        # use what is gone.
        value, handle.value = handle.value, None
        code = lib.gwCommDestroy(c.gwComm_t(value))
        if code == c.gwResult_t.gwSuccess:
            return code
        handle.value = value
        # A worker may be in a call that a handler has left, and returns from it after an abort. A
        # child of fork is refused for ever.
        if lib.gwCommAbort(handle) != c.gwResult_t.gwSuccess or time.monotonic() > end:
            return code
        time.sleep(0.01)


class Lifetime:
    """Of a communicator: its handle, what is under way on it, and their end.

    `with lifetime:` is a call, of any thread. Another thread may ask for the end meanwhile, or a
    signal's handler that interrupts the call: the handle, those of tensors and requests and the
    arrays then stay until the last call is left. A handler that raises just as one is entered or
    left may keep it open; then they go with the Comm.

    It must not lead to the Comm, which would then never be dropped.
    """

    def __init__(self, handle):
        self.handle = handle
        self.pending = {}  # Submission: None, in the order of submission
        self.is_over = False  # no further call
        # A handle that one thread destroys another one must not abort.
        self._ending = ProcessLock()
        self._alone = ProcessLock()
        # An entry for each that is open; one is added and taken away at a stroke.
        self._calls = []

    def __enter__(self):
        # In this order, and end() in the other one: either of them sees what the other has done.
        self._calls.append(None)
        if self.is_over:
            self.__exit__()
            raise InvalidUsage("the communicator is closed")

    def __exit__(self, *error):
        self._calls.pop()
        if self.is_over:
            self._free_if_left()

    def one_at_a_time(self):
        """What to hold where the library takes one thread at a time: others wait. Ask for it in the
        thread that wants the call, which another one may make."""
        lock = self._alone.here()
        # The handler of a signal may have interrupted this thread in such a call, which is its own.
        return contextlib.nullcontext() if lock._is_owned() else lock

    def abort(self):
        """Ends what is under way; a result code. Any thread, any time."""
        with self._ending.here():
            return lib.gwCommAbort(self.handle) if self.handle else c.gwResult_t.gwSuccess

    def end(self):
        """Frees everything, or ends the calls and lets the last one do so; the result where that was
        refused."""
        self.is_over = True
        if self._calls:
            self.abort()
        return self._free_if_left()

    def _free_if_left(self):
        return c.gwResult_t.gwSuccess if self._calls else self._free()

    def _free(self):
        with self._ending.here():
            try:
                code = _destroy(self.handle) if self.handle else c.gwResult_t.gwSuccess
            finally:
                self._free_pending()
            self.is_over = code == c.gwResult_t.gwSuccess
            return code

    def _free_pending(self):
        """Those that are complete; after the end of the communicator all are."""
        for submission in list(self.pending):
            if submission.free():
                self.pending.pop(submission, None)

    def finish(self):
        """Of a communicator that nobody closed: bounded, and the other ranks are told."""
        self.is_over = True
        # What is complete is left here where nobody waited for it; a call that is still under way in
        # another thread may be waiting for one of them.
        if not self._calls:
            self._free_pending()
        if self.pending:
            self.abort()
        self._free()
