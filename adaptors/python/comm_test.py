"""The package with a world of one rank."""

import array
import contextlib
import gc
import pickle
import threading
import unittest
import weakref
from unittest import mock

from adaptors.python import installed  # pylint: disable=unused-import
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order
from gradwire._bindings import gwResult_t  # pylint: disable=wrong-import-order
from gradwire.errors import error_of  # pylint: disable=wrong-import-order


_LONG_S = 20  # what has not come by then never will


def _comm(**settings):
    return gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings or None)


def _floats(*values):
    return array.array("f", values)


class _WatchedLock:
    """Tells when a thread wants it, which may then have to wait."""

    def __init__(self, lock):
        self._lock = lock
        self.wanted = threading.Event()

    def here(self):
        self.wanted.set()
        return self._lock.here()


class ErrorsTest(unittest.TestCase):
    def test_every_code_but_success_has_an_exception_with_its_result(self):
        for result in gwResult_t:
            error = error_of(result, "text")
            self.assertIsInstance(error, gradwire.GradwireError)
            self.assertEqual((error.result, str(error)), (result, "text"))

    def test_processes_can_hand_them_on(self):
        for result in gwResult_t:
            error = error_of(result, "text")
            copied = pickle.loads(pickle.dumps(error))
            self.assertIs(type(copied), type(error))
            self.assertEqual((copied.result, str(copied)), (result, "text"))

    def test_a_family_knows_its_code(self):
        for family in gradwire.GradwireError.__subclasses__():
            self.assertEqual(family("text").result, family.CODE)
            self.assertIs(type(error_of(family.CODE, "text")), family)

    def test_families(self):
        self.assertTrue(issubclass(gradwire.InvalidArgument, ValueError))
        self.assertTrue(issubclass(gradwire.TimedOut, TimeoutError))
        self.assertIs(type(error_of(gwResult_t.gwRemoteError, "")), gradwire.PeerLost)
        self.assertIs(type(error_of(gwResult_t.gwInternalError, "")), gradwire.GradwireError)

    def test_the_text_is_the_librarys(self):
        with _comm() as comm:
            with self.assertRaisesRegex(gradwire.InvalidArgument, '"topk"') as raised:
                comm.tensor("w", [4], spec="topc(0.1)")
            self.assertEqual(raised.exception.result, gwResult_t.gwInvalidArgument)

    def test_a_failed_start_has_its_text_from_the_thread_that_tried(self):
        with self.assertRaisesRegex(gradwire.InvalidArgument, "no_such_setting"):
            _comm(no_such_setting=1)
        with self.assertRaisesRegex(gradwire.InvalidArgument, "unique id"):
            gradwire.Comm.from_unique_id(b"short", 0, 1)

    def test_what_are_no_settings_is_told(self):
        for settings in (5, ["window=8"], True):
            with self.assertRaisesRegex(TypeError, "settings take a dict or text"):
                gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings)


class CollectivesTest(unittest.TestCase):
    def setUp(self):
        self.comm = _comm()
        self.addCleanup(self.comm.close)

    def test_all_of_them(self):
        send = array.array("d", [1.5, -2.0])
        for name in ("all_reduce", "reduce", "all_gather", "reduce_scatter", "all_to_all"):
            with self.subTest(name):
                recv = array.array("d", [0, 0])
                getattr(self.comm, name)(send, recv)
                self.assertEqual(recv, send)
        self.comm.broadcast(send)
        self.comm.barrier()
        self.assertEqual((self.comm.rank, self.comm.world_size), (0, 1))

    def test_sizes_and_types_must_fit(self):
        with self.assertRaises(ValueError):
            self.comm.all_reduce(_floats(1, 2), _floats(0))
        with self.assertRaises(ValueError):
            self.comm.all_reduce(_floats(1, 2), array.array("i", [0, 0]))
        with self.assertRaisesRegex(gradwire.InvalidArgument, "'mean' is no operation"):
            self.comm.all_reduce(_floats(1), op="mean")

    def test_only_reductions_are_in_place_without_a_second_array(self):
        """The others' results are longer or shorter, or overwrite what is still to be sent."""
        numbers = _floats(1, 2)
        for name in ("all_gather", "reduce_scatter", "all_to_all"):
            for arrays in ((numbers, None), (None, numbers)):
                with self.subTest(name), self.assertRaisesRegex(TypeError, "NoneType"):
                    getattr(self.comm, name)(*arrays)
        for name in ("all_reduce", "reduce"):
            getattr(self.comm, name)(numbers)
            self.assertEqual(numbers, _floats(1, 2))

    def test_numbers_must_fit(self):
        """The low 32 bits of each are right."""
        numbers, many = _floats(1), 1 << 32
        for call in (lambda: self.comm.broadcast(numbers, root=many),
                     lambda: self.comm.reduce(numbers, root=many),
                     lambda: self.comm.split(many), lambda: self.comm.split(0, key=-many),
                     lambda: self.comm.exchange([(numbers, many)], [(_floats(0), many)]),
                     lambda: gradwire.Comm.from_unique_id(gradwire.unique_id(), many, 1)):
            with self.assertRaisesRegex(gradwire.InvalidArgument, r"-?4294967296 is not in"):
                call()

    def test_long_numbers_must_fit(self):
        """The low 64 bits of each are right."""
        numbers, many = _floats(1), 1 << 64
        address, count = numbers.buffer_info()
        long, far = (gradwire.Pointer(address, count + many, "float32"),
                     gradwire.Pointer(address + many, count, "float32"))
        for call in (lambda: self.comm.tensor("w", [3 + many]), lambda: self.comm.begin_step(many),
                     lambda: self.comm.broadcast(long), lambda: self.comm.broadcast(far)):
            with self.assertRaisesRegex(gradwire.InvalidArgument, r"\d{20} is not in .*2\^6[34]\)"):
                call()
        for number in (-1, (1 << 63) + 1):
            with self.assertRaises(gradwire.InvalidArgument):
                self.comm.tensor("w", [number])
        with self.assertRaisesRegex(gradwire.InvalidArgument, r"step -1 is not in \[0, 2\^64\)"):
            self.comm.begin_step(-1)

    def test_arrays_are_the_callers_again_when_it_returns(self):
        numbers = bytearray(8)
        for _ in range(100):
            self.comm.all_reduce(numbers)
            numbers.append(0)  # is refused while another has its buffer

    def test_errors_go_with_those_who_get_them(self):
        class Owner:
            pass

        def fail(owner):
            try:
                self.comm.broadcast(_floats(1), root=7)
            except gradwire.InvalidArgument:
                return weakref.ref(owner)

        gc.disable()
        self.addCleanup(gc.enable)
        self.assertIsNone(fail(Owner())())

    def test_a_failed_exchange_leaves_no_group_open(self):
        """In it all that follows would do nothing, and say so to nobody."""
        sent, received = _floats(1), _floats(0)
        counted_in_floats = gradwire.Pointer(sent.buffer_info()[0], 1.0, "float32")
        for wrong in ((sent, 0.0), (sent, "0"), (counted_in_floats, 0)):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.comm.exchange([(sent, 0), wrong], [(received, 0)])
        with mock.patch.object(gradwire.comm.lib, "gwRecv", side_effect=KeyError("mine")):
            with self.assertRaisesRegex(KeyError, "mine"):
                self.comm.exchange([], [(received, 0)])
        self.comm.all_reduce(sent, received)
        self.assertEqual(received, sent)

    def test_from_another_thread(self):
        results = []

        def work():
            numbers = _floats(3)
            self.comm.all_reduce(numbers)
            results.append(numbers[0])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(results, [3.0])


class TensorsTest(unittest.TestCase):
    def setUp(self):
        self.comm = _comm(compress="bf16")
        self.addCleanup(self.comm.close)

    def test_a_step(self):
        weights = self.comm.tensor("weights", [2, 2], spec="none")
        bias = self.comm.tensor("bias", [2])
        grads = [_floats(1, 2, 3, 4), _floats(5, 6)]
        means = [_floats(0, 0, 0, 0), _floats(0, 0)]
        self.comm.begin_step(3, loss_scale=8.0)
        request = self.comm.submit(gradwire.Group([weights, bias], grads, means), op="avg")
        request.wait(timeout=60)
        self.assertTrue(request.test())
        self.assertIs(self.comm.end_step(), gradwire.Outcome.COMMITTED)
        self.assertEqual(means, grads)
        stats, ledger = self.comm.stats(), self.comm.ledger()
        self.assertEqual((stats["commits"], stats["world_size"]), (1, 1))
        specs = {row["name"]: row["spec"] for row in ledger["tensors"]}
        self.assertEqual(specs["weights"], "none")
        self.assertTrue(specs["bias"].startswith("bf16"), specs)

    def test_in_place_and_alone(self):
        tensor = self.comm.tensor("w", [3])
        numbers = _floats(1, 2, 3)
        request = tensor.all_reduce(numbers, op="avg")
        request.wait()
        self.assertEqual(numbers, _floats(1, 2, 3))
        tensor.set_spec("none")
        tensor.deregister()
        with self.assertRaisesRegex(gradwire.InvalidUsage, "deregistered"):
            tensor.all_reduce(numbers)

    def test_scattered(self):
        tensor = self.comm.tensor("w", [3], spec="bf16")
        numbers, shard = _floats(1, 2, 3), _floats(0, 0, 0)
        tensor.reduce_scatter(numbers, shard).wait()
        self.assertEqual(shard, numbers)

    def test_buffers_that_do_not_fit_the_tensor_are_refused(self):
        tensor = self.comm.tensor("w", [3])
        good, short, doubles = _floats(1, 2, 3), _floats(0, 0), array.array("d", [1, 2, 3])
        for bad, words in ((short, "2 of gwFloat32"), (doubles, "3 of gwFloat64")):
            for submit in (tensor.all_reduce, tensor.reduce_scatter):
                for buffers in ((bad, good), (good, bad)):
                    with self.assertRaisesRegex(ValueError, f"'w' has 3 elements .*, not {words}"):
                        submit(*buffers)
            with self.assertRaisesRegex(ValueError, words):
                tensor.all_reduce(bad)

    def test_the_ledger_tells_what_may_keep_a_residual(self):
        specs = {"none": False, "bf16": False, "topk(0.1,min_numel=0)": True, "auto": True,
                 "qsgd(bits=4,feedback=off)": False, "powersgd(rank=1)": False}
        for number, spec in enumerate(specs):
            self.comm.tensor(str(number), [8, 8], spec=spec)
        rows = self.comm.ledger()["tensors"]
        kept = {row["name"]: row["feedback"] for row in rows}
        # Too small for low rank, so it travels exactly.
        self.assertEqual(list(map(kept.get, map(str, range(6)))), list(specs.values()))

    def test_state_goes_around(self):
        self.comm.tensor("w", [300], spec="topk(0.01,min_numel=0)")
        state = self.comm.save_state()
        self.assertIsInstance(state, bytearray)
        for same in (state, bytes(state), memoryview(state)):
            self.comm.load_state(same)
            self.assertEqual(self.comm.save_state(), state)
        with self.assertRaises(gradwire.DataCorrupt):
            self.comm.load_state(state[:-1] + bytes([state[-1] ^ 1]))

    def test_a_policy_can_skip_the_step(self):
        with _comm(nonfinite="skip") as comm:
            tensor = comm.tensor("w", [1])
            comm.begin_step(0)
            tensor.all_reduce(_floats(float("nan"))).wait()
            self.assertIs(comm.end_step(), gradwire.Outcome.SKIPPED)
            # What nobody waited for is freed at the end of the step, and the reason stays.
            comm.begin_step(1)
            tensor.all_reduce(_floats(float("nan")))
            self.assertIs(comm.end_step(), gradwire.Outcome.SKIPPED)
            self.assertRegex(comm.last_error(), "a NaN or an infinity")

    def test_a_step_can_be_given_up(self):
        with _comm() as comm:
            tensor = comm.tensor("w", [1])
            for _ in range(2):
                comm.begin_step(0)
                tensor.all_reduce(_floats(1))
                comm.abort_step("no memory")
            comm.begin_step(0)
            tensor.all_reduce(_floats(1)).wait()
            self.assertIs(comm.end_step(), gradwire.Outcome.COMMITTED)
            self.assertEqual(comm.stats()["aborts"], 2)
            with self.assertRaisesRegex(gradwire.InvalidUsage, "gwStepBegin"):
                comm.abort_step()

    def _submitted(self, tensor):
        """A weak reference to the array of a request that nobody waits for, and the request."""
        numbers = _floats(1, 2, 3)
        return weakref.ref(numbers), tensor.all_reduce(numbers)

    def test_arrays_of_dropped_requests_do_not_pile_up(self):
        tensor = self.comm.tensor("w", [3])
        for step in range(20):
            self.comm.begin_step(step)
            numbers, _ = self._submitted(tensor)
            del _
            self.comm.end_step()
            self.assertIsNone(numbers())

    def test_arrays_of_dropped_requests_go_outside_steps_too(self):
        tensors = [self.comm.tensor(name, [3]) for name in "uvw"]
        numbers, _ = self._submitted(tensors[0])
        del _
        _, request = self._submitted(tensors[1])
        request.wait()
        self._submitted(tensors[2])
        self.assertIsNone(numbers())

    def test_arrays_of_requests_that_may_be_waited_for_stay(self):
        tensor = self.comm.tensor("w", [3])
        self.comm.begin_step(0)
        numbers, request = self._submitted(tensor)
        self.comm.end_step()
        self._submitted(self.comm.tensor("v", [3]))
        self.assertIsNotNone(numbers())
        request.wait()
        self.assertIsNone(numbers())


class ThreadsTest(unittest.TestCase):
    def test_one_thread_waits_for_another_one_s_call(self):
        comm, library = _comm(), gradwire.comm.lib
        barrier, stats = library.gwBarrier, library.gwCommGetStats
        inside, is_under_way, overtaken = threading.Event(), [], []
        comm._life._turn = turn = _WatchedLock(comm._life._turn)

        def slow_barrier(*args):
            is_under_way.append(True)
            turn.wanted.clear()
            inside.set()
            self.assertTrue(turn.wanted.wait(_LONG_S))
            is_under_way.clear()
            return barrier(*args)

        def watched_stats(*args):
            overtaken.extend(is_under_way)
            return stats(*args)

        with mock.patch.object(library, "gwBarrier", slow_barrier), \
                mock.patch.object(library, "gwCommGetStats", watched_stats):
            other = threading.Thread(target=comm.barrier)
            other.start()
            self.assertTrue(inside.wait(_LONG_S))
            comm.stats()
            other.join()
        self.assertEqual(overtaken, [])
        comm.close()

    def test_several_threads_wait_for_one_request(self):
        """The first to be there frees it while the other one waits for its turn."""
        comm, library = _comm(), gradwire.comm.lib
        wait, tensor = library.gwRequestWait, comm.tensor("w", [1])
        comm._life._turn = turn = _WatchedLock(comm._life._turn)
        for method in ("wait", "test"):
            with self.subTest(method):
                request, inside = tensor.all_reduce(_floats(1)), threading.Event()

                def slow_wait(*args, inside=inside):
                    turn.wanted.clear()
                    inside.set()
                    self.assertTrue(turn.wanted.wait(_LONG_S))
                    return wait(*args)

                with mock.patch.object(library, "gwRequestWait", slow_wait):
                    other = threading.Thread(target=request.wait)
                    other.start()
                    self.assertTrue(inside.wait(_LONG_S))
                    getattr(request, method)()
                    other.join()
                self.assertTrue(request.test())
        comm.close()

    def test_what_was_dropped_is_freed_in_a_turn(self):
        """Of a step's end too, for another thread may submit."""
        comm, library = _comm(), gradwire.comm.lib
        free, tensor, in_turn = library.gwRequestFree, comm.tensor("w", [1]), []

        def watched_free(handle):
            in_turn.append(comm._life._turn.here()._is_owned())
            return free(handle)

        with mock.patch.object(library, "gwRequestFree", watched_free):
            for step, end in enumerate((comm.end_step, comm.abort_step)):
                comm.begin_step(step)
                tensor.all_reduce(_floats(1))
                end()
        self.assertEqual(in_turn, [True, True])
        comm.close()

    def test_a_handler_calls_amid_a_call_of_its_thread(self):
        """Also what another thread calls for it."""
        comm, library, numbers = _comm(), gradwire.comm.lib, _floats(1)
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


class LifeTest(unittest.TestCase):
    def test_a_closed_communicator_refuses(self):
        comm = _comm()
        comm.close()
        comm.close()
        self.assertTrue(comm.closed)
        for call in (lambda: comm.rank, comm.barrier, comm.stats, comm.raise_async_error):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "the communicator is closed"):
                call()

    def test_an_exception_in_a_with_block_aborts(self):
        with self.assertRaisesRegex(KeyError, "mine"):
            with _comm(debug="error") as comm:
                raise KeyError("mine")
        self.assertTrue(comm.closed)

    def _submitted(self, comm):
        """A request of one rank, which nobody waited for."""
        return comm.tensor("w", [1]).all_reduce(_floats(1))

    def test_waiting_after_the_end_is_refused(self):
        comm = _comm()
        waited = self._submitted(comm)
        waited.wait()
        request = comm.tensor("v", [1]).all_reduce(_floats(1))
        comm.close()
        waited.wait()
        self.assertTrue(waited.test())
        for call in (request.wait, request.test):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "closed before"):
                call()

    def test_tensors_go_with_their_communicator(self):
        """The library has freed them."""
        comm, numbers = _comm(), _floats(1)
        tensor = comm.tensor("w", [1])
        group = gradwire.Group([tensor], [numbers])
        comm.close()
        for call in (lambda: tensor.all_reduce(numbers), lambda: comm.submit(group),
                     lambda: tensor.reduce_scatter(numbers, numbers), tensor.deregister,
                     lambda: tensor.set_spec("bf16"), tensor.discard_step):
            with self.assertRaisesRegex(gradwire.InvalidUsage, "the communicator is closed"):
                call()

    def test_tensors_of_another_communicator_are_refused(self):
        numbers = [_floats(1), _floats(2)]
        with _comm() as one, _comm() as other:
            tensors = [comm.tensor("w", [1]) for comm in (one, other)]
            with self.assertRaisesRegex(ValueError, "of one communicator"):
                gradwire.Group(tensors, numbers)
            with self.assertRaisesRegex(ValueError, "belong to another"):
                one.submit(gradwire.Group(tensors[1:], numbers[1:]))
            with self.assertRaisesRegex(ValueError, "belong to another"):
                one.scatter(tensors[1], *numbers)

    def test_a_dropped_communicator_frees_what_is_pending(self):
        class Owner:
            pass

        comm, owner, numbers = _comm(debug="error"), Owner(), _floats(1)
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
        comm = _comm(debug="error")
        request = self._submitted(comm)
        comm.discard()
        comm.discard()
        self.assertTrue(comm.closed)
        with self.assertRaises(gradwire.InvalidUsage):
            request.wait()

    def _expect_end_behind_call(self, discard):
        """discard(comm) while the library is about to get what it would free."""
        comm, library, destroyed = _comm(debug="error"), gradwire.comm.lib, []
        submit, destroy = library.gwAllReduceTensors, library.gwCommDestroy

        def interrupted_submit(*args):
            discard(comm)
            self.assertEqual(destroyed, [])  # else it would be used now
            return submit(*args)

        def watched_destroy(handle):
            destroyed.append(handle)
            return destroy(handle)

        group = gradwire.Group([comm.tensor("w", [1])], [_floats(1)])
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
        comm, library = _comm(debug="error"), gradwire.comm.lib
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
        comm = _comm(debug="error")
        comm.raise_async_error()
        comm.abort()
        for call in (comm.raise_async_error, comm.barrier, comm.close):
            with self.assertRaises(gradwire.Aborted):
                call()
        self.assertTrue(comm.closed)

    def test_what_one_thread_aborts_another_one_does_not_destroy_meanwhile(self):
        comm, library = _comm(debug="error"), gradwire.comm.lib
        abort, destroy = library.gwCommAbort, library.gwCommDestroy
        aborting, destroyed, overtaken = threading.Event(), threading.Event(), []
        comm._life._ending = ending = _WatchedLock(comm._life._ending)

        def slow_abort(handle):
            ending.wanted.clear()
            aborting.set()
            self.assertTrue(ending.wanted.wait(_LONG_S))
            overtaken.append(destroyed.is_set())
            return abort(handle)

        def watched_destroy(handle):
            destroyed.set()
            return destroy(handle)

        with mock.patch.object(library, "gwCommAbort", slow_abort), \
                mock.patch.object(library, "gwCommDestroy", watched_destroy):
            other = threading.Thread(target=comm.abort)
            other.start()
            self.assertTrue(aborting.wait(_LONG_S))
            comm.close()
            other.join()
        self.assertEqual(overtaken, [False])
        self.assertTrue(destroyed.is_set())


if __name__ == "__main__":
    unittest_main.main()
