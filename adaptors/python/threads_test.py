"""Calls of several threads, and of a signal's handler amid a call of its thread."""

import threading
import unittest
from functools import partial
from unittest import mock

from adaptors.python.one_rank import LONG_S, WatchedLock, floats, new_comm
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order


class ThreadsTest(unittest.TestCase):
    def test_one_thread_waits_for_another_one_s_call(self):
        comm, library = new_comm(), gradwire.comm.lib
        barrier, stats = library.gwBarrier, library.gwCommGetStats
        inside, is_under_way, overtaken = threading.Event(), [], []
        comm._life._alone = lock = WatchedLock(comm._life._alone)

        def slow_barrier(*args):
            is_under_way.append(True)
            lock.wanted.clear()
            inside.set()
            self.assertTrue(lock.wanted.wait(LONG_S))
            is_under_way.clear()
            return barrier(*args)

        def watched_stats(*args):
            overtaken.extend(is_under_way)
            return stats(*args)

        with mock.patch.object(library, "gwBarrier", slow_barrier), \
                mock.patch.object(library, "gwCommGetStats", watched_stats):
            other = threading.Thread(target=comm.barrier)
            other.start()
            self.assertTrue(inside.wait(LONG_S))
            comm.stats()
            other.join()
        self.assertEqual(overtaken, [])
        comm.close()

    def test_texts_that_grow_are_asked_for_again(self):
        """As while another thread trains: up to a bound."""
        comm, library = new_comm(), gradwire.comm.lib
        ledger, sizes = library.gwCommGetLedger, []

        def growing(grows, handle, buffer, size):
            """The library's, which asks for 10,000 bytes more as long as it grows."""
            room = size._obj.value
            code = ledger(handle, buffer, size)
            if buffer is None:
                return code
            sizes.append(room)
            if len(sizes) > grows:
                return code
            size._obj.value = room + 10_000
            return gradwire._bindings.gwResult_t.gwInvalidArgument

        for grows, tries in ((0, 1), (3, 4)):
            with mock.patch.object(library, "gwCommGetLedger", partial(growing, grows)):
                self.assertEqual(comm.ledger()["tensors"], [])
            self.assertEqual(len(sizes), tries)
            self.assertTrue(all(later >= room + 10_000 for room, later in zip(sizes, sizes[1:])))
            sizes.clear()
        with mock.patch.object(library, "gwCommGetLedger", partial(growing, 1_000)):
            self.assertRaises(gradwire.InvalidArgument, comm.ledger)
        self.assertLess(len(sizes), 100)
        comm.close()

    def test_several_threads_wait_for_one_request(self):
        """The first to be there frees it while the other one waits for its turn."""
        comm, library = new_comm(), gradwire.comm.lib
        wait, tensor = library.gwRequestWait, comm.tensor("w", [1])
        comm._life._alone = lock = WatchedLock(comm._life._alone)
        for method in ("wait", "test"):
            with self.subTest(method):
                request, inside = tensor.all_reduce(floats(1)), threading.Event()

                def slow_wait(*args, inside=inside):
                    lock.wanted.clear()
                    inside.set()
                    self.assertTrue(lock.wanted.wait(LONG_S))
                    return wait(*args)

                with mock.patch.object(library, "gwRequestWait", slow_wait):
                    other = threading.Thread(target=request.wait)
                    other.start()
                    self.assertTrue(inside.wait(LONG_S))
                    getattr(request, method)()
                    other.join()
                self.assertTrue(request.test())
        comm.close()

    def test_what_was_dropped_is_freed_alone(self):
        """Of a step's end too, for another thread may submit."""
        comm, library = new_comm(), gradwire.comm.lib
        free, tensor, alone = library.gwRequestFree, comm.tensor("w", [1]), []

        def watched_free(handle):
            alone.append(comm._life._alone.here()._is_owned())
            return free(handle)

        with mock.patch.object(library, "gwRequestFree", watched_free):
            for step, end in enumerate((comm.end_step, comm.abort_step)):
                comm.begin_step(step)
                tensor.all_reduce(floats(1))
                end()
        self.assertEqual(alone, [True, True])
        comm.close()

    def test_a_handler_calls_amid_a_call_of_its_thread(self):
        """Also what another thread calls for it."""
        comm, library, numbers = new_comm(), gradwire.comm.lib, floats(1)
        submit = library.gwAllReduceTensors

        def interrupted_submit(*args):
            self.assertEqual(comm.ledger()["tensors"][0]["name"], "w")
            comm.save_state()
            return submit(*args)

        tensor = comm.tensor("w", [1])
        with mock.patch.object(library, "gwAllReduceTensors", interrupted_submit):
            tensor.all_reduce(numbers).wait()
        self.assertEqual(numbers[0], 1)
        comm.close()


if __name__ == "__main__":
    unittest_main.main()
