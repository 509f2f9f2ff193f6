"""What test_failures runs on two ranks: failure_program.py SCENARIO."""

import faulthandler
import os
import signal
import sys
import threading

import torch
from torch import distributed as dist

import gradwire.torch
import models
from launch import LIMIT_S
from models import FEEDBACK, attached


def _expect_peer_lost(model):
    try:
        models.train(model, range(3, 6))
    except gradwire.PeerLost as error:
        print(f"told: {error}", flush=True)
    finally:
        print("finally", flush=True)


def _die(grad):
    os.kill(os.getpid(), signal.SIGKILL)


def killed():
    model, _ = attached(FEEDBACK)
    models.train(model, range(3))
    if dist.get_rank() == 1:
        # In the middle of a backward: after its first gradient.
        next(reversed(list(model.parameters()))).register_hook(_die)
    _expect_peer_lost(model)
    os._exit(0)  # torch's own group waits for the dead at the end


def killed_replica():
    import fsdp2_models  # the others need not wait for it

    model, _ = fsdp2_models.attached(FEEDBACK)
    models.train(model, range(3))
    if dist.get_rank() == 1:
        # After the gradients of the last layers.
        model[0].register_full_backward_hook(lambda module, inputs, outputs: _die(None))
    _expect_peer_lost(model)
    os._exit(0)


def exception():
    model, _ = attached(FEEDBACK)
    models.train(model, range(3))
    if dist.get_rank() == 1:
        raise KeyError("of rank 1")
    _expect_peer_lost(model)
    os._exit(0)


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


def exit_without_destroy():
    model, handle = attached(FEEDBACK)
    models.train(model, range(3))
    print(f"steps {handle.stats()['steps']}", flush=True)


def destroy_before_del():
    model, handle = attached(FEEDBACK)
    models.train(model, range(3))
    dist.destroy_process_group()
    print(f"steps {handle.stats()['steps']}", flush=True)
    del model


def exit_with_forked_workers():
    """Which are there until the end, and must not disturb the ranks'."""
    model, handle = attached(FEEDBACK)
    loader = torch.utils.data.DataLoader(range(8), num_workers=2, persistent_workers=True,
                                         multiprocessing_context="fork")
    for step, _ in zip(range(3), loader):
        models.train(model, [step])
    print(f"steps {handle.stats()['steps']}", flush=True)


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
    globals()[sys.argv[1]]()
