"""Wrong uses, and steps that fail on the way. Scenarios of ddp_program."""

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
from torch.distributed.algorithms.ddp_comm_hooks.ddp_zero_hook import hook_with_zero_step
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.optim import ZeroRedundancyOptimizer, _apply_optimizer_in_backward
from torch.nn.parallel import distributed

import gradwire.torch
import models
from gradwire._bindings import gwResult_t
from gradwire.errors import error_of
from gradwire.torch import rendezvous
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks, expect_raises


def wrong_uses():
    expect_raises(TypeError, "wrap it first", lambda: gradwire.torch.attach(nn.Linear(2, 2), "none"))
    expect_raises(ValueError, "'topk'", lambda: attached("topc(0.1)"))
    # InvalidArgument, or that rank 0 said so first.
    expect_raises(RuntimeError, "no_such", lambda: attached("none", settings={"no_such": 1}))
    model, handle = attached("none")
    expect_raises(RuntimeError, "detach first", lambda: gradwire.torch.attach(model, "bf16"))
    handle.close()
    hooked = models.wrap()
    hooked.register_comm_hook(None, allreduce_hook)
    expect_raises(ValueError, "allreduce_hook", lambda: gradwire.torch.attach(hooked, "none"))
    split = nn.Linear(3, 3, dtype=torch.complex64)
    expect_raises(ValueError, "complex", lambda: attached("none", split))


_WRONG_ARGUMENTS = [
    (None, {}, TypeError, "the spec is a text"),
    ("none", {"name": None}, TypeError, "name= takes a text"),
    ("none", {"exclude": None}, TypeError, "exclude= takes globs"),
    ("none", {"min_numel": "4096"}, TypeError, "min_numel= takes a number"),
    ("none", {"scaler": True}, TypeError, "scaler= takes the GradScaler"),
    ("none", {"settings": 5}, TypeError, "settings take a dict or text")]


def wrong_arguments():
    """They are found before the ranks join: those of one rank are told to all."""
    model = models.wrap()
    for failing in (None, 1):
        for spec, options, kind, words in _WRONG_ARGUMENTS:
            if failing not in (None, dist.get_rank()):
                spec, options = "none", {}
                kind, words = RuntimeError, f"rank {failing} could not take part: {words}"
            expect_raises(kind, words,
                          lambda s=spec, o=options: gradwire.torch.attach(model, s, **o))
    gradwire.torch.attach(model, "none").close()


def a_name_that_another_model_has():
    """One that was dropped has it no more, nor one that is detached."""
    first, handle = attached("none")
    expect_raises(ValueError, "give each model of a process a name=", lambda: attached("none"))
    second, other = attached("none", name="second")
    assert not handle.state_dict().keys() & other.state_dict().keys()
    handle.close()
    third, _ = attached("none")
    del first, third, _
    fourth, handle = attached("none")
    models.train(fourth, range(1))
    handle.close()
    other.close()
    del second, fourth


def what_ddp_itself_is_told():
    """Each is refused by name, before the ranks join."""
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        model = models.wrap()
    expect_raises(ValueError, "python_reducer", lambda: gradwire.torch.attach(model, "none"))
    model = models.wrap()
    # DDP itself wants an accelerator for it.
    policy = distributed._MixedPrecision(param_dtype=torch.bfloat16)
    with mock.patch.object(model, "mixed_precision", policy):
        expect_raises(ValueError, "mixed_precision=", lambda: gradwire.torch.attach(model, "none"))
    for count in (1, 2):  # of two that train; without any DDP has no reducer
        module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False))
        model = models.wrap(module, bucket_cap_mb=1, param_to_hook_all_reduce=module[0].bias,
                            delay_all_reduce_named_params=list(module.named_parameters())[:count])
        expect_raises(ValueError, "delay_all_reduce_named_params=",
                      lambda m=model: gradwire.torch.attach(m, "none"))
    model = models.wrap(find_unused_parameters=True, skip_all_reduce_unused_params=True)
    expect_raises(ValueError, "skip_all_reduce_unused_params=",
                  lambda: gradwire.torch.attach(model, "none"))
    module = models.network()
    _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.1})
    expect_raises(ValueError, "optimizer in the backward", lambda: attached("none", module))
    model = models.wrap()
    hook = model.module[0].bias.register_post_accumulate_grad_hook(lambda parameter: None)
    expect_raises(ValueError, "0.bias has a hook", lambda: gradwire.torch.attach(model, "none"))
    hook.remove()
    gradwire.torch.attach(model, "none").close()
    hooked = models.wrap()
    optimizer = ZeroRedundancyOptimizer(hooked.parameters(), torch.optim.SGD,
                                        overlap_with_ddp=True, lr=0.1)
    with mock.patch.object(dist, "get_backend", return_value="nccl"):  # it does not take gloo
        hook = hook_with_zero_step(allreduce_hook, hooked, optimizer)
    hooked.register_comm_hook(None, hook)
    expect_raises(ValueError, "hook_with_zero_step", lambda: gradwire.torch.attach(hooked, "none"))


def finalized_by_hand():
    """Torch's since 2.15: it would wait in a hook for averages that come when backward ends."""
    if not hasattr(distributed.DistributedDataParallel, "finalize_backward"):
        return
    model = models.wrap()
    model.require_manual_backward_finalization = True
    expect_raises(ValueError, "finalize_backward()", lambda: gradwire.torch.attach(model, "none"))
    model.require_manual_backward_finalization = False
    handle = gradwire.torch.attach(model, "none")
    models.train(model, range(2))
    model.require_manual_backward_finalization = True
    expect_raises(gradwire.InvalidArgument, "finalize_backward()",
                  models.loss_of(model, 2).backward)
    assert handle.stats()["steps"] == 2
    handle.close()


def joins_that_divide_by_fewer_ranks():
    """Raised on all ranks, by the first step, also of one that has no input, and after the end."""
    for closes_first in (False, True):
        model, handle = attached("none")
        if closes_first:
            handle.close()

        def train(model=model):
            with model.join(divide_by_initial_world_size=False):
                models.train(model, range(dist.get_rank()))

        expect_raises(gradwire.InvalidArgument, "divide_by_initial_world_size=True", train)
        if not closes_first:
            assert handle.stats()["steps"] == 0
            handle.close()


def joins_with_a_scaler():
    """Raised on all ranks, by the first step, also of one that has no input; not after the end."""
    model, handle = attached("none", scaler=torch.amp.GradScaler("cpu"))

    def train():
        with model.join():
            models.train(model, range(dist.get_rank()))

    expect_raises(gradwire.InvalidArgument, "without attach(scaler=)", train)
    assert handle.stats()["steps"] == 0
    handle.close()
    model, handle = attached("none", scaler=torch.amp.GradScaler("cpu"))
    handle.close()
    with model.join():
        models.train(model, range(1 + dist.get_rank()))
    expect_equal_on_ranks(models.weights(model))


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
    gc.collect()
    again, handle = attached(FEEDBACK, module)
    models.train(again, range(3))
    expect_equal_on_ranks(models.weights(again))
    assert handle.stats()["commits"] == 3
    handle.close()


def _take_another_spec(handle):
    for _, tensor in handle._tensors._made.values():
        tensor.set_spec("qsgd(bits=8,feedback=on)")
    return contextlib.nullcontext()


def _be_revoked_in_a_submit(handle):
    error = error_of(gwResult_t.gwAborted, "in a submit of model/0.weight")
    return mock.patch.object(handle._comm, "submit", side_effect=error)


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
        again, handle = attached(FEEDBACK, module)
        handle.load_state_dict(state)
        assert state.keys() == before.keys()
        for key, value in handle.state_dict().items():
            expect_equal(value, before[key])
        models.train(again, range(3, 5))
        expect_equal_on_ranks(models.weights(again))
        handle.close()


def builtin_hook():
    model = models.wrap()
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    for _ in range(2):
        expect_raises(ValueError, "it takes only one", lambda: gradwire.torch.attach(model, "none"))


def a_check_that_fails_on_one_rank():
    """The other one is told, and they meet at the next attach."""
    for failing in range(dist.get_world_size()):
        model = models.wrap()
        kind, words = RuntimeError, f"rank {failing} could not take part: the model has"
        if dist.get_rank() == failing:
            model.register_comm_hook(None, allreduce_hook)
            kind, words = ValueError, "allreduce_hook"
        expect_raises(kind, words, lambda m=model: gradwire.torch.attach(m, "none"))
    again, handle = attached("none")
    models.train(again, range(1))
    handle.close()


def a_model_that_one_rank_did_not_wrap():
    """Its attach meets nobody; the next one of all ranks does, whether the others had called it."""
    def attach(model, **settings):
        return gradwire.torch.attach(model, FEEDBACK, settings=settings)

    def train():
        handle = attach(model)
        models.train(model, range(3))
        expect_equal_on_ranks(models.weights(model))
        assert handle.stats()["commits"] == 3
        handle.close()

    model = models.wrap()
    for others_call in (True, False):
        if dist.get_rank() == 1:
            expect_raises(TypeError, "wrap it first", lambda: attach(model.module))
        elif others_call:
            expect_raises(gradwire.TimedOut, "have not come: 1,",
                          lambda: attach(model, init_timeout_ms=100))
        dist.barrier()
        train()
    # The others wait yet when it comes.
    if dist.get_rank() == 1:
        expect_raises(TypeError, "wrap it first", lambda: attach(model.module))
    train()


def what_ddp_does_not_take_is_told():
    """Of one rank to all."""
    model = models.wrap()
    kind, words, options = RuntimeError, "rank 1 could not take part: across= is for", {}
    if dist.get_rank() == 1:
        kind, words, options = ValueError, "across= is for", {"across": dist.group.WORLD}
    expect_raises(kind, words, lambda: gradwire.torch.attach(model, "none", **options))


def failures_of_the_model():
    """A forward that throws, and a graph that is used twice, leave what follows alone."""
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        expect_raises(RuntimeError, "", lambda m=model: m(torch.ones(3, 5)))
        loss = models.loss_of(model, 0)
        loss.backward(retain_graph=True)
        loss.backward()  # torch adds local gradients, without the other ranks
        models.train(model, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    assert handle.stats()["steps"] == 4
    handle.close()


def failed_backward():
    """Some buckets have been submitted when it throws; the model is wrapped again, as torch wants."""
    model, handle = attached(FEEDBACK)
    first = next(model.parameters()).register_hook(models.fail)
    expect_raises(ZeroDivisionError, "in the model", models.loss_of(model, 0).backward)
    first.remove()
    module = model.module
    del model  # with its hooks of the parameters
    gc.collect()
    again, new_handle = attached(FEEDBACK, module)
    models.train(again, range(3))
    expect_equal_on_ranks(models.weights(again))
    assert new_handle.stats()["commits"] == 3
    handle.close()
    new_handle.close()


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
        gc.collect()
        again, new_handle = attached(FEEDBACK, module)
        models.train(again, range(2))
        new_handle.close()


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
        gc.collect()
        again, new_handle = attached(FEEDBACK, module)
        models.train(again, range(2))
        new_handle.close()


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


def attaching_again_ends_an_open_step():
    model, handle, loss = _fail_on_rank_0()
    if dist.get_rank() == 0:
        # Not in DDP's constructor, which waits for the other rank.
        gradwire.torch.ddp_handle.end_open_steps_of(model.named_parameters())
        assert not handle.attached
    _rank_1_is_told(loss)
    module = model.module
    del model, loss
    gc.collect()
    again, new_handle = attached(FEEDBACK, module)
    models.train(again, range(3))
    expect_equal_on_ranks(models.weights(again))
    new_handle.close()
    handle.close()


def dropping_the_handle_ends_an_open_step():
    model, handle, loss = _fail_on_rank_0()
    comm = weakref.ref(handle._comm)
    _rank_1_is_told(loss)
    del model, handle, loss
    gc.collect()
    assert comm() is None
