"""What tests of the package in a world of one rank have in common."""

import array
import threading

from adaptors.python import installed  # pylint: disable=unused-import

import gradwire  # pylint: disable=wrong-import-order

LONG_S = 20  # what has not come by then never will


def new_comm(**settings):
    return gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1, settings or None)


def floats(*values):
    return array.array("f", values)


class WatchedLock:
    """Tells when a thread wants it, which may then have to wait."""

    def __init__(self, lock):
        self._lock = lock
        self.wanted = threading.Event()

    def here(self):
        self.wanted.set()
        return self._lock.here()
