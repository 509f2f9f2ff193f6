"""What test_failures runs on two ranks: failure_program.py SCENARIO [KIND]."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from unittest import mock

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import gradwire.torch
import models
from gradwire.torch import fsdp2_shards
from launch import LIMIT_S
from models import FEEDBACK, attached


def _tell_time(event):
    """By the clock of the machine, which all ranks share."""
    # In one piece: the library's log comes between.
    print(f"{event} at {time.monotonic():.3f}\n", end="", flush=True)


def _expect_peer_lost(model):
    try:
        models.train(model, range(3, 6))
    except gradwire.PeerLost as error:
        _tell_time("told")
        print(f"told: {error}", flush=True)
    finally:
        print("finally", flush=True)


def _ddp():
    model, handle = attached(FEEDBACK)
    models.train(model, range(3))
    return [(model, handle)]


def _fsdp2():
    """Two replicas of a rank each, and a model that both ranks shard."""
    import fsdp2_models

    shards = fsdp2_models.network(over=init_device_mesh("cpu", (dist.get_world_size(),)))
    both = [fsdp2_models.attached(FEEDBACK),
            (shards, gradwire.torch.attach(shards, FEEDBACK, name="sharded"))]
    for model, _ in both:
        models.train(model, range(3))
    return both


# By the name that a scenario is given: [(model, handle)], after three steps.
_KINDS = {"ddp": _ddp, "fsdp2": _fsdp2}


def _tell_steps(trained):
    print("steps", *(handle.stats()["steps"] for _, handle in trained), flush=True)


def _end_midway(kind, sign):
    """Rank 1 gets the signal in the middle of a backward, after the gradients of the last layers."""
    (model, _), *_ = _KINDS[kind]()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.set("process", str(os.getpid()))

        def end(module, inputs, outputs):
            _tell_time("ended")
            os.kill(os.getpid(), sign)

        getattr(model, "module", model)[0].register_full_backward_hook(end)
    _expect_peer_lost(model)
    if sign == signal.SIGSTOP:
        os.kill(int(store.get("process")), signal.SIGKILL)
    os._exit(0)  # torch's own group waits for the dead at the end


def killed(kind):
    _end_midway(kind, signal.SIGKILL)


def stopped(kind):
    _end_midway(kind, signal.SIGSTOP)


def killed_shard(kind):
    """Rank 3, of two replicas of two shards or of four shards, amid a backward, when nobody is in
    torch's own collectives any more. Who is told ends, as programs do."""
    model, _ = dict(zip(("replicas", "everybody"), _fsdp2()))[kind]
    store = dist.distributed_c10d._get_default_store()

    def meet(*args):
        if dist.get_rank() == 3:
            store.wait(["0 is here", "1 is here", "2 is here"])
            _tell_time("ended")
            os.kill(os.getpid(), signal.SIGKILL)
        store.set(f"{dist.get_rank()} is here", "")

    model[0].register_full_backward_hook(meet)
    try:
        models.train(model, range(3, 6))
    except RuntimeError as error:
        _tell_time("told")
        print(f"told: {type(error).__name__}: {error}", flush=True)
    os._exit(0)


def _end_backward_of(layer, end):
    layer.register_full_backward_hook(end)


def _end_forward_of(layer, end):
    layer.register_forward_pre_hook(end)  # behind FSDP's, which has gathered its parameters


# By where the others' collectives of torch wait for the rank that ends.
_PLACES = {"reduce-scatter": _end_backward_of, "all-gather": _end_forward_of}


def lost_shard(sign, place):
    """Rank 3 of two replicas of two shards, while its shard mate is on its way into a collective of
    torch's. Nobody ends before all are told."""
    import fsdp2_models

    model, handle = fsdp2_models.attached("none")
    models.train(model, range(3))
    store = dist.distributed_c10d._get_default_store()

    def end(*args):
        store.set("process", str(os.getpid()))
        _tell_time("ended")
        os.kill(os.getpid(), getattr(signal, sign))

    if dist.get_rank() == 3:
        _PLACES[place](model[2], end)
    try:
        models.train(model, range(3, 6))
    except RuntimeError as error:
        _tell_time("told")
        print(f"told: {type(error).__name__}: {error}", flush=True)
    store.set(f"{dist.get_rank()} is told", "")
    store.wait([f"{rank} is told" for rank in range(3)])
    handle.close()
    print(f"attached {handle.attached}", flush=True)
    # The store ends with rank 0.
    store.set(f"{dist.get_rank()} needs no store", "")
    if dist.get_rank() == 0:
        store.wait([f"{rank} needs no store" for rank in range(3)])
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(store.get("process")), signal.SIGKILL)
    os._exit(0)


def aborted_while_shards_wait(how):
    """Rank 0 of two replicas of two shards, while its backward waits in torch's reduce-scatter for
    its shard mate, which comes only afterwards."""
    import fsdp2_models

    model, handle = fsdp2_models.attached("none")
    models.train(model, range(3))
    store = dist.distributed_c10d._get_default_store()
    ends_in_a_slice, aborts = fsdp2_shards._ends_in_a_slice, []

    def abort(*args):
        aborts.append(threading.current_thread() is threading.main_thread())
        handle.abort()

    def abort_amid(work):
        has_ended = ends_in_a_slice(work)
        if not has_ended and not aborts:
            if how == "signal":
                os.kill(os.getpid(), signal.SIGUSR1)
            else:
                thread = threading.Thread(target=abort)
                thread.start()
                thread.join()
        return has_ended

    signal.signal(signal.SIGUSR1, abort)
    loss = models.loss_of(model, 3)
    if dist.get_rank() == 1:
        store.wait(["0 is told"])
    amid = abort_amid if dist.get_rank() == 0 else ends_in_a_slice
    try:
        with mock.patch.object(fsdp2_shards, "_ends_in_a_slice", amid):
            loss.backward()
    except RuntimeError as error:
        print(f"told: {type(error).__name__}: {error}", flush=True)
    print(f"aborts {aborts}", flush=True)
    store.set(f"{dist.get_rank()} is told", "")
    if dist.get_rank() == 0:  # which has the store
        store.wait([f"{rank} is told" for rank in range(4)])
    os._exit(0)


def exception(kind):
    (model, _), *_ = _KINDS[kind]()
    if dist.get_rank() == 1:
        raise KeyError("of rank 1")
    _expect_peer_lost(model)


def interrupted():
    """Rank 0 by a signal while its backward waits for rank 1, which comes only afterwards."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(3))
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["interrupted"])
        _expect_peer_lost(model)
    else:
        # A shell ignores it for what it starts in the background.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            models.train(model, range(1))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        store.set("interrupted", "yes")
    handle.close()
    print(f"attached {handle.attached}", flush=True)
    os._exit(0)


def exit_without_destroy(kind):
    trained = _KINDS[kind]()
    _tell_steps(trained)


def destroy_before_del(kind):
    trained = _KINDS[kind]()
    dist.destroy_process_group()
    _tell_steps(trained)
    del trained


def exit_with_forked_workers(kind):
    """Some end amid training, others are there until the end; they must not disturb the ranks'."""
    trained = _KINDS[kind]()
    forked = {"num_workers": 2, "multiprocessing_context": "fork"}
    assert len(list(torch.utils.data.DataLoader(range(8), **forked))) == 8
    loader = torch.utils.data.DataLoader(range(8), persistent_workers=True, **forked)
    for step, _ in zip(range(3, 6), loader):
        for model, _ in trained:
            models.train(model, [step])
    _tell_steps(trained)


def attach_after_destroy():
    model = models.wrap()
    dist.destroy_process_group()
    try:
        gradwire.torch.attach(model, "none")
    except RuntimeError as error:
        print(f"told: {error}", flush=True)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LIMIT_S - 10, exit=True)
    dist.init_process_group("gloo")
    globals()[sys.argv[1]](*sys.argv[2:])
