"""Helpers and programs lie beside the tests."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser):
    parser.addoption("--ends", type=int, default=2,
                     help="how often programs that end in each way are run (default: %(default)s); "
                     "ends race with threads, so once is no proof")


def pytest_configure(config):
    config.addinivalue_line("markers", "ends: tests of how programs end, which --ends repeats")


def pytest_generate_tests(metafunc):
    """Tests of ends have a parameter `repeat`."""
    if "repeat" in metafunc.fixturenames:
        times = range(metafunc.config.getoption("ends"))
        metafunc.parametrize("repeat", [pytest.param(n, marks=pytest.mark.ends) for n in times])
