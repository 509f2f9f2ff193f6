"""libgradwire.so.0: where it is, and how its calls become Python calls."""

import ctypes
import os
import threading

from gradwire import _bindings as c
from gradwire.errors import error_of

_NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native")

# How long a wait may keep Python's signal handlers from running.
SLICE_S = 0.1


def _load():
    # Another build of the library, for those who work on it.
    path = os.environ.get("GRADWIRE_LIBRARY") or os.path.join(_NATIVE, "libgradwire.so.0")
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"gradwire's library cannot be loaded: {error}") from error
    c.bind(loaded)
    version = ctypes.c_int()
    loaded.gwGetVersion(ctypes.byref(version))
    if version.value != c.GW_VERSION_CODE:
        raise ImportError(
            f"{path} has version code {version.value}, this package was made for "
            f"{c.GW_VERSION_CODE}: install both from one wheel, and unset GRADWIRE_LIBRARY"
        )
    return loaded


lib = _load()


def check(code, comm=None):
    """Raises what a result code stands for, with the communicator's or the thread's last error."""
    if code != c.gwResult_t.gwSuccess:
        text = lib.gwGetLastError(comm) or lib.gwGetErrorString(code)
        raise error_of(code, text.decode(errors="replace"))


class _Call(threading.Thread):
    """Runs a function; what it returns or raises is for take()."""

    def __init__(self, function, args):
        super().__init__(name="gradwire-call", daemon=True)
        self._function, self._args = function, args
        self._value = self._error = None

    def run(self):
        try:
            self._value = self._function(*self._args)
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error

    def take(self):
        """The outcome of a call that has ended."""
        if self._error is not None:
            raise self._error
        return self._value


def interruptible(function, *args, on_interrupt):
    """function(*args), which may wait for other ranks, while signal handlers run.

    Python runs them in the main thread only and only between its own instructions, so that
    thread waits here in slices for another one. What a handler raises leaves at once, after
    on_interrupt(call), which must see to it that the call, a thread, comes to an end.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    call = _Call(function, args)
    call.start()
    try:
        while call.is_alive():
            call.join(SLICE_S)
    except BaseException:
        on_interrupt(call)
        raise
    return call.take()
