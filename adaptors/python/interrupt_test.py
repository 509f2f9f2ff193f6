"""What handlers of signals raise, at the places where it could lose a call or a communicator."""

import array
import functools
import gc
import queue
import signal
import threading
import unittest
import weakref
from unittest import mock

from adaptors.python import installed  # pylint: disable=unused-import
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order
from gradwire import _library  # pylint: disable=wrong-import-order
from gradwire._bindings import gwResult_t  # pylint: disable=wrong-import-order


_LONG_S = 20  # what has not come by then never will


def _comm():
    return gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, {"debug": "error"})


class _InterruptedQueue:
    """A handler raises at the first put: `before` the queue has it, or behind it."""

    def __init__(self, before):
        self._queue, self._before, self._is_first = queue.SimpleQueue(), before, True
        self.get = self._queue.get

    def put(self, item):
        is_first, self._is_first = self._is_first, False
        if not (is_first and self._before):
            self._queue.put(item)
        if is_first:
            raise KeyboardInterrupt


class _Spy:
    """Stands for a function of the library's while a test runs; keeps what it returned."""

    def __init__(self, test, name, wrapper=None):
        self._original = getattr(_library.lib, name)
        self._wrapper = wrapper or (lambda original, *args: original(*args))
        self.results = []
        self.called = threading.Event()
        patch = mock.patch.object(_library.lib, name, self)
        patch.start()
        test.addCleanup(patch.stop)

    def __call__(self, *args):
        self.called.set()
        result = self._wrapper(self._original, *args)
        self.results.append(result)
        return result


class InterruptTest(unittest.TestCase):
    def test_no_call_is_lost_that_is_being_handed_over(self):
        for before in (True, False):
            with self.subTest(before=before):
                comm, destroyed = _comm(), _Spy(self, "gwCommDestroy")
                _library._workers.clear()
                calls = _InterruptedQueue(before)
                with mock.patch.object(queue, "SimpleQueue", return_value=calls):
                    with self.assertRaises(KeyboardInterrupt):
                        comm.barrier()
                with self.assertRaises(gradwire.Aborted):
                    comm.raise_async_error()
                comm.discard()
                self.assertEqual(destroyed.results, [gwResult_t.gwSuccess])

    def test_the_next_call_has_a_worker(self):
        with _comm() as comm:
            with self.assertRaises(KeyboardInterrupt):
                _library.interruptible(signal.raise_signal, signal.SIGINT,
                                       on_interrupt=lambda call: call.join())
            comm.barrier()

    def test_a_handlers_call_waits_for_none_of_another_communicator(self):
        """For one of its own it does, which takes one call at a time. Threads do not pile up."""
        def handle(number, frame):
            coming.set()
            theirs.barrier()
            called.set()

        def wait(original, handle, stream):
            if handle.value == ours._handle.value and not coming.is_set():
                signal.raise_signal(signal.SIGUSR1)
                self.assertTrue(awaited.wait(_LONG_S))
            return original(handle, stream)

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, handle))
        _library._workers.clear()
        spy = _Spy(self, "gwBarrier", wait)
        coming, called = threading.Event(), threading.Event()
        with _comm() as ours, _comm() as other:
            for theirs, awaited in ((other, called), (ours, coming)) * 3:
                coming.clear()
                called.clear()
                ours.barrier()
                self.assertTrue(called.is_set())
        self.assertEqual(spy.results, [gwResult_t.gwSuccess] * 12)
        self.assertEqual(len(_library._workers), 2)

    def test_a_call_that_is_left_keeps_its_arrays(self):
        left, returned = threading.Event(), threading.Event()

        def interrupted_reduce(original, *args):
            signal.raise_signal(signal.SIGINT)
            self.assertTrue(left.wait(_LONG_S))
            try:
                return original(*args)
            finally:
                returned.set()

        comm, send, recv = _comm(), array.array("f", [1]), array.array("f", [0])
        watched = [weakref.ref(send), weakref.ref(recv)]
        spy = _Spy(self, "gwAllReduce", interrupted_reduce)
        # A second one comes before the abort.
        with mock.patch.object(comm, "abort", side_effect=KeyError), self.assertRaises(KeyError):
            comm.all_reduce(send, recv)
        del send, recv
        self.assertNotIn(None, [reference() for reference in watched])
        left.set()
        self.assertTrue(returned.wait(_LONG_S))
        comm.discard()
        self.assertEqual(spy.results, [gwResult_t.gwSuccess])

    def test_what_waits_for_no_other_rank_ends_nothing(self):
        left, give = threading.Event(), _library._Worker.give

        def watched_give(worker, call):
            give(worker, call)
            if call.is_left:
                left.set()

        def interrupt(original, *args):
            signal.raise_signal(signal.SIGINT)
            self.assertTrue(left.wait(_LONG_S))
            return original(*args)

        with _comm() as comm, mock.patch.object(_library._Worker, "give", watched_give):
            comm.tensor("w", [300], spec="topk(0.01,min_numel=0)")
            state = comm.save_state()
            for name, call in (("gwStateSave", comm.save_state),
                               ("gwStateLoad", lambda: comm.load_state(state))):
                left.clear()
                wrapper = functools.partial(interrupt, getattr(_library.lib, name))
                with mock.patch.object(_library.lib, name, wrapper):
                    with self.assertRaises(KeyboardInterrupt):
                        call()
                comm.raise_async_error()
                call()
            self.assertEqual(comm.save_state(), state)

    def test_a_split_that_succeeds_after_all_leaves_nothing(self):
        comm = _comm()
        aborted = _Spy(self, "gwCommAbort")
        made = []

        def interrupted_split(original, handle, color, key, place, config):
            code = original(handle, color, key, place, config)
            signal.raise_signal(signal.SIGINT)
            self.assertTrue(aborted.called.wait(_LONG_S))
            made.append(place._obj.value)
            return code

        destroyed = threading.Event()

        def watched_destroy(original, handle):
            is_made = [handle.value] == made
            code = original(handle)
            if is_made:
                destroyed.set()
            return code

        _Spy(self, "gwCommDestroy", watched_destroy)
        split = _Spy(self, "gwCommSplit", interrupted_split)
        with self.assertRaises(KeyboardInterrupt):
            comm.split(0)
        self.assertEqual(split.results, [gwResult_t.gwSuccess])
        self.assertTrue(destroyed.wait(_LONG_S))
        comm.discard()

    def test_a_destroy_that_is_refused_is_repeated(self):
        """As while a worker is still in a call that was left."""
        refusals = [gwResult_t.gwInvalidUsage] * 3

        def refuse(original, handle):
            return refusals.pop() if refusals else original(handle)

        comm = _comm()
        destroyed = _Spy(self, "gwCommDestroy", refuse)
        aborted = _Spy(self, "gwCommAbort")
        comm.close()
        self.assertTrue(comm.closed)
        self.assertEqual(destroyed.results, [gwResult_t.gwInvalidUsage] * 3 + [gwResult_t.gwSuccess])
        self.assertTrue(aborted.called.is_set())

    def test_what_cannot_be_destroyed_says_so_and_is_kept(self):
        comm = _comm()
        with mock.patch.object(_library.lib, "gwCommDestroy",
                               return_value=gwResult_t.gwInvalidUsage), \
                mock.patch.object(gradwire.lifetime, "_RETURN_S", 0.0):
            with self.assertRaises(gradwire.InvalidUsage):
                comm.discard()
        self.assertFalse(comm.closed)
        comm.discard()
        self.assertTrue(comm.closed)

    def test_what_was_destroyed_is_used_no_more(self):
        def destroy(original, handle):
            code = original(handle)
            destroyed.results.append(code)
            raise KeyboardInterrupt

        comm = _comm()
        destroyed = _Spy(self, "gwCommDestroy", destroy)
        with self.assertRaises(KeyboardInterrupt):
            comm.discard()
        self.assertTrue(comm.closed)
        with self.assertRaises(gradwire.InvalidUsage):
            comm.stats()
        del comm
        gc.collect()
        self.assertEqual(destroyed.results, [gwResult_t.gwSuccess])


if __name__ == "__main__":
    unittest_main.main()
