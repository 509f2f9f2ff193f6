"""Gradients of two replicas, of one rank or two, beside those of torch's own HSDP. Scenarios of
fsdp2_program."""

import contextlib
from unittest import mock

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import across, attached, backward, mesh
from gradwire.torch.fsdp2_units import Unit
from models import FEEDBACK

COMPRESSED = ["qsgd(bits=8)", "topk(0.1)", "auto"]
HALF = torch.bfloat16
FP16 = {"reduce_dtype": torch.float16}
# Types of mixed precision: whether FSDP then takes the gradients as views of the hook's tensor (None:
# that differs between versions of torch), and how exactly two all-reduces agree.
WAYS = [({}, True, 1e-6),
        ({"param_dtype": HALF, "reduce_dtype": torch.float32}, True, 1e-6),
        ({"param_dtype": HALF}, None, 1e-2),
        ({"reduce_dtype": HALF}, False, 1e-2)]


@contextlib.contextmanager
def _watched_units():
    """The answers to whether results may come after the hook."""
    takes_views_of, answers = Unit.takes_views_of, []

    def watched(unit, output):
        answers.append(takes_views_of(unit, output))
        return answers[-1]

    with mock.patch.object(Unit, "takes_views_of", watched):
        yield answers


def none_is_native_hsdp():
    for types, is_late, tolerance in WAYS:
        policy = MixedPrecisionPolicy(**types)
        native = fsdp2_models.hsdp(mp_policy=policy)
        ours, handle = attached("none", fsdp2_models.network(mp_policy=policy))
        with _watched_units() as answers:
            for step in range(3):
                for model in (native, ours):
                    model.zero_grad()
                    backward(model, [step])
                fsdp2_models.expect_close_gradients(ours, native, tolerance)
        assert len(answers) == 12
        assert is_late is None or set(answers) == {is_late}, (types, answers)
        assert handle.stats()["commits"] == 3
        handle.close()


def gradients_that_are_copied_too_early_are_told():
    """As by a version of torch that casts or copies where others do not."""
    policy = MixedPrecisionPolicy(reduce_dtype=HALF)
    model, handle = attached("none", fsdp2_models.network(mp_policy=policy))
    with mock.patch.object(Unit, "takes_views_of", return_value=True):
        models.expect_raises(gradwire.InvalidUsage, "set_force_sum_reduction_for_comms(True)",
                             models.loss_of(model, 0).backward)
    handle.close()


def divided_after_the_hook():
    native, ours = fsdp2_models.hsdp(), fsdp2_models.network()
    for model in (native, ours):
        for module in fsdp2_models.sharded_modules(model):
            module.set_force_sum_reduction_for_comms(True)
    ours, handle = attached("none", ours)
    for model in (native, ours):
        backward(model, [0])
    fsdp2_models.expect_close_gradients(ours, native)
    handle.close()


def divided_by_a_factor():
    """Over the replicas torch's HSDP then sums; so do the hooks after close()."""
    shards, ranks = mesh()["shard"].size(), dist.get_world_size()
    # A reduce-scatter that divides by another number than the shards' is not for Gloo.
    for factor, force, types in ((shards, False, {}), (2 * ranks, True, {}), (ranks, False, FP16)):
        policy = MixedPrecisionPolicy(**types)
        native, ours = (fsdp2_models.network(over=over, mp_policy=policy)
                        for over in (mesh(), None))
        ours, handle = attached("none", ours)
        for model in (native, ours):
            for module in fsdp2_models.sharded_modules(model):
                module.set_gradient_divide_factor(float(factor))
                module.set_force_sum_reduction_for_comms(force)
        for step in range(2):
            for model in (native, ours):
                model.zero_grad()
                backward(model, [step])
            fsdp2_models.expect_close_gradients(ours, native, 1e-3 if types else 1e-6)
            handle.close()


def signs_that_would_be_divided_are_refused():
    """As FSDP does in float16, which attach() knows, and where it is told to. Else they are one."""
    halves = fsdp2_models.network(mp_policy=MixedPrecisionPolicy(**FP16))
    models.expect_raises(ValueError, "reduce_dtype=torch.float32", lambda: attached("signsgd", halves))
    for change in (None, "set_gradient_divide_factor", "set_force_sum_reduction_for_comms"):
        model, handle = attached("signsgd")
        if change is None:
            backward(model, [0])
            got = fsdp2_models.local(model[2].weight.grad)
            assert set(got.unique().tolist()) == {-1.0, 0.0, 1.0}, got
            handle.close()
            continue
        for module in fsdp2_models.sharded_modules(model):
            getattr(module, change)(mesh()["shard"].size())
        models.expect_raises(gradwire.InvalidArgument, "signs FSDP would divide",
                             models.loss_of(model, 0).backward)
        dist.barrier()
        handle.close()


def gradients_in_several_types():
    """Since torch 2.15 a unit is reduced in the widest type that its parameters accumulate in;
    earlier ones have one type."""
    def halves(over):
        network = models.network().to(HALF)
        for name, parameter in network.named_parameters():
            if name.endswith("bias") and hasattr(parameter, "_has_grad_dtype_override"):
                parameter.grad_dtype = torch.float32
        return fsdp2_models.shard(network, over)

    native, (ours, handle) = halves(mesh()), attached("none", halves(None), min_numel=1)
    for step in range(2):
        x, y = models.batch(step)
        for model in (native, ours):
            torch.nn.functional.mse_loss(model(x.to(HALF)).float(), y).backward()
    fsdp2_models.expect_close_gradients(ours, native, 1e-2)
    assert handle.stats()["steps"] == 2
    handle.close()


def accumulated_gradients():
    """Without any communication, without that between replicas, and with all of it."""
    for switch, steps in (("set_requires_gradient_sync", 1), ("set_requires_all_reduce", 1),
                          ("set_is_last_backward", 3)):
        native, (ours, handle) = fsdp2_models.hsdp(), attached("none")
        for model in (native, ours):
            getattr(model, switch)(False)
            backward(model, [0, 1])
            getattr(model, switch)(True)
            backward(model, [2])
        fsdp2_models.expect_close_gradients(ours, native)
        assert handle.stats()["steps"] == steps, switch
        handle.close()


def compressed_trains():
    for spec in COMPRESSED:
        model, handle = attached(spec)
        losses = models.train(model, range(40))
        first, last = sum(losses[:5]), sum(losses[-5:])
        assert last < 0.8 * first, (spec, first, last)
        fsdp2_models.expect_equal_replicas(model)
        assert handle.stats()["commits"] == 40
        handle.close()


def replicas_begin_equal():
    module = fsdp2_models.network()
    mine = fsdp2_models.weights(module) + dist.get_rank(across().get_group())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += dist.get_rank(across().get_group())
    model, handle = attached("none", module)
    fsdp2_models.expect_equal_replicas(model)
    assert torch.equal(mine, fsdp2_models.weights(model)) == (handle.stats()["rank"] == 0)
    handle.close()


def attached_behind_an_evaluation():
    """The root is whole then, and so is what does not reshard; with replicas and without."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for over, replicas in ((None, across()), (everybody, None)):
        model = fsdp2_models.network(over=over)
        native = fsdp2_models.hsdp() if replicas else fsdp2_models.network(over=over)
        model.set_reshard_after_forward(False)
        with torch.no_grad():
            models.loss_of(model, 0)
        handle = gradwire.torch.attach(model, "none", across=replicas)
        for one in (model, native):
            backward(one, [1])
        fsdp2_models.expect_close_gradients(model, native)
        assert handle.stats()["commits"] == 1
        handle.close()


def each_unit_is_a_tensor():
    """Its elements are those of the shard, and what crosses replicas is counted with it."""
    model, handle = attached("qsgd(bits=8)", exclude="4", name="net")
    models.train(model, range(4))
    rows = {row["name"]: row for row in handle.ledger()["tensors"]}
    place = f"shard {mesh()['shard'].get_local_rank()} of {mesh()['shard'].size()}"
    assert set(rows) == {f"net/{unit}@{place}" for unit in ("0", "2", "4", "<root>")}, set(rows)
    shards = mesh()["shard"].size()
    assert rows[f"net/2@{place}"]["elems"] == (128 * 128 + 128) // shards
    assert rows[f"net/4@{place}"]["spec"] == "none"
    compressed = [row for row in rows.values() if row["spec"] != "none"]
    for row in compressed:
        # Half of its elements to the other rank, and half of the sums, a byte for four.
        ratio = row["payload_bytes"] / (4 * row["elems"] * row["ops"])
        assert 0.25 < ratio < 0.3, row
    sent = handle.stats()["sent_bytes"]
    exact = 4 * rows[f"net/4@{place}"]["elems"] * 4
    meant = sum(row["payload_bytes"] for row in compressed) + exact
    assert meant < sent < 1.1 * meant, (meant, sent)
    handle.close()


def frozen_units_and_parameters():
    """They have no gradients; of a unit in part frozen the hook gets the others."""
    def frozen():
        module = models.network()
        module[0].requires_grad_(False)
        module[2].bias.requires_grad_(False)
        return module

    native = fsdp2_models.shard(frozen(), over=mesh())
    ours, handle = attached("none", fsdp2_models.shard(frozen()))
    for model in (native, ours):
        models.train(model, range(3))
    difference = (fsdp2_models.weights(native) - fsdp2_models.weights(ours)).abs().max()
    assert difference < 1e-6, difference
    assert len(handle.ledger()["tensors"]) == 3
    handle.close()


def units_that_are_frozen_at_first():
    """Through the first forward and longer; later they are reduced in the type of the policy. With
    replicas and without, attached before that forward and behind it."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for over, replicas in ((None, across()), (everybody, None)):
        for is_attached_first in (True, False):
            policy = MixedPrecisionPolicy(reduce_dtype=HALF)
            model = fsdp2_models.network(over=over, mp_policy=policy)
            native = fsdp2_models.network(over=mesh() if replicas else over, mp_policy=policy)
            model[0].requires_grad_(False)
            if not is_attached_first:
                backward(model, [0])
            handle = gradwire.torch.attach(model, "none", across=replicas)
            backward(model, [0])
            model[0].requires_grad_(True)
            model.zero_grad()
            for one in (model, native):
                backward(one, [1])
            assert {one.grad.dtype for one in model.parameters()} == {torch.float32}
            fsdp2_models.expect_close_gradients(model, native, 1e-2)
            assert handle.stats()["commits"] == 2
            handle.close()


def overflow_skips():
    model, handle = attached(FEEDBACK, scaler=torch.amp.GradScaler("cpu"))
    backward(model, [0])
    model.zero_grad()
    for step in (1, 2):  # the second adds to gradients that are there
        loss = models.loss_of(model, step)
        (loss * float("inf") if dist.get_rank() == 0 else loss).backward()
        assert fsdp2_models.gradients(model).isnan().all()
    stats = handle.stats()
    assert (stats["commits"], stats["skips"]) == (1, 2), stats
    handle.close()


def _twice(over=None):
    module = fsdp2_models.Twice()
    for part in (module.layer, module):
        fully_shard(part, mesh=over or mesh()["shard"])
    return module


def layers_called_twice():
    """Their gradients come when all uses are done."""
    native, (ours, handle) = _twice(over=mesh()), attached("none", _twice())
    inputs, _ = models.batch(0)
    for model in (native, ours):
        model(inputs).sum().backward()
    fsdp2_models.expect_close_gradients(ours, native)
    assert handle.stats()["commits"] == 1
    handle.close()


def two_models():
    """By one backward."""
    (one, first), (two, second) = (attached(FEEDBACK, name=name) for name in ("one", "two"))
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=models.LEARNING_RATE)
    for step in range(3):
        optimizer.zero_grad()
        (models.loss_of(one, step) + models.loss_of(two, step)).backward()
        optimizer.step()
    for model, handle in ((one, first), (two, second)):
        fsdp2_models.expect_equal_replicas(model)
        assert handle.stats()["commits"] == 3
        handle.close()
