"""Helpers and programs lie beside the tests."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser):
    parser.addoption("--ends", type=int, default=2,
                     help="how often programs that end in each way are run (default: %(default)s); "
                     "ends race with threads, so once is no proof")


def pytest_generate_tests(metafunc):
    """Tests of ends have a parameter `repeat`."""
    if "repeat" in metafunc.fixturenames:
        metafunc.parametrize("repeat", range(metafunc.config.getoption("ends")))
