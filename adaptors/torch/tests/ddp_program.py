"""What test_ddp runs on two ranks: ddp_program.py SCENARIO...

Prints "passed SCENARIO" for each; a rank that fails ends the program.
"""

import copy
import faulthandler
import gc
import io
import os
import sys
import traceback
import warnings
import weakref

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import gradwire.torch
import models
from gradwire.torch.ddp import DdpHandle
from launch import LIMIT_S
from models import attached, expect_equal, expect_equal_on_ranks, expect_raises

COMPRESSED = ["bf16", "qsgd(bits=8)", "qsgd(bits=4,feedback=on)", "topk(0.1)", "powersgd(rank=4)",
              "efsign", "auto"]
FEEDBACK = "qsgd(bits=4,feedback=on)"
# The ways in which DDP drives hooks.
WAYS = [{}, {"bucket_cap_mb": 25}, {"gradient_as_bucket_view": True}, {"static_graph": True},
        {"find_unused_parameters": True}]


def none_is_plain_ddp():
    for way in WAYS:
        plain, (ours, handle) = models.wrap(**way), attached("none", wrap_options=way)
        assert models.train(plain, range(5)) == models.train(ours, range(5)), way
        expect_equal(models.weights(plain), models.weights(ours))
        assert handle.stats()["steps"] == 5
        handle.close()


def compressed_trains():
    for spec in COMPRESSED:
        for way in WAYS[:4]:
            model, handle = attached(spec, wrap_options=way, min_numel=256)
            losses = models.train(model, range(40))
            first, last = sum(losses[:5]), sum(losses[-5:])
            assert last < 0.8 * first, (spec, way, first, last)
            expect_equal_on_ranks(models.weights(model))
            assert handle.stats()["commits"] == 40
            handle.close()


def buckets_are_rebuilt():
    """The residuals belong to parameters, not to buckets: nothing is lost but for the flush."""
    counts = []

    class Watched(DdpHandle):
        def on_bucket(self, bucket):
            if bucket.is_last():
                counts.append(bucket.index() + 1)
            return super().on_bucket(bucket)

    class Sum(nn.Module):
        """The gradient of each weight is its input."""

        def __init__(self):
            super().__init__()
            self.parts = nn.ParameterList(nn.Parameter(torch.zeros(90, 100)) for _ in range(6))

        def forward(self, inputs):
            return sum((w * x).sum() for w, x in zip(self.parts, inputs))

    gradwire.torch.ddp.DdpHandle = Watched
    try:
        model, handle = attached("topk(0.05)", Sum(), {"bucket_cap_mb": 0.05})
    finally:
        gradwire.torch.ddp.DdpHandle = DdpHandle
    steps, sent, meant = 8, torch.zeros(6, 90, 100), torch.zeros(6, 90, 100)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(dist.get_world_size(), 6, 90, 100, generator=generator)
        if step == steps - 1:
            handle.detach()
        model.zero_grad()
        model(inputs[dist.get_rank()]).backward()
        sent += torch.stack([p.grad for p in model.module.parts])
        meant += inputs.mean(0)
    assert counts[0] != counts[-1] and counts[-1] > 2, counts
    assert not handle.attached
    difference = (sent - meant).abs().max().item()
    assert difference < 1e-4, difference


def no_sync():
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        with model.no_sync():
            for step in range(3):
                models.loss_of(model, step).backward()
        models.loss_of(model, 3).backward()
        models.loss_of(model, 4).backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        expect_equal(one.grad, other.grad)
    assert handle.stats()["steps"] == 2
    handle.close()


class Branches(nn.Module):
    """A rank uses branch `chosen` only."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(64, 64)
        self.branches = nn.ModuleList(nn.Linear(64, 8) for _ in range(3))
        self.chosen = 0

    def forward(self, x):
        return self.branches[self.chosen](self.trunk(x))


def unused_parameters():
    way = {"find_unused_parameters": True}
    plain, (ours, handle) = models.wrap(Branches(), **way), attached("none", Branches(), way)
    for model in (plain, ours):
        model.module.chosen = dist.get_rank()  # nobody takes the third branch
        models.train(model, range(4))
    expect_equal(models.weights(plain), models.weights(ours))
    assert ours.module.branches[2].weight.grad is None
    handle.close()


def uneven_inputs():
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        with model.join(divide_by_initial_world_size=True):
            models.train(model, range(3 + 2 * dist.get_rank()))
    expect_equal(models.weights(plain), models.weights(ours))
    assert handle.stats()["commits"] == 5
    handle.close()


def some_stay_exact():
    model, handle = attached("topk(0.01)", exclude=["2.*"], name="exact")
    rows = {row["name"]: row["spec"] for row in handle.ledger()["tensors"]}
    assert rows["exact/0.weight"].startswith("topk"), rows
    exact = {name for name, spec in rows.items() if spec == "none"}
    # Excluded, of one dimension, and 8 x 128 elements.
    assert {"exact/2.weight", "exact/0.bias", "exact/5.weight"} <= exact, exact
    assert len(exact) == len(rows) - 2
    handle.close()


def half_precision():
    module = models.network().half()
    expect_raises(ValueError, "scaler=", lambda: attached(FEEDBACK, copy.deepcopy(module)))
    for options in ({"scaler": False}, {"scaler": torch.amp.GradScaler("cpu")}):
        _, handle = attached(FEEDBACK, copy.deepcopy(module), **options)
        handle.close()
    # Without feedback nothing sums up.
    _, handle = attached("qsgd(bits=8)", copy.deepcopy(module))
    handle.close()


def bfloat16_parameters():
    plain, (ours, handle) = (models.wrap(models.network().bfloat16()),
                             attached("none", models.network().bfloat16()))
    for model in (plain, ours):
        x, _ = models.batch(0)
        model(x.bfloat16()).float().sum().backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        assert torch.allclose(one.grad.float(), other.grad.float(), rtol=2e-2, atol=1e-2)
    handle.close()


def overflow_skips_on_all_ranks():
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model, handle = attached(FEEDBACK, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=models.LEARNING_RATE)
    for step in range(4):
        before = models.weights(model)
        optimizer.zero_grad()
        loss = models.loss_of(model, step)
        if step == 2 and dist.get_rank() == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, models.weights(model)) == (step == 2), step
    expect_equal_on_ranks(models.weights(model))
    stats = handle.stats()
    assert (stats["commits"], stats["skips"], scaler.get_scale()) == (3, 1, 512.0), stats
    handle.close()


def overflow_without_scaler_is_an_error():
    model, handle = attached("none", settings={"nonfinite": "skip"})
    loss = models.loss_of(model, 0) * (float("nan") if dist.get_rank() == 0 else 1.0)
    expect_raises(gradwire.NonFinite, "", loss.backward)
    handle.close()


def _resumed(state, weights, steps):
    model, handle = attached(FEEDBACK)
    model.module.load_state_dict(weights)
    if state is not None:
        handle.load_state_dict(state)
        for key, value in handle.state_dict().items():
            expect_equal(value, state[key])
    models.train(model, steps)
    handle.close()
    return models.weights(model)


def resume_gives_the_same_bits():
    model, handle = attached(FEEDBACK)
    models.train(model, range(6))
    weights = copy.deepcopy(model.module.state_dict())
    file = io.BytesIO()
    torch.save(handle.state_dict(), file)
    handle.close()
    file.seek(0)
    state = torch.load(file, weights_only=True)
    rank = f"rank{dist.get_rank()}of2"
    assert set(state) == {f"gradwire/model/{rank}/state", f"gradwire/model/{rank}/step"}, set(state)
    once, again = (_resumed(state, weights, range(6, 12)) for _ in range(2))
    expect_equal(once, again)
    assert not torch.equal(once, _resumed(None, weights, range(6, 12)))


def foreign_checkpoints():
    _, handle = attached(FEEDBACK, name="mine")
    mine = handle.state_dict()
    foreign = {key.replace("mine", "other"): value for key, value in mine.items()}
    expect_raises(ValueError, "no state of 'mine'", lambda: handle.load_state_dict(foreign))
    resized = {key.replace("of2", "of4"): value for key, value in mine.items()}
    expect_raises(ValueError, f"this is rank{dist.get_rank()}of2",
                  lambda: handle.load_state_dict(resized, residuals="error"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle.load_state_dict(resized)
    assert "residuals begin at zero" in str(caught[0].message), caught
    damaged = {key: value.clone() for key, value in mine.items()}
    next(v for k, v in damaged.items() if k.endswith("state"))[20] += 1
    expect_raises(gradwire.DataCorrupt, "", lambda: handle.load_state_dict(damaged))
    handle.close()


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


def wrong_uses():
    expect_raises(TypeError, "wrap it first", lambda: gradwire.torch.attach(nn.Linear(2, 2), "none"))
    expect_raises(ValueError, '"topk"', lambda: attached("topc(0.1)"))
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


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 64, sparse=True)
        self.head = nn.Linear(64, 1)
        self.wide = nn.Linear(64, 1).double()

    def forward(self, numbers):
        found = self.words(numbers)
        return self.head(found).sum() + self.wide(found.double()).sum().float()


def others_go_through_torch():
    """Sparse gradients and float64."""
    plain, (ours, handle) = models.wrap(Embedded()), attached("none", Embedded())
    numbers = torch.arange(7) * (dist.get_rank() + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for model in (plain, ours):
            model(numbers).backward()
    said = {str(warning.message).split(" are ")[0] for warning in caught}
    assert {"sparse gradients", "gradients of type torch.float64"} <= said, said
    for one, other in zip(plain.parameters(), ours.parameters()):
        expect_equal(one.grad.to_dense(), other.grad.to_dense())
    handle.close()


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

    def fail(grad):
        raise ZeroDivisionError("in the model")

    first = next(model.parameters()).register_hook(fail)
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


def _fail(grad):
    raise ZeroDivisionError("in the model")


def _fail_on_rank_0():
    """(model, handle, loss): the backward has failed on rank 0, and is to come on rank 1."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    loss = models.loss_of(model, 2)
    if dist.get_rank() == 0:
        hook = next(model.parameters()).register_hook(_fail)
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
        gradwire.torch.ddp._end_open_steps_of(model.named_parameters())
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


def frozen_after_wrapping():
    way = {"find_unused_parameters": True}
    plain, ours = models.wrap(**way), models.wrap(**way)
    for model in (plain, ours):
        model.module[0].weight.requires_grad_(False)
    handle = gradwire.torch.attach(ours, "none")
    for model in (plain, ours):
        models.train(model, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    handle.close()


def disabled_scaler_is_none():
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    half = models.network().half()
    expect_raises(ValueError, "scaler=", lambda: attached(FEEDBACK, half, scaler=scaler))
    model, handle = attached("none", scaler=scaler)
    # As plain DDP does: the other layers' gradients stay what they are.
    model.module[0].weight.register_hook(lambda grad: grad * float("inf"))
    models.loss_of(model, 0).backward()
    assert model.module[5].weight.grad.isfinite().all()
    handle.close()


def settings_as_text():
    scaler = torch.amp.GradScaler("cpu")
    for settings in ("nonfinite=error", "op_timeout_ms=100000", {"nonfinite": "error"}):
        _, handle = attached("none", scaler=scaler, settings=settings)
        handle.close()


def dropped_residuals_begin_at_zero():
    model, handle = attached("topk(0.01)", min_numel=0)
    models.train(model, range(4))
    prefix = f"gradwire/model/rank{dist.get_rank()}of2"
    state = handle.state_dict()
    foreign = {key.replace("of2", "of4"): value for key, value in state.items()}
    handle.close()
    fresh, new_handle = attached("topk(0.01)", min_numel=0)
    models.train(fresh, range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new_handle.load_state_dict(foreign)
    loaded = new_handle.state_dict()
    assert int(loaded[f"{prefix}/step"]) == 4
    # Less than with residuals.
    assert not torch.equal(loaded[f"{prefix}/state"], state[f"{prefix}/state"])
    assert (loaded[f"{prefix}/state"] != 0).sum() < 0.1 * (state[f"{prefix}/state"] != 0).sum()
    models.train(fresh, range(2))
    expect_equal_on_ranks(models.weights(fresh))
    new_handle.close()


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


def builtin_hook():
    model = models.wrap()
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    for _ in range(2):
        expect_raises(ValueError, "it takes only one", lambda: gradwire.torch.attach(model, "none"))


def a_check_that_fails_on_one_rank():
    """The ranks meet all the same at the next attach."""
    model = models.wrap()
    if dist.get_rank() == 0:
        model.register_comm_hook(None, allreduce_hook)
        expect_raises(ValueError, "allreduce_hook", lambda: gradwire.torch.attach(model, "none"))
    else:
        # What attach does before it waits for rank 0.
        gradwire.torch.rendezvous.MeetingPoint(model.process_group)
    again, handle = attached("none")
    models.train(again, range(1))
    handle.close()


def two_models():
    """Trained in turns, and by one backward."""
    pairs = [attached(FEEDBACK, name=name) for name in ("one", "two")]
    (one, _), (two, _) = pairs
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=models.LEARNING_RATE)
    for step in range(6):
        optimizer.zero_grad()
        if step < 3:
            models.loss_of(one, step).backward()
            models.loss_of(two, step).backward()
        else:
            (models.loss_of(one, step) + models.loss_of(two, step)).backward()
        optimizer.step()
    for model, handle in pairs:
        expect_equal_on_ranks(models.weights(model))
        assert handle.stats()["commits"] == 6
        handle.close()


def compiled():
    # torch cuts the graph where buckets end, which it cannot if they are this small.
    way = {"bucket_cap_mb": 25}
    plain = models.wrap(**way)
    ours, handle = attached("none", torch.compile(models.network(), backend="eager"), way)
    models.train(plain, range(3))
    models.train(ours, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    names = {row["name"] for row in handle.ledger()["tensors"]}
    assert "model/0.weight" in names, names
    handle.close()


def dropping_the_model_ends_it():
    model, handle = attached("none")
    models.train(model, range(2))
    comm = handle._comm
    del model, handle
    gc.collect()
    assert len(gradwire.torch.attaching._routers) == 0
    del comm


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((64,), float(index)), torch.zeros(8)


def forked_workers():
    model, handle = attached(FEEDBACK)
    models.train(model, range(1))
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2,
                                         multiprocessing_context="fork")
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
    assert handle.stats()["commits"] == 5
    handle.close()


def main():
    # With all stacks, before the launcher kills without a word.
    faulthandler.dump_traceback_later(LIMIT_S - 10, exit=True)
    dist.init_process_group("gloo")
    for scenario in sys.argv[1:]:
        try:
            globals()[scenario]()
        except BaseException:
            print(f"failed {scenario}\n{traceback.format_exc()}", flush=True)
            os._exit(1)
        gc.collect()
        print(f"passed {scenario}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
