"""What ranks_test runs on each rank: rank_program.py SCENARIO."""

import array
import os
import signal
import sys
import threading
import time

import gradwire


def _floats(*values):
    return array.array("f", values)


def averages(comm):
    grads = _floats(*[comm.rank + 1.0] * 4096)
    for spec in ("none", "bf16", "qsgd(bits=8)"):
        tensor = comm.tensor(spec.replace("=", "-"), [64, 64], spec=spec)
        mean = _floats(*[0.0] * 4096)
        comm.begin_step(1)
        tensor.all_reduce(grads, mean, op="avg").wait()
        assert comm.end_step() is gradwire.Outcome.COMMITTED
        assert max(abs(value - 1.5) for value in mean) < 0.02, mean[:4]
    gathered = array.array("i", [0, 0])
    comm.all_gather(array.array("i", [comm.rank]), gathered)
    assert list(gathered) == [0, 1], gathered
    comm.close()


def mismatch(comm):
    try:
        comm.all_reduce(_floats(*[0.0] * (comm.rank + 1)))
    except gradwire.Mismatch as error:
        print(f"rank {comm.rank}: {error}")


def killed_peer(comm):
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.barrier()
    except gradwire.PeerLost as error:
        print(f"lost: {error}")


def exits_without_a_word(comm):
    comm.barrier()
    print(f"rank {comm.rank} leaves")


def exception(comm):
    comm.barrier()
    if comm.rank == 1:
        raise KeyError("of rank 1")
    try:
        comm.barrier()
    except gradwire.PeerLost:
        print("rank 0 was told")


def _stay_until_told(comm):
    try:
        while True:
            comm.raise_async_error()
            time.sleep(0.01)
    except gradwire.PeerLost:
        pass


def _interrupt_in(comm, wait):
    """A signal's handler runs while wait() waits for the other rank, and what it raises arrives."""
    def handler(number, frame):
        raise InterruptedError("by the handler")

    signal.signal(signal.SIGUSR1, handler)
    comm.barrier()
    if comm.rank == 1:
        _stay_until_told(comm)
        return
    try:
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGUSR1]).start()
        wait()
    except InterruptedError as error:
        print(f"rank 0 was interrupted {error}", flush=True)
        os._exit(0)


def interrupted_request(comm):
    tensor = comm.tensor("w", [1])
    _interrupt_in(comm, lambda: tensor.all_reduce(_floats(1)).wait())


def interrupted_barrier(comm):
    _interrupt_in(comm, comm.barrier)


def timeout_of_the_operation(comm):
    """It ends the request, not only a slice of the wait."""
    comm.close()
    short = gradwire.Comm.from_environment({"op_timeout_ms": 300, "debug": "error"})
    tensor = short.tensor("w", [1])
    if short.rank == 1:
        _stay_until_told(short)
        return
    try:
        tensor.all_reduce(_floats(1)).wait()
    except gradwire.TimedOut as error:
        print(f"rank 0: {error}", flush=True)
    short.discard()


def fork(comm):
    comm.barrier()
    child = os.fork()
    if child == 0:
        try:
            comm.barrier()
        except gradwire.InvalidUsage:
            sys.exit(7)  # with the interpreter's own end, which must not disturb the parent's ranks
        sys.exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    comm.barrier()
    comm.close()
    print("still there")


if __name__ == "__main__":
    globals()[sys.argv[1]](gradwire.Comm.from_environment())
