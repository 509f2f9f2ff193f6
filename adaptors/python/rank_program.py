"""What ranks_test runs on each rank: rank_program.py SCENARIO."""

import array
import os
import signal
import sys
import threading
import time
import weakref
from unittest import mock

import gradwire
from gradwire._library import lib


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
    nothing = comm.tensor("nothing", [0, 7], spec="qsgd(bits=4,feedback=on,min_numel=0)")
    comm.begin_step(2)
    nothing.all_reduce(_floats(), op="avg").wait()
    assert comm.end_step() is gradwire.Outcome.COMMITTED
    comm.all_reduce(_floats())
    gathered = array.array("i", [0, 0])
    comm.all_gather(array.array("i", [comm.rank]), gathered)
    assert list(gathered) == [0, 1], gathered
    comm.close()


def groups(comm):
    other = 1 - comm.rank
    turned = comm.split(0, key=-comm.rank)
    assert (turned.rank, turned.world_size) == (other, 2)
    alone = comm.split(None if comm.rank == 0 else 5)
    assert (alone is None) == (comm.rank == 0)
    got, mine = array.array("i", [0, 0]), array.array("i", [0, 0])
    sent = array.array("i", [comm.rank, 7])
    turned.exchange([(sent, comm.rank), (sent, turned.rank)],
                    [(got, comm.rank), (mine, turned.rank)])
    assert list(got) == [other, 7] and list(mine) == [comm.rank, 7], (got, mine)
    comm.close()
    if turned.rank == 0:
        turned.send(sent, 1)
    else:
        turned.receive(got, 0)
        assert list(got) == [1, 7], got
    try:
        turned.exchange([(sent, 2)], [])
    except gradwire.InvalidArgument as error:
        print(f"rank {turned.rank}: {error}")
    turned.close()


def negative_color(comm):
    """Of the one rank this is what C calls none."""
    try:
        comm.split(-1 if comm.rank == 0 else 0)
    except gradwire.GradwireError as error:
        print(f"rank {comm.rank}: {error.result.name}: {error}")
    comm.close()


def mismatch(comm):
    try:
        comm.all_reduce(_floats(*[0.0] * (comm.rank + 1)))
    except gradwire.Mismatch as error:
        print(f"rank {comm.rank}: {error}")


def dropped_request(comm):
    """Its array stays while the other rank has not come to it."""
    tensors = [comm.tensor(name, [3]) for name in "vw"]
    numbers, word = _floats(1, 2, 3), _floats(0)
    watched = weakref.ref(numbers)
    comm.begin_step(1)
    if comm.rank == 1:
        comm.receive(word, 0)
    tensors[0].all_reduce(numbers)
    del numbers
    tensors[1].all_reduce(_floats(4, 5, 6))
    if comm.rank == 0:
        assert watched() is not None
        comm.send(word, 1)
    comm.end_step()
    assert watched() is None
    comm.close()


def killed_peer(comm):
    try:
        comm.barrier()  # rank 1 may leave it first, and be killed while rank 0 is in it
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()
    except gradwire.PeerLost as error:
        print(f"lost: {error}")


def exits_without_a_word(comm):
    comm.barrier()
    print(f"rank {comm.rank} leaves")


def dropped_behind_a_step(comm):
    """Nothing is under way any more, though nobody has waited for the request."""
    tensor = comm.tensor("w", [3])
    comm.begin_step(1)
    request = tensor.all_reduce(_floats(1, 2, 3))
    comm.end_step()
    if comm.rank == 0:
        request.wait()
        comm.close()


def exception(comm):
    comm.barrier()
    if comm.rank == 1:
        raise KeyError("of rank 1")
    try:
        comm.barrier()
    except gradwire.PeerLost:
        print("rank 0 was told")


def _other_process(comm):
    """(an event that the other rank sets, what sets that of the other rank)"""
    told, pids = threading.Event(), array.array("q", [0, 0])
    signal.signal(signal.SIGUSR2, lambda number, frame: told.set())
    comm.all_gather(array.array("q", [os.getpid()]), pids)
    other = pids[1 - comm.rank]
    return told, lambda: os.kill(other, signal.SIGUSR2)


def _interrupt_in(comm, wait, number=signal.SIGUSR1):
    """The handler of signal `number` runs while wait() waits for the other rank, and what it raises arrives."""
    def handler(received, frame):
        raise InterruptedError(f"by the handler of {signal.Signals(received).name}")

    signal.signal(number, handler)
    told, tell = _other_process(comm)
    if comm.rank == 1:
        told.wait()
        return
    after_s = 0.2
    begin = time.monotonic()
    try:
        threading.Timer(after_s, os.kill, [os.getpid(), number]).start()
        wait()
    except InterruptedError as error:
        # A slice of a wait is a tenth of a second.
        assert time.monotonic() - begin < after_s + 2, time.monotonic() - begin
        print(f"rank 0 was interrupted {error}", flush=True)
        tell()
        os._exit(0)


def interrupted_request(comm):
    tensor = comm.tensor("w", [1])
    _interrupt_in(comm, lambda: tensor.all_reduce(_floats(1)).wait())


def interrupted_barrier(comm):
    _interrupt_in(comm, comm.barrier)


def terminated_barrier(comm):
    _interrupt_in(comm, comm.barrier, signal.SIGTERM)


def interrupted_twice(comm):
    """What the first one leaves in the worker ends, and the communicator behind it."""
    destroy, codes, destroyed = lib.gwCommDestroy, [], threading.Event()

    def watched_destroy(handle):
        codes.append(destroy(handle))
        destroyed.set()
        return codes[-1]

    def wait():
        second = InterruptedError("by a second one")
        try:
            with mock.patch.object(comm, "abort", side_effect=second):
                comm.barrier()
        finally:
            with mock.patch.object(lib, "gwCommDestroy", watched_destroy):
                comm._destroy()
                assert comm.closed and destroyed.wait(20)
            assert codes == [0], codes

    _interrupt_in(comm, wait)


def timeout_of_the_operation(comm):
    """It ends the request, not only a slice of the wait."""
    told, tell = _other_process(comm)
    comm.close()
    short = gradwire.Comm.from_environment({"op_timeout_ms": 300, "debug": "error"})
    tensor = short.tensor("w", [1])
    if short.rank == 1:
        told.wait()
        return
    try:
        tensor.all_reduce(_floats(1)).wait()
    except gradwire.TimedOut as error:
        print(f"rank 0: {error}", flush=True)
    short.discard()
    tell()


def fork(comm):
    comm.barrier()
    child = os.fork()
    if child == 0:
        try:
            comm.barrier()
        except gradwire.InvalidUsage as error:
            assert "belongs to the process before the fork" in str(error), error
            sys.exit(7)  # with the interpreter's own end, which must not disturb the parent's ranks
        sys.exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    comm.barrier()
    comm.close()
    print("still there")


def fork_amid_abort(comm):
    """The child has no thread that could give back the lock which the aborting one holds."""
    aborting, goes_on = threading.Event(), threading.Event()

    def slow_abort(handle):
        aborting.set()
        goes_on.wait()
        return 0

    with mock.patch.object(lib, "gwCommAbort", slow_abort):
        other = threading.Thread(target=comm.abort)
        other.start()
        aborting.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            sys.exit(7)
        goes_on.set()
        other.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    comm.close()
    print("still there")


if __name__ == "__main__":
    globals()[sys.argv[1]](gradwire.Comm.from_environment())
