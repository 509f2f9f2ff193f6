"""Exceptions: codes, families and texts."""

import array
import pathlib
import pickle
import re
import unittest

from adaptors.python.one_rank import new_comm
from tools import unittest_main

import gradwire  # pylint: disable=wrong-import-order
from gradwire._bindings import gwResult_t  # pylint: disable=wrong-import-order
from gradwire.errors import error_of, in_python  # pylint: disable=wrong-import-order


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
        with new_comm() as comm:
            with self.assertRaisesRegex(gradwire.InvalidArgument, "'topk'") as raised:
                comm.tensor("w", [4], spec="topc(0.1)")
            self.assertEqual(raised.exception.result, gwResult_t.gwInvalidArgument)

    def test_a_failed_start_has_its_text_from_the_thread_that_tried(self):
        with self.assertRaisesRegex(gradwire.InvalidArgument, "no_such_setting"):
            new_comm(no_such_setting=1)
        with self.assertRaisesRegex(gradwire.InvalidArgument, "unique id"):
            gradwire.Comm.from_unique_id(b"short", 0, 1)

    def test_texts_use_the_names_of_python(self):
        self.assertEqual(in_python("Use gwSum or gwAvg, gwUnheardOf, then gwStepEnd"),
                         "Use 'sum' or 'avg', gwUnheardOf, then end_step()")
        numbers = array.array("f", [0] * 4)
        with new_comm() as comm:
            tensor = comm.tensor("w", [4])
            tensor.deregister()
            for kind, words, call in (
                    (gradwire.InvalidArgument, r"'sum' or 'avg'",
                     lambda: comm.tensor("v", [4]).all_reduce(numbers, op="max")),
                    (gradwire.InvalidUsage, r"a new tensor\(\)", lambda: tensor.all_reduce(numbers)),
                    (gradwire.InvalidUsage, r"one group \(exchange\(\)\)",
                     lambda: comm.exchange([(numbers, 0)], [])),
                    (gradwire.InvalidUsage, r" begin_step\(\)", comm.end_step),
                    (gradwire.DataCorrupt, r"as save_state\(\) wrote", lambda: comm.load_state(b"")),
                    (gradwire.InvalidArgument, r"that unique_id\(\) gave",
                     lambda: gradwire.Comm.from_unique_id(bytes(128), 0, 1))):
                with self.subTest(words), self.assertRaisesRegex(kind, words) as raised:
                    call()
                self.assertNotRegex(str(raised.exception), r"\bgw[A-Z]")

    def test_every_function_that_python_calls_has_a_name_of_python(self):
        called = set()
        for source in pathlib.Path(gradwire.__file__).parent.glob("*.py"):
            called.update(re.findall(r"\blib\.(gw[A-Z]\w+)", source.read_text(encoding="utf-8")))
        self.assertIn("gwCommInitEnv", called)
        # Their errors are not told.
        called -= {"gwGetErrorString", "gwGetLastError", "gwRequestFree"}
        self.assertEqual([name for name in sorted(called) if in_python(name) == name], [])

    def test_what_are_no_settings_is_told(self):
        for settings in (5, ["window=8"], True):
            with self.assertRaisesRegex(TypeError, "settings take a dict or text"):
                gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings)


if __name__ == "__main__":
    unittest_main.main()
