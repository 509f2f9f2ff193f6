"""What test_backend runs with the backend gradwire: backend_program.py SCENARIO..."""

import os

from torch import distributed as dist

import backend_alone
import backend_compressed
import backend_exact
import backend_models
import scenarios
from backend_sums import GLOO


def _join():
    if os.environ["WORLD_SIZE"] != "1":
        dist.init_process_group("cpu:gradwire")
        GLOO["group"] = dist.new_group(backend="gloo")


if __name__ == "__main__":
    scenarios.run(*map(vars, (backend_exact, backend_models, backend_compressed, backend_alone)),
                  join=_join)
