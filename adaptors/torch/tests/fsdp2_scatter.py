"""Models that all ranks shard: gradients are compressed on their way to their shards. Scenarios of
fsdp2_program."""

import functools
import warnings

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter

import fsdp2_models
import gradwire.torch
import models
from models import FEEDBACK, expect_equal, expect_raises

HALF = torch.bfloat16
WAYS = [({}, 1e-6), ({"param_dtype": HALF, "reduce_dtype": torch.float32}, 1e-6),
        ({"param_dtype": HALF}, 1e-2)]


@functools.cache
def _everybody():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def _network(**options):
    return fsdp2_models.network(over=_everybody(), **options)


def _attached(spec, module=None, **options):
    module = _network() if module is None else module
    options.setdefault("min_numel", 64)
    return module, gradwire.torch.attach(module, spec, **options)


def _weights(model):
    return torch.cat([p.detach().full_tensor().flatten() for p in model.parameters()])


def scattered_exactly():
    """As torch does it; also gradients that were accumulated without a reduction."""
    for types, tolerance in WAYS:
        policy = MixedPrecisionPolicy(**types)
        native = _network(mp_policy=policy)
        ours, handle = _attached("none", _network(mp_policy=policy))
        for step in range(3):
            for model in (native, ours):
                model.zero_grad()
                model.set_requires_gradient_sync(False)
                models.loss_of(model, 10 + step).backward()
                model.set_requires_gradient_sync(True)
                models.loss_of(model, step).backward()
            fsdp2_models.expect_close_gradients(ours, native, tolerance)
        assert handle.stats()["commits"] == 3
        handle.close()


def scattered_and_divided():
    """By torch after the reduction, which then is a sum."""
    native, ours = _network(), _network()
    for model in (native, ours):
        for module in fsdp2_models.sharded_modules(model):
            module.set_force_sum_reduction_for_comms(True)
    ours, handle = _attached("none", ours)
    for model in (native, ours):
        models.loss_of(model, 0).backward()
    fsdp2_models.expect_close_gradients(ours, native, 1e-6)
    handle.close()


def scattered_compressed_trains():
    for spec in ("bf16", "qsgd(bits=8)", FEEDBACK, "efsign", "topk(0.1,agreement=owners)"):
        model, handle = _attached(spec)
        losses = models.train(model, range(40))
        first, last = sum(losses[:5]), sum(losses[-5:])
        assert last < 0.8 * first, (spec, first, last)
        assert handle.stats()["commits"] == 40
        handle.close()


def scattered_bytes():
    """What is encoded is the other ranks' shards: a byte for an element and its scale's share."""
    model, handle = _attached("qsgd(bits=8)", name="net")
    models.train(model, range(4))
    rows = {row["name"]: row for row in handle.ledger()["tensors"]}
    assert set(rows) == {f"net/{unit}" for unit in ("0", "2", "4", "<root>")}, set(rows)
    row, ranks = rows["net/2"], dist.get_world_size()
    elems = 128 * 128 + 128
    assert row["elems"] == elems
    ratio = row["payload_bytes"] / (row["ops"] * elems * (ranks - 1) / ranks)
    assert 1.0 < ratio < 1.1, row
    handle.close()


def scattered_rest_is_sent():
    """Of a gradient that is the same in all steps, the sum after detach() is what it would be; of
    another, that is thrown away, there is nothing in it."""
    model, handle = _attached("qsgd(bits=2,feedback=on)", min_numel=0)
    plain = _network()
    models.loss_of(plain, 0).backward()
    sent = 0
    for step in range(4):
        if step == 3:
            handle.detach()
        with handle.discarding():
            models.loss_of(model, 1).backward()
        model.zero_grad()
        models.loss_of(model, 0).backward()
        sent += fsdp2_models.gradients(model)
    meant = 4 * fsdp2_models.gradients(plain)
    error = (sent - meant).norm() / meant.norm()
    assert error < 1e-5, error
    assert not handle.attached
    model.zero_grad()
    models.loss_of(model, 0).backward()
    fsdp2_models.expect_close_gradients(model, plain, 1e-6)


def scattered_over_one_rank():
    """FSDP then reduces nothing: there are no steps, and detach() waits for none."""
    alone = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("all", "one"))["one"]
    model = fsdp2_models.network(over=alone)
    for _ in range(2):
        _, handle = _attached("bf16", model)
        models.train(model, range(2))
        handle.detach()
        assert not handle.attached


def scattered_overflow_skips():
    """On all ranks, whosever it was and whichever shard has it."""
    model, handle = _attached(FEEDBACK, scaler=torch.amp.GradScaler("cpu"))
    models.loss_of(model, 0).backward()
    model.zero_grad()
    loss = models.loss_of(model, 1)
    (loss * float("inf") if dist.get_rank() == 0 else loss).backward()
    assert fsdp2_models.gradients(model).isnan().all()
    stats = handle.stats()
    assert (stats["commits"], stats["skips"]) == (1, 1), stats
    handle.close()


def scattered_resume():
    def resumed(state, weights):
        model, handle = _attached(FEEDBACK)
        model.load_state_dict(weights)
        if state is not None:
            handle.load_state_dict(state)
        models.train(model, range(6, 12))
        handle.close()
        return _weights(model)

    model, handle = _attached(FEEDBACK)
    models.train(model, range(6))
    weights, state = model.state_dict(), handle.state_dict()
    place = f"rank{dist.get_rank()}of{dist.get_world_size()}"
    units = [key for key in state if key.startswith(f"gradwire/model/{place}/")]
    rest = {f"gradwire/model/controller/{place}", "gradwire/model/step"}
    assert units and set(state) == {*units, *rest}, set(state)
    weights = {name: value.clone() for name, value in weights.items()}
    handle.close()
    once = resumed(state, weights)
    expect_equal(once, resumed(state, weights))
    assert not torch.equal(once, resumed(None, weights))


def _trained_rows(ranks, steps):
    """(model, handle) of a layer with ten rows, which 4 ranks pad and 2 do not."""
    module = fsdp2_models.shard(nn.Sequential(nn.Linear(64, 10)), over=ranks)
    model, handle = _attached(FEEDBACK, module)
    for step in steps:
        model.zero_grad()
        inputs, _ = models.batch(step)
        model(inputs).square().sum().backward()
    return model, handle


def _kept_bytes(handle):
    return sum(row["held_bytes"] for row in handle.ledger()["tensors"])


def scattered_checkpoints_of_other_sizes():
    """Tensors are padded to a multiple of the ranks: those of another number are of no use."""
    pair, everybody = fsdp2_models.mesh()["shard"], _everybody()
    for before, now in ((pair, everybody), (everybody, pair)):
        _, handle = _trained_rows(before, range(3))
        state = handle.state_dict()
        handle.close()
        _, handle = _trained_rows(now, range(1))
        kept = handle.state_dict()
        expect_raises(ValueError, f"of{before.size()}, this is",
                      lambda s=state, h=handle: h.load_state_dict(s, residuals="error"))
        models.expect_state(handle, kept)
        assert _kept_bytes(handle) > 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            handle.load_state_dict(state)
        assert ["residuals begin at zero" in str(one.message) for one in caught] == [True], caught
        assert _kept_bytes(handle) == 0
        assert int(handle.state_dict()["gradwire/model/step"]) == 3
        handle.close()


def frozen_when_all_is_over():
    """What gradwire was told at attach binds nobody after close(), nor with replicas."""
    for native, ours, attached in ((_network(), _network(), _attached),
                                   (fsdp2_models.hsdp(), fsdp2_models.network(),
                                    fsdp2_models.attached)):
        ours, handle = attached("none", ours)
        for model in (native, ours):
            models.train(model, [0])
        handle.close()
        for model in (native, ours):
            model[0].bias.requires_grad_(False)
            models.train(model, [1])
        difference = (fsdp2_models.weights(native) - fsdp2_models.weights(ours)).abs().max()
        assert difference < 1e-6, difference


def frozen_when_attached():
    """What trains from later on is averaged like the rest, with replicas and without."""
    for native, ours, attached in ((_network(), _network(), _attached),
                                   (fsdp2_models.hsdp(), fsdp2_models.network(),
                                    fsdp2_models.attached)):
        for model in (native, ours):
            model[0].requires_grad_(False)
        ours, handle = attached("none", ours)
        for steps, trains in ((range(1), False), (range(1, 3), True)):
            for model in (native, ours):
                model[0].requires_grad_(trains)
                models.train(model, steps)
            assert len(handle.ledger()["tensors"]) == 3 + trains, handle.ledger()["tensors"]
        difference = (fsdp2_models.weights(native) - fsdp2_models.weights(ours)).abs().max()
        assert difference < 1e-6, difference
        handle.close()


def _shards(spec, module):
    """Attached without across=, though there are replicas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they drift apart
        return _attached(spec, module)


def hooks_of_an_earlier_attach():
    """With replicas and then without, and the other way round: those of before are gone."""
    for first, second, over in ((fsdp2_models.attached, _shards, fsdp2_models.mesh()["shard"]),
                                (_shards, fsdp2_models.attached, fsdp2_models.mesh())):
        native, ours = fsdp2_models.network(over=over), fsdp2_models.network()
        first("none", ours)[1].abort()
        ours, handle = second("none", ours)
        for step in range(2):
            for model in (native, ours):
                model.zero_grad()
                models.loss_of(model, step).backward()
            fsdp2_models.expect_close_gradients(ours, native)
        handle.close()


def hooks_behind_the_scatter():
    """They are somebody's who set them after attach(), and have averages."""
    native, (ours, handle) = _network(), _attached("none")
    seen = []
    ours[2].set_all_reduce_hook(lambda output: seen.append(output.clone()))
    for model in (native, ours):
        models.loss_of(model, 0).backward()
    parts = [fsdp2_models.local(p.grad).flatten() for p in ours[2].parameters()]
    assert all(torch.isin(part, seen[0]).all() for part in parts), seen
    fsdp2_models.expect_close_gradients(ours, native)
    handle.close()


def ranks_beside_those_that_shard_are_told():
    """They may have replicas, which nobody averages over; or models of their own."""
    for over in (fsdp2_models.mesh()["shard"], _everybody()):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model, handle = _attached("none", fsdp2_models.network(over=over))
        texts = [str(one.message) for one in told if "pass across=" in str(one.message)]
        assert len(texts) == (over.size() < dist.get_world_size()), told
        assert all(f"{over.size()} of the job's" in text for text in texts), texts
        assert all(one.filename.endswith("fsdp2_scatter.py") for one in told), told
        models.train(model, range(1))
        handle.close()


def scattered_refusals():
    model = _network()
    for spec in ("auto", "topk(0.1)", "signsgd", "topk(0.1,agreement=gather)",
                 "qsgd(bits=4,sum=carrier)"):
        expect_raises(ValueError, "take bf16, fp16, qsgd, efsign or topk(agreement=owners)",
                      lambda s=spec: _attached(s, model))
    expect_raises(ValueError, "for matrices", lambda: _attached("powersgd(rank=2)", model))
    expect_raises(ValueError, "mesh['replicate']", lambda: _attached("none", fsdp2_models.hsdp()))
    _, handle = _attached("bf16", model)
    for spec, words in (("topk(0.1)", "take bf16"), ("powersgd(rank=2)", "for matrices")):
        expect_raises(ValueError, words, lambda s=spec, h=handle: h.set_spec(s))
    handle.set_spec("topk(0.1,agreement=owners)")
    models.train(model, range(2))
    handle.close()
    model[2].set_all_reduce_hook(lambda output: None)
    expect_raises(ValueError, "2 has an all-reduce hook", lambda: _attached("none", model))
    model[2].set_all_reduce_hook(None)
    model[2].set_custom_reduce_scatter(_Custom())
    expect_raises(ValueError, "2 has a reduce-scatter of its own", lambda: _attached("none", model))
    scaled, handle = _attached("none")
    for module in fsdp2_models.sharded_modules(scaled):
        module.set_gradient_divide_factor(3.0)
    expect_raises(gradwire.InvalidUsage, "set_gradient_divide_factor",
                  models.loss_of(scaled, 0).backward)
    dist.barrier()
    handle.close()


def a_refusal_of_one_rank():
    """The others are told. A single unit, so that none waits for another one in FSDP's own calls."""
    module = fsdp2_models.shard(nn.Sequential(nn.Linear(64, 8)), over=_everybody())
    model, handle = _attached(FEEDBACK, module)
    models.train(model, range(2))
    kind, words = gradwire.Aborted, "rank 0 gave the step up: a parameter of <root>"
    if dist.get_rank() == 0:
        model[0].bias.register_post_accumulate_grad_hook(models.fail)
        kind, words = gradwire.InvalidArgument, "a parameter of <root>"
    expect_raises(kind, words, models.loss_of(model, 2).backward)
    assert handle.stats()["aborts"] == 1
    dist.barrier()
    handle.close()


class _Custom(DefaultReduceScatter):
    """Somebody else's."""
