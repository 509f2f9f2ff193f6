"""The same in Python: every rank has a gradient, and all ranks get the mean.

    gradwire run -n 2 -- python3 hello.py

It takes arrays of numpy and torch as well; those of `array` come with Python.
"""

import array
import math

import gradwire

ELEMS = 100_000

with gradwire.Comm.from_environment() as comm:
    rank, ranks = comm.rank, comm.world_size
    for step, spec in enumerate(("none", "bf16", "qsgd(bits=8)")):
        gradient = array.array("f", (math.sin(i) * (rank + 1) for i in range(ELEMS)))
        tensor = comm.tensor(f"gradient {step}", ELEMS, spec=spec)

        comm.begin_step(step)
        request = tensor.all_reduce(gradient, op="avg")  # in place
        # ... a training program computes the next gradient while this one travels ...
        request.wait()
        if comm.end_step() is not gradwire.Outcome.COMMITTED:  # update the weights after it only
            raise SystemExit(comm.last_error())

        factor = (ranks + 1) / 2
        worst = max(abs(mean / factor - math.sin(i)) for i, mean in enumerate(gradient))
        print(f"rank {rank} of {ranks}: {spec:12} worst error {worst:.6f}")
