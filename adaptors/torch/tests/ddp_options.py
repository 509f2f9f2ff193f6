"""What attach() can be told, the loss scaler among it. Scenarios of ddp_program."""

import contextlib
import copy
import warnings

import torch
from torch import distributed as dist
from torch import nn

import gradwire.torch
import models
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks, expect_raises


def some_stay_exact():
    model, handle = attached("topk(0.01)", exclude=["2.*"], name="exact")
    rows = {row["name"]: row["spec"] for row in handle.ledger()["tensors"]}
    assert rows["exact/0.weight"].startswith("topk"), rows
    exact = {name for name, spec in rows.items() if spec == "none"}
    # Excluded, of one dimension, and 8 x 128 elements.
    assert {"exact/2.weight", "exact/0.bias", "exact/5.weight"} <= exact, exact
    assert len(exact) == len(rows) - 2
    handle.close()


def _compressed(spec, **options):
    """How many elements each of the tensors has that are not exact, in ascending order."""
    _, handle = attached(spec, **options)
    rows = handle.ledger()["tensors"]
    handle.close()
    return sorted(row["elems"] for row in rows if row["spec"] != "none" or row["auto"])


def small_tensors():
    """Of 128, 128, 128 and 8 elements, 8 x 128, and larger ones."""
    large = [64 * 128, 128 * 128, 128 * 128]
    assert _compressed("qsgd(bits=4)") == large
    assert _compressed("auto") == [8 * 128] + large
    for spec in ("auto", "qsgd(bits=4)"):
        assert _compressed(spec, min_numel=2000) == large
    assert _compressed("qsgd(bits=4)", min_numel=0) == [8, 128, 128, 128, 8 * 128] + large
    assert _compressed("topk(0.01)", min_numel=0) == [8 * 128] + large
    assert len(_compressed("topk(0.1,min_numel=0)", min_numel=0)) == 8


def what_is_excluded_in_vain_is_told():
    """On all ranks alike, for filters may make an error of it; then none is attached."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, handle = attached("none", exclude=["2.*", "*.bais"])
    told = [str(one.message) for one in caught if "exclude=" in str(one.message)]
    assert len(told) == 1 and "'*.bais'" in told[0] and "2.*" not in told[0], told
    handle.close()
    model = models.wrap()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expect_raises(UserWarning, "'*.bais'",
                      lambda: gradwire.torch.attach(model, "none", exclude="*.bais"))
    assert not model._comm_hooks
    handle = gradwire.torch.attach(model, "none")
    models.train(model, range(1))
    handle.close()


def settings_as_text():
    scaler = torch.amp.GradScaler("cpu")
    for settings in ("nonfinite=error", "op_timeout_ms=100000", {"nonfinite": "error"}):
        _, handle = attached("none", scaler=scaler, settings=settings)
        handle.close()


def half_precision():
    module = models.network().half()
    for spec in (FEEDBACK, "auto"):
        expect_raises(ValueError, "or scaler=False",
                      lambda s=spec: attached(s, copy.deepcopy(module)))
        for scaler in (False, torch.amp.GradScaler("cpu")):
            _, handle = attached(spec, copy.deepcopy(module), scaler=scaler)
            handle.close()
    # Without feedback nothing sums up.
    _, handle = attached("qsgd(bits=8)", copy.deepcopy(module))
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
    for policy in ("skip", "error"):
        model, handle = attached("none", settings={"nonfinite": policy})
        loss = models.loss_of(model, 0) * (float("nan") if dist.get_rank() == 0 else 1.0)
        expect_raises(gradwire.NonFinite, "NaN", loss.backward)
        handle.close()


class _Scale:
    """A scaler that tells how often it was asked."""

    def __init__(self):
        self.scale, self.calls = 1024.0, 0

    def is_enabled(self):
        return True

    def get_scale(self):
        self.calls += 1
        return self.scale


def _step_of_sums(model, inputs, scale):
    """The gradients, one behind the other."""
    model.zero_grad()
    (scale * model(inputs)).backward()
    return torch.stack([part.grad.float() for part in model.module.parts]) / scale


def signs_are_averages_in_every_type():
    """Of one magnitude, that of the scale, also beside what is exact and behind another codec."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = models.Sum.inputs(0).half()
        signs, mean = inputs.sign().sum(0).sign(), inputs.float().mean(0)
        for scaler in (None, _Scale()):
            model, handle = attached("signsgd", models.Sum().to(dtype), exclude="parts.0",
                                     scaler=scaler)
            mine, scale = inputs[dist.get_rank()].to(dtype), scaler.get_scale() if scaler else 1.0
            for spec in (None, "none", "signsgd"):
                if spec:
                    handle.set_spec(spec)
                got = _step_of_sums(model, mine, scale)
                torch.testing.assert_close(got[0], mean[0], rtol=0.02, atol=0.02)
                if spec == "none":
                    torch.testing.assert_close(got, mean, rtol=0.02, atol=0.02)
                else:
                    expect_equal(got[1:], signs[1:].float())
            handle.detach()
            got = _step_of_sums(model, mine, scale)
            torch.testing.assert_close(got, mean, rtol=0.02, atol=0.02)
            assert not handle.attached


def residuals_have_no_scale():
    """One that changes amid a run loses nothing of the sum; it is asked once a step."""
    scaler, steps, total = _Scale(), 8, 0
    model, handle = attached("topk(0.05)", models.Sum(), {"bucket_cap_mb": 0.05}, scaler=scaler)
    for step in range(steps):
        scaler.scale = 1024.0 if step < 4 else 512.0
        if step == steps - 1:
            handle.detach()
        inputs = models.Sum.inputs(step)
        model.zero_grad()
        (scaler.scale * model(inputs[dist.get_rank()])).backward()
        total += torch.stack([p.grad for p in model.module.parts]) / scaler.scale - inputs.mean(0)
    assert scaler.calls == steps, scaler.calls
    assert not handle.attached
    assert total.abs().max() < 1e-4, total.abs().max()


def what_is_thrown_away_does_not_come_back():
    """In what was kept back; also in the step that is to send all of it."""
    model, handle = attached("topk(0.05)", models.Sum(), {"bucket_cap_mb": 0.05})
    total = 0
    for step in range(6):
        if step == 4:
            handle.detach()
        is_thrown_away = step in (2, 4)
        inputs = models.Sum.inputs(step)
        model.zero_grad()
        with handle.discarding() if is_thrown_away else contextlib.nullcontext():
            model(inputs[dist.get_rank()]).backward()
        if not is_thrown_away:
            total += torch.stack([p.grad for p in model.module.parts]) - inputs.mean(0)
    assert not handle.attached
    assert total.abs().max() < 1e-4, total.abs().max()


def nothing_is_thrown_away_without_a_former_state():
    _, handle = attached("topk(0.05)", settings={"transaction": "off"})
    expect_raises(gradwire.InvalidUsage, "transaction=off", handle.discarding().__enter__)
    handle.close()


class _WithOthers(models.Sum):
    """Two of its gradients go through torch's own group, and are the factors."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Parameter(torch.zeros(10, dtype=torch.float64))
        self.words = nn.Embedding(20, 4, sparse=True)
        self.factors = {}

    def forward(self, inputs, chosen=range(6)):
        others = {"wide": self.wide.sum(), "words": self.words(torch.arange(3)).sum()}
        return super().forward(inputs, chosen) + sum(self.factors.get(name, 1.0) * one.float()
                                                     for name, one in others.items())


def an_overflow_of_what_torch_sums():
    """The scaler skips a step that gradwire's ranks would commit: nothing that was kept back is
    lost, also in the step that is to send all of it."""
    scaler, total = _Scale(), 0
    model, handle = attached("topk(0.05)", _WithOthers(), {"bucket_cap_mb": 0.05}, scaler=scaler)
    overflows = {2: "wide", 4: "words", 5: "wide"}
    for step in range(7):
        if step == 5:
            handle.detach()
        inputs = models.Sum.inputs(step)
        is_mine = step in overflows and dist.get_rank() == 1
        model.module.factors = {overflows[step]: float("inf")} if is_mine else {}
        model.zero_grad()
        (scaler.scale * model(inputs[dist.get_rank()])).backward()
        gradients = torch.stack([p.grad for p in model.module.parts])
        assert gradients.isnan().all() == (step in overflows), step
        if step not in overflows:
            total += gradients / scaler.scale - inputs.mean(0)
    assert not handle.attached
    assert total.abs().max() < 1e-4, total.abs().max()


class _WithNothing(nn.Module):
    """One of its parameters has no elements."""

    def __init__(self):
        super().__init__()
        self.layers = models.network()
        self.nothing = nn.Parameter(torch.empty(0, 64))

    def forward(self, x):
        return self.layers(x) + self.nothing.sum()


def a_parameter_without_elements():
    plain, (ours, handle) = models.wrap(_WithNothing()), attached("none", _WithNothing())
    for model in (plain, ours):
        models.train(model, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    handle.close()
    model, handle = attached(FEEDBACK, _WithNothing(), min_numel=0)
    models.train(model, range(3))
    expect_equal_on_ranks(models.weights(model))
    assert handle.stats()["commits"] == 3
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
