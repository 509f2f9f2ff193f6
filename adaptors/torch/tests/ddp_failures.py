"""Steps that fail on the way. Scenarios of ddp_program."""

import contextlib
import datetime
import gc
import os
import signal
import threading
import weakref
from unittest import mock

import torch
from torch import distributed as dist
from torch import nn

import gradwire.torch
import models
from gradwire._bindings import gwResult_t
from gradwire.errors import error_of
from gradwire.torch import rendezvous
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks, expect_raises


def _expect_trains_when_wrapped_again(module):
    """As after a failed backward torch wants it; nobody has the earlier wrapping any more."""
    gc.collect()
    again, handle = attached(FEEDBACK, module)
    models.train(again, range(3))
    expect_equal_on_ranks(models.weights(again))
    assert handle.stats()["commits"] == 3
    handle.close()


def ranks_with_other_specs():
    """The step is revoked on both, which are told to wrap the model again, and can."""
    model, handle = attached("bf16" if dist.get_rank() else "qsgd(bits=8)")
    backward = models.loss_of(model, 0).backward
    error = expect_raises((gradwire.Aborted, gradwire.Mismatch), "model/", backward)
    if isinstance(error, gradwire.Aborted):
        assert "attach again" in str(error), error
    handle.close()
    module = model.module
    del model, backward
    _expect_trains_when_wrapped_again(module)


def _take_another_spec(handle):
    for _, tensor in handle._tensors._made.values():
        tensor.set_spec("qsgd(bits=8,feedback=on)")
    return contextlib.nullcontext()


def _be_revoked_in_a_submit(handle):
    error = error_of(gwResult_t.gwAborted, "in a submit of model/0.weight")
    return mock.patch.object(handle._comm, "submit", side_effect=error)


def _go_on(module, state, expected, steps):
    """Trains what a failed step has left, from a state that was saved; expected: what that holds."""
    model, handle = attached(FEEDBACK, module)
    handle.load_state_dict(state)
    models.expect_state(handle, expected)
    models.train(model, steps)
    expect_equal_on_ranks(models.weights(model))
    handle.close()


def a_revoked_step_loses_nothing():
    """The state is there to be saved when it raises, and is that before the step."""
    for revoke in (_take_another_spec, _be_revoked_in_a_submit):
        model, handle = attached(FEEDBACK)
        models.train(model, range(3))
        before, loss = handle.state_dict(), models.loss_of(model, 3)
        with revoke(handle) if dist.get_rank() == 1 else contextlib.nullcontext():
            expect_raises((gradwire.Aborted, gradwire.Mismatch), "model/", loss.backward)
        state = handle.state_dict()
        handle.close()
        module = model.module
        del model, loss
        gc.collect()
        _go_on(module, state, before, range(3, 5))


def failures_of_the_model():
    """A forward that throws, and a graph that is used twice, leave what follows alone."""
    plain, (ours, handle) = models.wrap(), attached("none")
    gradients = []
    for model in (plain, ours):
        expect_raises(RuntimeError, "", lambda m=model: m(torch.ones(3, 5)))
        loss = models.loss_of(model, 0)
        loss.backward(retain_graph=True)
        loss.backward()  # torch adds local gradients, without the other ranks
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        models.train(model, range(3))
    expect_equal(*gradients)
    expect_equal(models.weights(plain), models.weights(ours))
    assert handle.stats()["steps"] == 4
    handle.close()


def failed_backward():
    """Some buckets have been submitted when it throws."""
    model, handle = attached(FEEDBACK)
    first = next(model.parameters()).register_hook(models.fail)
    expect_raises(ZeroDivisionError, "in the model", models.loss_of(model, 0).backward)
    first.remove()
    module = model.module
    del model  # with its hooks of the parameters
    _expect_trains_when_wrapped_again(module)
    handle.close()


def aborted_amid_a_backward():
    """As by a signal's handler: what is left of it raises, and does not wait for torch's group.

    Behind the first buckets, and before them.
    """
    for is_early, gives_up in ((False, "abort"), (False, "close"), (True, "abort")):
        model, handle = attached(FEEDBACK)
        models.train(model, range(2))
        loss = models.loss_of(model, 2)
        place = loss if is_early else next(model.parameters())
        if dist.get_rank() == 0:
            end = getattr(handle, gives_up)
            hook = place.register_hook(lambda grad, end=end: end())
            expect_raises(gradwire.Aborted, "was aborted", loss.backward)
            hook.remove()
            assert not handle.attached
            del hook
        _rank_1_is_told(loss)
        module = model.module
        del model, loss, place
        _expect_trains_when_wrapped_again(module)


@contextlib.contextmanager
def _calling_soon(call, by_signal):
    """From another thread while this one waits, or from a signal's handler in this one."""
    def send():
        os.kill(os.getpid(), signal.SIGUSR1)

    old = signal.signal(signal.SIGUSR1, lambda number, frame: call())
    timer = threading.Timer(0.3, send if by_signal else call)
    timer.start()
    yield
    timer.join()
    signal.signal(signal.SIGUSR1, old)


def aborted_while_backward_waits():
    """What the calls under way use must not go before they return."""
    for by_signal in (False, True):
        model, handle = attached(FEEDBACK)
        models.train(model, range(2))
        loss = models.loss_of(model, 2)
        if dist.get_rank() == 0:
            with _calling_soon(handle.abort, by_signal):
                expect_raises(gradwire.Aborted, "was aborted", loss.backward)
            assert not handle.attached
        dist.barrier()  # rank 1 comes only now
        _rank_1_is_told(loss)
        module = model.module
        del model, loss
        _expect_trains_when_wrapped_again(module)


def a_rank_that_comes_too_late():
    """Backward waits as long as the process group does, unless told otherwise, and names it."""
    group, join = dist.new_group(timeout=datetime.timedelta(seconds=77)), rendezvous.join
    for settings in (None, {"op_timeout_ms": 500}):
        with mock.patch.object(rendezvous, "join", wraps=join) as joined:
            model, handle = attached(FEEDBACK, wrap_options={"process_group": group},
                                     settings=settings)
        assert "op_timeout_ms=77000" in joined.call_args.args[1]
        if settings and dist.get_rank() == 0:
            expect_raises(gradwire.TimedOut, "peer 1", models.loss_of(model, 0).backward)
        dist.barrier()
        handle.abort()


def two_models_in_a_backward_that_fails():
    """The second one's step is given up, for torch does not end it: the other rank hears of it."""
    pairs = [attached(FEEDBACK, name=name, settings={"op_timeout_ms": 60_000})
             for name in ("one", "two")]
    (one, first), (two, second) = pairs

    def losses(step):
        return sum(models.loss_of(model, step) for model in (two, one))  # the last comes first

    losses(0).backward()
    outcome_of = first._outcome

    def fail(sent):
        outcome_of(sent)
        raise gradwire.InvalidUsage("here only")

    loss = losses(1)
    kind, words = gradwire.Aborted, "the step of 'one' failed in the same backward: here only"
    if dist.get_rank() == 1:
        kind, words, first._outcome = gradwire.InvalidUsage, "here only", fail
    expect_raises(kind, words, loss.backward)
    assert (first.stats()["commits"], second.stats()["commits"]) == (2, 1)
    assert second.stats()["aborts"] == 1
    dist.barrier()
    for handle in (first, second):
        handle.close()


class _HalfHead(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.head = nn.Linear(64, 64), nn.Linear(64, 8).half()

    def forward(self, x):
        return self.head(self.trunk(x).half())


def a_parameter_that_first_trains_when_it_must_not_have_the_codec():
    """It is refused as by attach(), which has not seen it, and the step is given up on all ranks."""
    model = models.wrap(_HalfHead())
    model.module.head.requires_grad_(False)
    handle = gradwire.torch.attach(model, FEEDBACK, min_numel=64)
    before = [row["name"] for row in handle.ledger()["tensors"]]
    model.module.head.requires_grad_(True)
    expect_raises(gradwire.InvalidArgument, "model/head.weight has gradients in float16",
                  models.loss_of(model, 0).backward)
    assert [row["name"] for row in handle.ledger()["tensors"]] == before
    assert handle.stats()["aborts"] == 1 and not handle._is_open
    dist.barrier()
    handle.close()


def two_models_in_a_backward_that_is_refused():
    """Likewise, also where torch averages the one that is refused."""
    for closes_first in (False, True):
        one, first = attached(FEEDBACK, name="one")
        two, second = attached(FEEDBACK, name="two", settings={"op_timeout_ms": 60_000})
        if closes_first:
            first.close()
        loss = models.loss_of(one, 0) + models.loss_of(two, 0)  # the last comes first
        one.join(divide_by_initial_world_size=False)
        # Who is late hears of it by the other model, from the rank that gave its step up.
        expect_raises((gradwire.InvalidArgument, gradwire.Aborted),
                      "divide_by_initial_world_size=True", loss.backward)
        assert second.stats()["aborts"] == 1 and not second._is_open
        dist.barrier()
        for handle in (first, second):
            handle.close()


def interrupted_amid_a_backward():
    """Ctrl-C while it computes shows in the hook: the others wait for no further bucket."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    loss = models.loss_of(model, 2)
    if dist.get_rank() == 0:
        with mock.patch.object(handle, "_submit", side_effect=KeyboardInterrupt):
            expect_raises(KeyboardInterrupt, "", loss.backward)
    _rank_1_is_told(loss)
    handle.close()


def _fail_on_rank_0():
    """(model, handle, loss): the backward has failed on rank 0, and is to come on rank 1."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    loss = models.loss_of(model, 2)
    if dist.get_rank() == 0:
        hook = next(model.parameters()).register_hook(models.fail)
        expect_raises(ZeroDivisionError, "in the model", loss.backward)
        hook.remove()
    return model, handle, loss


def _rank_1_is_told(loss):
    if dist.get_rank() == 1:
        expect_raises(gradwire.PeerLost, "", loss.backward)


def saving_gives_up_an_open_step():
    """The state is that before the step, and training goes on with it."""
    model, handle, loss = _fail_on_rank_0()
    if dist.get_rank() == 1:
        before = handle.state_dict()
        expect_raises(gradwire.Aborted, "gave the step up: its backward failed", loss.backward)
        models.expect_state(handle, before)
    state = handle.state_dict()
    assert int(state["gradwire/model/step"]) == 2 and handle.stats()["aborts"] == 1
    handle.close()
    module = model.module
    del model, loss
    gc.collect()
    _go_on(module, state, state, range(2, 4))


def attaching_again_ends_an_open_step():
    model, handle, loss = _fail_on_rank_0()
    if dist.get_rank() == 0:
        # Not in DDP's constructor, which waits for the other rank.
        gradwire.torch.ddp_handle.end_open_steps_of(model.named_parameters())
        assert not handle.attached
    _rank_1_is_told(loss)
    module = model.module
    del model, loss
    _expect_trains_when_wrapped_again(module)
    handle.close()


def dropping_the_handle_ends_an_open_step():
    model, handle, loss = _fail_on_rank_0()
    comm = weakref.ref(handle._comm)
    _rank_1_is_told(loss)
    del model, handle, loss
    gc.collect()
    assert comm() is None
