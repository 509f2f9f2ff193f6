"""How communicators end, and what they leave."""

import contextlib
import gc
import threading
import unittest
import weakref
from unittest import mock

from adaptors.python.one_rank import LONG_S, WatchedLock, floats, new_comm
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order


class LifetimeTest(unittest.TestCase):
    def test_a_closed_communicator_refuses(self):
        comm = new_comm()
        comm.close()
        comm.close()
        self.assertTrue(comm.closed)
        for call in (lambda: comm.rank, comm.barrier, comm.stats, comm.raise_async_error):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "the communicator is closed"):
                call()

    def test_an_exception_in_a_with_block_aborts(self):
        with self.assertRaisesRegex(KeyError, "mine"):
            with new_comm(debug="error") as comm:
                raise KeyError("mine")
        self.assertTrue(comm.closed)

    def _submitted(self, comm):
        """A request of one rank, which nobody waited for."""
        return comm.tensor("w", [1]).all_reduce(floats(1))

    def test_what_close_completes_may_be_waited_for_afterwards(self):
        comm = new_comm()
        waited = self._submitted(comm)
        waited.wait()
        left = comm.tensor("v", [1]).all_reduce(floats(1))
        comm.close()
        for request in (waited, left):
            request.wait()
            self.assertTrue(request.test())

    def test_waiting_for_what_discard_freed_is_refused(self):
        comm = new_comm(debug="error")
        request = self._submitted(comm)
        comm.discard()
        for call in (request.wait, request.test):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "closed before"):
                call()

    def test_each_wait_tells_how_a_request_ended(self):
        comm, library = new_comm(), gradwire.comm.lib
        request, wait = self._submitted(comm), library.gwRequestWait

        def ending_badly(*args):
            wait(*args)
            return gradwire.Aborted.CODE

        with mock.patch.object(library, "gwRequestWait", ending_badly), \
                self.assertRaises(gradwire.Aborted):
            request.wait()
        for call in (request.wait, request.test):
            with self.assertRaises(gradwire.Aborted):
                call()
        comm.close()

    def test_tensors_go_with_their_communicator(self):
        """The library has freed them."""
        comm, numbers = new_comm(), floats(1)
        tensor = comm.tensor("w", [1])
        group = gradwire.Group([tensor], [numbers])
        comm.close()
        for call in (lambda: tensor.all_reduce(numbers), lambda: comm.submit(group),
                     lambda: tensor.reduce_scatter(numbers, numbers), tensor.deregister,
                     lambda: tensor.set_spec("bf16"), tensor.discard_step):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "the communicator is closed"):
                call()

    def test_a_dropped_communicator_frees_what_is_pending(self):
        class Owner:
            pass

        comm, owner, numbers = new_comm(debug="error"), Owner(), floats(1)
        group = gradwire.Group([comm.tensor("w", [1])], [numbers])
        request = comm.submit(group, keep=owner)
        dropped, freed = weakref.ref(comm), weakref.ref(owner)
        del owner, group
        self.assertIsNotNone(freed())
        del comm, request
        gc.collect()
        self.assertIsNone(dropped())
        self.assertIsNone(freed())

    def test_discard_waits_for_nobody_and_may_be_repeated(self):
        comm = new_comm(debug="error")
        request = self._submitted(comm)
        comm.discard()
        comm.discard()
        self.assertTrue(comm.closed)
        with self.assertRaises(gradwire.InvalidUsage):
            request.wait()

    def _expect_end_behind_call(self, discard):
        """discard(comm) while the library is about to get what it would free."""
        comm, library, destroyed = new_comm(debug="error"), gradwire.comm.lib, []
        submit, destroy = library.gwAllReduceTensors, library.gwCommDestroy

        def interrupted_submit(*args):
            discard(comm)
            self.assertEqual(destroyed, [])  # else it would be used now
            return submit(*args)

        def watched_destroy(handle):
            destroyed.append(handle)
            return destroy(handle)

        group = gradwire.Group([comm.tensor("w", [1])], [floats(1)])
        with mock.patch.object(library, "gwAllReduceTensors", interrupted_submit), \
                mock.patch.object(library, "gwCommDestroy", watched_destroy):
            with self.assertRaises(gradwire.Aborted):
                comm.submit(group)
            self.assertEqual(len(destroyed), 1)
        self.assertTrue(comm.closed)

    def test_what_a_call_uses_goes_behind_it(self):
        """Discarded by a signal's handler, in the interrupted frame, or by another thread."""
        def discard_in_thread(comm):
            other = threading.Thread(target=comm.discard)
            other.start()
            other.join()
            self.assertTrue(comm.closed)

        self._expect_end_behind_call(gradwire.Comm.discard)
        self._expect_end_behind_call(discard_in_thread)

    def test_what_a_wait_uses_goes_behind_it(self):
        comm, library = new_comm(debug="error"), gradwire.comm.lib
        wait, free = library.gwRequestWait, library.gwRequestFree
        freed = []

        def interrupted_wait(*args):
            comm.discard()
            self.assertEqual(freed, [])
            return wait(*args)

        def watched_free(handle):
            freed.append(handle)
            return free(handle)

        request = self._submitted(comm)
        with mock.patch.object(library, "gwRequestWait", interrupted_wait), \
                mock.patch.object(library, "gwRequestFree", watched_free), \
                contextlib.suppress(gradwire.Aborted):  # it may have been complete
            request.wait()
        self.assertEqual(len(freed), 1)
        self.assertTrue(comm.closed)

    def test_abort_ends_what_is_under_way(self):
        comm = new_comm(debug="error")
        comm.raise_async_error()
        comm.abort()
        for call in (comm.raise_async_error, comm.barrier, comm.close):
            with self.assertRaises(gradwire.Aborted):
                call()
        self.assertTrue(comm.closed)

    def test_what_one_thread_aborts_another_one_does_not_destroy_meanwhile(self):
        comm, library = new_comm(debug="error"), gradwire.comm.lib
        abort, destroy = library.gwCommAbort, library.gwCommDestroy
        aborting, destroyed, overtaken = threading.Event(), threading.Event(), []
        comm._life._ending = ending = WatchedLock(comm._life._ending)

        def slow_abort(handle):
            ending.wanted.clear()
            aborting.set()
            self.assertTrue(ending.wanted.wait(LONG_S))
            overtaken.append(destroyed.is_set())
            return abort(handle)

        def watched_destroy(handle):
            destroyed.set()
            return destroy(handle)

        with mock.patch.object(library, "gwCommAbort", slow_abort), \
                mock.patch.object(library, "gwCommDestroy", watched_destroy):
            other = threading.Thread(target=comm.abort)
            other.start()
            self.assertTrue(aborting.wait(LONG_S))
            comm.close()
            other.join()
        self.assertEqual(overtaken, [False])
        self.assertTrue(destroyed.is_set())


if __name__ == "__main__":
    unittest_main.main()
