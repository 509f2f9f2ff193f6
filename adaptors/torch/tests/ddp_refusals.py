"""What attach() and join() refuse, and how the other ranks hear of it. Scenarios of ddp_program."""

import contextlib
import io
import types
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
from models import FEEDBACK, attached, expect_equal_on_ranks, expect_raises


def wrong_uses():
    expect_raises(TypeError, "wrap it first", lambda: gradwire.torch.attach(nn.Linear(2, 2), "none"))
    expect_raises(ValueError, "'topk'", lambda: attached("topc(0.1)"))
    # InvalidArgument, or that rank 0 said so first.
    expect_raises(RuntimeError, "no_such", lambda: attached("none", settings={"no_such": 1}))
    model, handle = attached("none")
    expect_raises(RuntimeError, "or close() the handle", lambda: gradwire.torch.attach(model, "bf16"))
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
    ("none", {"scaler": types.SimpleNamespace(get_scale=lambda: 1.0)}, TypeError,
     "scaler= takes the GradScaler"),
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


def hooks_that_come_after_attach():
    """Of all ranks, and of one, whose words the others have; in a bucket behind others."""
    for failing in (None, 1):
        model, handle = attached("none")
        models.train(model, range(2))
        kind, words = gradwire.Aborted, "the parameter 0.bias has a hook"
        if failing in (None, dist.get_rank()):
            model.module[0].bias.register_post_accumulate_grad_hook(lambda parameter: None)
            kind = (gradwire.InvalidArgument, gradwire.Aborted)
        expect_raises(kind, words, models.loss_of(model, 2).backward)
        assert handle.stats()["steps"] == 2
        handle.close()
        del model, handle


def hooks_on_what_torch_sums_itself():
    model, handle = attached("none", nn.Linear(3, 3).double())
    model.module.bias.register_post_accumulate_grad_hook(lambda parameter: None)
    expect_raises(gradwire.InvalidArgument, "the parameter bias has a hook",
                  model(torch.ones(2, 3).double()).sum().backward)
    handle.close()


class _WideAtTheEnd(nn.Module):
    """Its first bucket, which the last parameter fills, is torch's to sum."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.last = nn.Linear(64, 400, bias=False).double()

    def forward(self, x):
        return self.last(self.first(x).double())


def hooks_of_one_rank_on_what_torch_sums_itself():
    """The other one has a step by then, of which this one has not begun its part."""
    model, handle = attached("none", _WideAtTheEnd(), settings={"op_timeout_ms": 60_000})
    inputs, _ = models.batch(0)
    for _ in range(2):
        model(inputs).sum().backward()
    kind, words, wide = gradwire.Aborted, "the parameter last.weight has a", model.module.last.weight
    if dist.get_rank() == 1:
        kind = gradwire.InvalidArgument
        wide.register_post_accumulate_grad_hook(lambda parameter: None)
    expect_raises(kind, words, model(inputs).sum().backward)
    if dist.get_rank() == 1:  # for torch's group, in which rank 0 has begun this sum
        dist.all_reduce(torch.zeros(wide.numel(), dtype=wide.dtype))
    assert handle.stats()["steps"] == 2
    handle.close()


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


def a_spec_misspelt_on_one_rank():
    """The library finds it when the ranks have joined, and the other one is told all the same."""
    model = models.wrap()
    mine = dist.get_rank() == 1
    kind, words = (gradwire.InvalidArgument, "Did you mean 'qsgd'?") if mine else (
        RuntimeError, "rank 1 could not take part: ")
    spec = "qsdg(bits=4)" if mine else "qsgd(bits=4)"
    expect_raises(kind, words, lambda: gradwire.torch.attach(model, spec))
    handle = gradwire.torch.attach(model, "qsgd(bits=4)")
    models.train(model, range(1))
    handle.close()


def what_nothing_is_compressed_by_is_told():
    """And an empty spec is none."""
    model = models.wrap()
    expect_raises(ValueError, "the spec is empty", lambda: gradwire.torch.attach(model, " "))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        gradwire.torch.attach(model, "qsgd(bits=4)", exclude="*").close()
        gradwire.torch.attach(model, "none").close()
    if dist.get_rank() == 0:
        first, second = said.getvalue().splitlines()
        assert "all exact, nothing as qsgd(bits=4): what exclude= leaves" in first, first
        assert "elements, all exact; residuals take 0.0 MB" in second, second


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
