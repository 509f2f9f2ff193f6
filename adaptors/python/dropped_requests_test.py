"""Arrays and requests that nobody waits for."""

import unittest
import weakref

from adaptors.python.one_rank import floats, new_comm
from tools import unittest_main


class DroppedRequestsTest(unittest.TestCase):
    def setUp(self):
        self.comm = new_comm(compress="bf16")
        self.addCleanup(self.comm.close)

    def _submitted(self, tensor):
        """A weak reference to the array of a request that nobody waits for, and the request."""
        numbers = floats(1, 2, 3)
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


if __name__ == "__main__":
    unittest_main.main()
