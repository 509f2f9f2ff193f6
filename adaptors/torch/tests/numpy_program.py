"""What test_numpy runs on two ranks, without torch."""

import sys

import numpy as np

import gradwire

_TYPES = (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32,
          np.float64)


def _filled(comm, value, dtype=np.float32):
    return np.full((2, 3), value + comm.rank, dtype)


def reductions(comm):
    """Of every type and operation: a result of its own, and in place."""
    for dtype in _TYPES:
        for op, meant in (("sum", 7), ("prod", 12), ("min", 3), ("max", 4)):
            sent, result = _filled(comm, 3, dtype), np.zeros((2, 3), dtype)
            comm.all_reduce(sent, result, op=op)
            assert (result == meant).all() and (sent == 3 + comm.rank).all(), (dtype, op, result)
            comm.all_reduce(sent, op=op)
            assert (sent == meant).all(), (dtype, op, sent)
    mean = _filled(comm, 3)
    comm.all_reduce(mean, op="avg")
    assert (mean == 3.5).all(), mean
    total = _filled(comm, 3)
    comm.reduce(total, root=1)
    assert comm.rank == 0 or (total == 7).all(), total


def others(comm):
    numbers = _filled(comm, 0)
    comm.broadcast(numbers, root=1)
    assert (numbers == 1).all(), numbers
    gathered = np.zeros((2, 2, 3), np.float32)
    comm.all_gather(_filled(comm, 5), gathered)
    assert (gathered[0] == 5).all() and (gathered[1] == 6).all(), gathered
    part = np.zeros(3, np.float32)
    comm.reduce_scatter(np.arange(6, dtype=np.float32), part)
    assert (part == 2 * (3 * comm.rank + np.arange(3))).all(), part
    swapped = np.zeros((2, 3), np.float32)
    comm.all_to_all(np.arange(6, dtype=np.float32) + 10 * comm.rank, swapped)
    assert (swapped == 3 * comm.rank + np.arange(3) + [[0], [10]]).all(), swapped
    comm.exchange([(_filled(comm, 8), 1 - comm.rank)], [(numbers, 1 - comm.rank)])
    assert (numbers == 9 - comm.rank).all(), numbers


def tensors(comm):
    """A view of rows in the middle is without gaps: what lies around stays."""
    # By numpy's class, its dtype and that one's name.
    for i, dtype in enumerate((np.float16, np.dtype("float16"), "float16")):
        assert comm.tensor(f"{i}", (4, 256), dtype).dtype.name == "gwFloat16"
    weights = comm.tensor("weights", (4, 256), np.float32, "qsgd(bits=8)")
    rows = np.full((8, 256), comm.rank + 1, np.float32)
    comm.begin_step(0)
    weights.all_reduce(rows[2:6], op="avg").wait()
    assert comm.end_step() is gradwire.Outcome.COMMITTED
    assert abs(rows[2:6] - 1.5).max() < 0.02, rows
    assert (rows[:2] == comm.rank + 1).all() and (rows[6:] == comm.rank + 1).all(), rows


def refusals(comm):
    """Before anything is sent: the ranks go on."""
    square = np.ones((4, 4), np.float32)
    read_only = np.ones(4, np.float32)
    read_only.flags.writeable = False
    for kind, words, array in (
        (BufferError, "contiguous", square.T[:, 1:]), (BufferError, "contiguous", square[:, ::2]),
        (BufferError, "read-only", read_only), (TypeError, "", np.ones(4, np.complex64)),
        (TypeError, "", np.zeros(4, "datetime64[s]")), (TypeError, "", np.array([None])),
    ):  # fmt: skip
        try:
            comm.all_reduce(array)
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no {kind} of {array.dtype}")
    result = np.zeros(4, np.float32)
    comm.all_reduce(read_only, result)
    assert (result == 2).all(), result


if __name__ == "__main__":
    with gradwire.Comm.from_environment() as joined:
        for scenario in (reductions, others, tensors, refusals):
            scenario(joined)
            print(f"passed {scenario.__name__}", flush=True)
    assert "torch" not in sys.modules
