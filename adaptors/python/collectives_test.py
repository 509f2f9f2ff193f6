"""The exact collectives of a communicator, and what is refused."""

import array
import gc
import threading
import unittest
import weakref
from unittest import mock

from adaptors.python.one_rank import floats, new_comm
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order


class CollectivesTest(unittest.TestCase):
    def setUp(self):
        self.comm = new_comm()
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
            self.comm.all_reduce(floats(1, 2), floats(0))
        with self.assertRaises(ValueError):
            self.comm.all_reduce(floats(1, 2), array.array("i", [0, 0]))
        with self.assertRaisesRegex(gradwire.InvalidArgument, "'mean' is no operation"):
            self.comm.all_reduce(floats(1), op="mean")

    def test_bools_have_no_sum(self):
        bools, numbers = memoryview(bytearray([1, 0])).cast("?"), bytearray(2)
        for call in (lambda: self.comm.all_reduce(bools), lambda: self.comm.reduce(bools, op="avg"),
                     lambda: self.comm.all_reduce(numbers, bools),
                     lambda: self.comm.reduce_scatter(bools, numbers)):
            with self.assertRaisesRegex(TypeError, r"view\('uint8'\), or op='max'"):
                call()
        self.comm.all_reduce(bools, op="max")
        self.comm.broadcast(bools)
        self.comm.all_gather(bools, numbers)
        self.assertEqual(numbers, bytearray([1, 0]))

    def test_only_reductions_are_in_place_without_a_second_array(self):
        """The others' results are longer or shorter, or overwrite what is still to be sent."""
        numbers = floats(1, 2)
        for name in ("all_gather", "reduce_scatter", "all_to_all"):
            for arrays in ((numbers, None), (None, numbers)):
                with self.subTest(name), self.assertRaisesRegex(TypeError, "NoneType"):
                    getattr(self.comm, name)(*arrays)
        for name in ("all_reduce", "reduce"):
            getattr(self.comm, name)(numbers)
            self.assertEqual(numbers, floats(1, 2))

    def test_numbers_must_fit(self):
        """The low 32 bits of each are right."""
        numbers, many = floats(1), 1 << 32
        for call in (lambda: self.comm.broadcast(numbers, root=many),
                     lambda: self.comm.reduce(numbers, root=many),
                     lambda: self.comm.split(many), lambda: self.comm.split(0, key=-many),
                     lambda: self.comm.exchange([(numbers, many)], [(floats(0), many)]),
                     lambda: gradwire.Comm.from_unique_id(gradwire.unique_id(), many, 1)):
            with self.assertRaisesRegex(gradwire.InvalidArgument, r"-?4294967296 is not in"):
                call()

    def test_long_numbers_must_fit(self):
        """The low 64 bits of each are right."""
        numbers, many = floats(1), 1 << 64
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
                self.comm.broadcast(floats(1), root=7)
            except gradwire.InvalidArgument:
                return weakref.ref(owner)

        gc.disable()
        self.addCleanup(gc.enable)
        self.assertIsNone(fail(Owner())())

    def test_a_failed_exchange_leaves_no_group_open(self):
        """In it all that follows would do nothing, and say so to nobody."""
        sent, received = floats(1), floats(0)
        counted_in_floats = gradwire.Pointer(sent.buffer_info()[0], 1.0, "float32")
        for wrong in ((sent, 0.0), (sent, "0"), (counted_in_floats, 0)):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.comm.exchange([(sent, 0), wrong], [(received, 0)])
        with mock.patch.object(gradwire.comm.lib, "gwRecv", side_effect=KeyError("mine")):
            with self.assertRaisesRegex(KeyError, "mine"):
                self.comm.exchange([], [(received, 0)])
        self.comm.all_reduce(sent, received)
        self.assertEqual(received, sent)

    def test_a_failed_exchange_tells_the_error_that_was_first(self):
        numbers = floats(1, 2)
        odd = gradwire.Pointer(numbers.buffer_info()[0] + 1, 1, "float32")
        for receives in ([(numbers, 0)], [(numbers, 7)]):
            with self.assertRaisesRegex(gradwire.InvalidArgument, "aligned"):
                self.comm.exchange([(odd, 0)], receives)

    def test_from_another_thread(self):
        results = []

        def work():
            numbers = floats(3)
            self.comm.all_reduce(numbers)
            results.append(numbers[0])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(results, [3.0])


if __name__ == "__main__":
    unittest_main.main()
