import socket
import unittest
from unittest import mock

from tests.lib import free_port
from tools import unittest_main


class FreePortTest(unittest.TestCase):
    def test_stays_below_the_kernels_own_range(self):
        for _ in range(50):
            self.assertIn(free_port.find(), range(20000, 32000))

    def test_passes_over_what_is_taken(self):
        taken, free = free_port.find(), free_port.find()
        with socket.create_server(("127.0.0.1", taken)):
            with mock.patch("random.sample", return_value=[taken, free]):
                self.assertEqual(free_port.find(), free)
            with mock.patch("random.sample", return_value=[taken]), self.assertRaises(OSError):
                free_port.find()


if __name__ == "__main__":
    unittest_main.main()
