"""What handles tell while they are attached, and how they end. Scenarios of ddp_program."""

import copy
import gc
import threading
import weakref

import torch
from torch import distributed as dist

import gradwire.torch
import models
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks, expect_raises


def statistics_from_another_thread():
    """While backward is under way, which they must not disturb."""
    model, handle = attached(FEEDBACK)
    trained, counts = threading.Event(), []

    def watch():
        while not trained.is_set():
            counts.append(handle.stats()["steps"])
            assert len(handle.ledger()["tensors"]) == 8

    watcher = threading.Thread(target=watch)
    watcher.start()
    models.train(model, range(40))
    trained.set()
    watcher.join()
    assert counts == sorted(counts) and len(set(counts)) > 2, counts
    assert handle.stats()["commits"] == 40
    handle.close()


def an_abort_after_the_end():
    """As in a `finally` that cleans up: torch's own group goes on."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    handle.close()
    handle.abort()
    models.train(model, range(2, 4))
    models.expect_equal_on_ranks(models.weights(model))


def a_rank_that_closes_late():
    """Later than rank 0 waits for it: as where it evaluates and saves what the others do not."""
    model, handle = attached(FEEDBACK, settings={"abort_timeout_ms": 200})
    models.train(model, range(2))
    if dist.get_rank() == 0:
        handle.close()
    dist.barrier()
    if dist.get_rank() != 0:
        assert handle.stats()["commits"] == 2 and handle.state_dict()
        handle.close()
    assert not handle.attached
    models.train(model, range(2))  # by torch's own group


def attach_again_behind_the_end_of_a_communicator():
    """Also by who has not kept the handle: no step can come that detaches it."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    handle._comm.abort()
    dist.barrier()
    again = gradwire.torch.attach(model, FEEDBACK)
    assert again.attached and not handle.attached
    models.train(model, range(2, 4))
    expect_equal_on_ranks(models.weights(model))
    assert again.stats()["commits"] == 2
    again.close()


def a_name_is_free_behind_the_end_of_a_communicator():
    """Though its model is still there: it cannot be detached any more."""
    kept, handle = attached(FEEDBACK)
    models.train(kept, range(2))
    handle._comm.abort()
    dist.barrier()
    model, again = attached(FEEDBACK)
    assert again.attached and not handle.attached
    models.train(model, range(2))
    again.close()


def detach_and_attach_again():
    plain, (ours, handle) = models.wrap(), attached("none")
    models.train(plain, range(3))
    models.train(ours, range(3))
    handle.detach()
    models.train(plain, range(3, 5))
    models.train(ours, range(3, 5))  # the flush, then torch's own group
    expect_equal(models.weights(plain), models.weights(ours))
    assert not handle.attached
    expect_raises(gradwire.InvalidUsage, "detached", handle.stats)
    again = gradwire.torch.attach(ours, "none")
    models.train(plain, range(5, 7))
    models.train(ours, range(5, 7))
    expect_equal(models.weights(plain), models.weights(ours))
    assert again.stats()["steps"] == 2
    again.close()


def a_skipped_flush_is_repeated():
    scaler = torch.amp.GradScaler("cpu")
    model, handle = attached("topk(0.01)", scaler=scaler)
    models.train(model, range(2))
    handle.detach()
    overflow = model.module[0].weight.register_hook(lambda grad: grad * float("inf"))
    models.loss_of(model, 2).backward()
    assert handle.attached
    overflow.remove()
    model.zero_grad()
    models.loss_of(model, 2).backward()
    assert not handle.attached


def specs_change_between_steps():
    """Nothing of what was kept back is lost, also of what nobody used; exact tensors stay so."""
    model, handle = attached("bf16", models.Sum(), {"find_unused_parameters": True},
                             exclude="parts.0")
    total = 0
    for step in range(8):
        spec = {1: "topk(0.05)", 3: FEEDBACK, 5: "none"}.get(step)
        if spec:
            handle.set_spec(spec)
            specs = {row["name"]: row["spec"] for row in handle.ledger()["tensors"]}
            assert specs.pop("model/parts.0") == "none", specs
            assert all(one.startswith(spec.partition("(")[0]) for one in specs.values()), specs
        chosen = range(6) if step in (0, 2, 6) else range(4)
        inputs = models.Sum.inputs(step)
        model.zero_grad()
        model(inputs[dist.get_rank()], chosen).backward()
        gradients = torch.stack([torch.zeros(90, 100) if p.grad is None else p.grad
                                 for p in model.module.parts])
        expect_equal_on_ranks(gradients)
        if step > 0:  # before that bf16 rounds
            total += gradients
            total[list(chosen)] -= inputs.mean(0)[list(chosen)]
    assert total.abs().max() < 1e-4, total.abs().max()
    handle.close()


def specs_that_are_refused_change_nothing():
    model, handle = attached("powersgd(rank=2)")
    models.train(model, range(3))
    before, ledger = handle.state_dict(), handle.ledger()["tensors"]
    for spec, kind, words in ((None, TypeError, "the spec is a text"),
                              (" ", ValueError, "the spec is empty"),
                              ("topc(0.1)", ValueError, "'topk'")):
        expect_raises(kind, words, lambda s=spec: handle.set_spec(s))
        models.expect_state(handle, before)
        assert handle.ledger()["tensors"] == ledger
    handle.detach()
    expect_raises(gradwire.InvalidUsage, "being detached", lambda: handle.set_spec("none"))
    handle.close()
    _, handle = attached("qsgd(bits=8)", models.network().half())
    expect_raises(ValueError, "or scaler=False", lambda: handle.set_spec(FEEDBACK))
    handle.close()


def copies_are_not_attached():
    """They are averaged by torch, as copies of a plain model; attach takes them."""
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        models.train(model, range(2))
    copies = [copy.deepcopy(ours), models.through_a_file(ours, weights_only=False),
              torch.optim.swa_utils.AveragedModel(ours).module]
    models.train(plain, range(2, 4))
    for one in copies:
        models.train(one, range(2, 4))
        expect_equal(models.weights(plain), models.weights(one))
    assert handle.stats()["steps"] == 2
    again = gradwire.torch.attach(copies[0], "none", name="copy")
    for model in (plain, ours, copies[0]):
        models.train(model, range(4, 6))
    assert (again.stats()["steps"], handle.stats()["steps"]) == (2, 4)
    expect_equal(models.weights(plain), models.weights(copies[0]))
    again.close()
    handle.close()


def dropping_the_model_ends_it():
    model, handle = attached("none")
    models.train(model, range(2))
    comm = weakref.ref(handle._comm)
    del model, handle
    gc.collect()
    assert len(gradwire.torch.attaching._routers) == 0
    assert comm() is None
