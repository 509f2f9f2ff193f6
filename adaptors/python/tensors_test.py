"""Registered tensors and their training steps."""

import array
import math
import unittest

from adaptors.python.one_rank import floats, new_comm
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order


class TensorsTest(unittest.TestCase):
    def setUp(self):
        self.comm = new_comm(compress="bf16")
        self.addCleanup(self.comm.close)

    def test_a_step(self):
        weights = self.comm.tensor("weights", [2, 2], spec="none")
        bias = self.comm.tensor("bias", [2])
        grads = [floats(1, 2, 3, 4), floats(5, 6)]
        means = [floats(0, 0, 0, 0), floats(0, 0)]
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
        numbers = floats(1, 2, 3)
        request = tensor.all_reduce(numbers, op="avg")
        request.wait()
        self.assertEqual(numbers, floats(1, 2, 3))
        tensor.set_spec("none")
        tensor.deregister()
        with self.assertRaisesRegex(gradwire.InvalidUsage, "deregistered"):
            tensor.all_reduce(numbers)

    def test_scattered(self):
        tensor = self.comm.tensor("w", [3], spec="bf16")
        numbers, shard = floats(1, 2, 3), floats(0, 0, 0)
        tensor.reduce_scatter(numbers, shard).wait()
        self.assertEqual(shard, numbers)

    def test_buffers_that_do_not_fit_the_tensor_are_refused(self):
        tensor = self.comm.tensor("w", [3])
        good, short, doubles = floats(1, 2, 3), floats(0, 0), array.array("d", [1, 2, 3])
        for bad, words in ((short, "2 of float32$"),
                           (doubles, "3 of float64: pass the array as float32$")):
            for submit in (tensor.all_reduce, tensor.reduce_scatter):
                for buffers in ((bad, good), (good, bad)):
                    with self.assertRaisesRegex(ValueError, f"'w' has 3 elements .*, not {words}"):
                        submit(*buffers)
            with self.assertRaisesRegex(ValueError, words):
                tensor.all_reduce(bad)

    def test_a_vector_needs_no_list_of_lengths(self):
        self.assertEqual(self.comm.tensor("w", 3).elems, 3)

    def test_the_ledger_tells_what_may_keep_a_residual(self):
        specs = {"none": False, "bf16": False, "topk(0.1,min_numel=0)": True, "auto": True,
                 "qsgd(bits=4,feedback=off)": False, "powersgd(rank=1)": False}
        for number, spec in enumerate(specs):
            self.comm.tensor(str(number), [8, 8], spec=spec)
        rows = self.comm.ledger()["tensors"]
        kept = {row["name"]: row["feedback"] for row in rows}
        # Too small for low rank, so it travels exactly.
        self.assertEqual(list(map(kept.get, map(str, range(6)))), list(specs.values()))

    def test_what_is_no_text_is_told(self):
        tensor = self.comm.tensor("w", [3])
        for words, call in (("name= takes a text", lambda: self.comm.tensor(5, [3])),
                            ("spec= takes a text", lambda: self.comm.tensor("v", [3], spec={})),
                            ("spec= takes a text", lambda: tensor.set_spec(None)),
                            ("why= takes a text", lambda: self.comm.abort_step(None))):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                call()

    def test_the_ledger_tells_whether_the_state_before_a_step_is_kept(self):
        self.assertIs(self.comm.ledger()["transaction"], True)
        with new_comm(transaction="off") as comm:
            self.assertIs(comm.ledger()["transaction"], False)

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
        with new_comm(nonfinite="skip") as comm:
            tensor = comm.tensor("w", [1])
            comm.begin_step(0)
            tensor.all_reduce(floats(float("nan"))).wait()
            self.assertIs(comm.end_step(), gradwire.Outcome.SKIPPED)
            # What nobody waited for is freed at the end of the step, and the reason stays.
            comm.begin_step(1)
            tensor.all_reduce(floats(float("nan")))
            self.assertIs(comm.end_step(), gradwire.Outcome.SKIPPED)
            self.assertRegex(comm.last_error(), "a NaN or an infinity")

    def test_a_step_can_be_given_up(self):
        with new_comm() as comm:
            tensor = comm.tensor("w", [1])
            for _ in range(2):
                comm.begin_step(0)
                tensor.all_reduce(floats(1))
                comm.abort_step("no memory")
            comm.begin_step(0)
            tensor.all_reduce(floats(1)).wait()
            self.assertIs(comm.end_step(), gradwire.Outcome.COMMITTED)
            self.assertEqual(comm.stats()["aborts"], 2)
            with self.assertRaisesRegex(gradwire.InvalidUsage, r" begin_step\(\)"):
                comm.abort_step()

    def test_a_wrong_loss_scale_leaves_no_step_open(self):
        for kind, scales in ((gradwire.InvalidArgument, (0.0, -1, math.inf, math.nan, 1e39, 1e-50)),
                             (TypeError, ("x", []))):
            for scale in scales:
                with self.assertRaisesRegex(kind, "loss.scale"):
                    self.comm.begin_step(0, loss_scale=scale)
        self.comm.begin_step(0, loss_scale=2)
        self.assertIs(self.comm.end_step(), gradwire.Outcome.COMMITTED)

    def test_tensors_of_another_communicator_are_refused(self):
        numbers = [floats(1), floats(2)]
        with new_comm() as one, new_comm() as other:
            tensors = [comm.tensor("w", [1]) for comm in (one, other)]
            with self.assertRaisesRegex(ValueError, "of one communicator"):
                gradwire.Group(tensors, numbers)
            with self.assertRaisesRegex(ValueError, "belong to another"):
                one.submit(gradwire.Group(tensors[1:], numbers[1:]))
            with self.assertRaisesRegex(ValueError, "belong to another"):
                one.reduce_scatter_tensor(tensors[1], *numbers)


if __name__ == "__main__":
    unittest_main.main()
