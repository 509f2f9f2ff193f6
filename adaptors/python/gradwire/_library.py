"""libgradwire.so.0: where it is, and how its calls become Python calls."""

import ctypes
import operator
import os
import queue
import threading
import weakref

from gradwire import _bindings as c
from gradwire.errors import InvalidArgument, error_of, in_python

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
    version = ctypes.c_int()
    # Before all are bound: another version may lack some.
    if hasattr(loaded, "gwGetVersion"):
        loaded.gwGetVersion(ctypes.byref(version))
    if version.value != c.GW_VERSION_CODE:
        raise ImportError(
            f"{path} has version code {version.value}, this package was made for "
            f"{c.GW_VERSION_CODE}: install both from one wheel, and unset GRADWIRE_LIBRARY"
        )
    c.bind(loaded)
    return loaded


lib = _load()


def error_text(code, comm=None):
    """The communicator's or the thread's last error, or what a result code means."""
    text = lib.gwGetLastError(comm) or lib.gwGetErrorString(code)
    return in_python(text.decode(errors="replace"))


def check(code, comm=None):
    """Raises what a result code stands for, with the communicator's or the thread's last error."""
    if code != c.gwResult_t.gwSuccess:
        raise error_of(code, error_text(code, comm))


def fitting(value, name, kind=ctypes.c_int):
    """An integer for a parameter of the library's, of which ctypes would take the low bits and say
    nothing."""
    number = operator.index(value)
    if kind(number).value != number:
        bits = 8 * ctypes.sizeof(kind)
        signed = kind(-1).value < 0
        limits = f"[-2^{bits - 1}, 2^{bits - 1})" if signed else f"[0, 2^{bits})"
        raise InvalidArgument(f"{name} {number} is not in {limits}")
    return number


def as_text(value, what):
    """Bytes of a text, for the library; what: which text is taken, for who passed something else."""
    if not isinstance(value, str):
        raise TypeError(f"{what}, not {value!r}")
    return value.encode()


def as_spec(value):
    """The same of a spec."""
    return as_text(value, 'spec= takes a text, as "qsgd(bits=4)" or "none"')


class ProcessLock:
    """A lock that a child of fork, which lacks the thread that may hold it, does not wait for."""

    def __init__(self):
        # Of a kind that the handler of a signal, which comes while it is held, may take again.
        self._lock, self._process = threading.RLock(), os.getpid()

    def here(self):
        """What to hold in this process."""
        return self._lock if self._process == os.getpid() else threading.RLock()


class _Call:
    """A function for another thread to run; what it returns or raises is for take()."""

    def __init__(self, function, args, owner):
        """owner: None, or what takes one call at a time."""
        self._function, self._args = function, args
        self.owner = owner
        self.is_left = False  # by who made it
        self.ended = False
        self._value = self._error = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self):
        """Once; more often has no effect."""
        if self.ended:
            return
        try:
            self._value = self._function(*self._args)
        except BaseException as error:  # pylint: disable=broad-except
            self._error = error
        # What they hold, such as buffers, is the caller's again.
        self._function = self._args = None
        self.ended = True
        self._running.release()

    def join(self):
        """Until it has ended. Signal handlers run meanwhile, and what they raise ends the wait."""
        # A handler may raise after the lock is taken, so the lock alone does not tell.
        while not self.ended:
            self._running.acquire(timeout=SLICE_S)

    def take(self):
        """The outcome of a call that has ended."""
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            # Its frames lead to this one.
            del error


class _Worker(threading.Thread):
    """Runs calls one after the other."""

    def __init__(self):
        super().__init__(name="gradwire-calls", daemon=True)
        self._calls = queue.SimpleQueue()
        self._last = lambda: None  # a weak reference to the call that it was given last
        self.start()

    def give(self, call):
        self._last = weakref.ref(call)
        self._calls.put(call)

    def run(self):
        while True:
            call = self._calls.get()
            call.run()
            # Its outcome must not stay until the next one comes.
            del call

    @property
    def is_idle(self):
        last = self._last()
        return last is None or last.ended

    def has_call_of(self, owner):
        """One that somebody waits for."""
        last = self._last()
        return last is not None and last.owner is owner and not last.ended and not last.is_left


_workers = []
# A fork's child has no such threads.
os.register_at_fork(after_in_child=_workers.clear)


def _worker_for(owner):
    """A call of a signal's handler, which comes amid another, waits for that of its owner only."""
    for worker in _workers:
        if owner is not None and worker.has_call_of(owner):
            return worker
    for worker in _workers:
        if worker.is_idle:
            return worker
    worker = _Worker()
    _workers.append(worker)
    return worker


def interruptible(function, *args, on_interrupt, owner=None):
    """function(*args), which may wait for other ranks, while signal handlers run.

    Python runs them in the main thread only and only between its own instructions, so another
    thread makes the call. What a handler raises leaves at once, after on_interrupt(call), which
    must see to it that the call comes to an end.

    owner: the communicator, which takes one call at a time.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    worker, call = _worker_for(owner), _Call(function, args, owner)
    try:
        worker.give(call)
        call.join()
    except BaseException:
        # The worker stays with this call until it returns; the next call gets another worker.
        call.is_left = True
        # A handler may raise before the first put as well as behind it.
        worker.give(call)
        on_interrupt(call)
        raise
    return call.take()
