"""What test_fsdp2 runs on two replicas of one or two ranks: fsdp2_program.py SCENARIO..."""

import contextlib
import copy
import gc
import io
import weakref
from unittest import mock

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import fsdp2_models
import fsdp2_scatter
import fsdp2_steps
import fsdp2_training
import gradwire.torch
import models
import scenarios
from fsdp2_models import across, attached, mesh
from gradwire.torch.fsdp2_units import Unit
from models import FEEDBACK, expect_equal, expect_raises

COMPRESSED = ["qsgd(bits=8)", "topk(0.1)", "auto"]
HALF = torch.bfloat16
FP16 = {"reduce_dtype": torch.float16}
# Types of mixed precision: whether FSDP then takes the gradients as views of the hook's tensor (None:
# that differs between versions of torch), and how exactly two all-reduces agree.
WAYS = [({}, True, 1e-6),
        ({"param_dtype": HALF, "reduce_dtype": torch.float32}, True, 1e-6),
        ({"param_dtype": HALF}, None, 1e-2),
        ({"reduce_dtype": HALF}, False, 1e-2)]


def _backward(model, steps):
    for step in steps:
        models.loss_of(model, step).backward()


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
                    _backward(model, [step])
                fsdp2_models.expect_close_gradients(ours, native, tolerance)
        assert len(answers) == 12
        assert is_late is None or set(answers) == {is_late}, (types, answers)
        assert handle.stats()["commits"] == 3
        handle.close()


def divided_after_the_hook():
    native, ours = fsdp2_models.hsdp(), fsdp2_models.network()
    for model in (native, ours):
        for module in fsdp2_models.sharded_modules(model):
            module.set_force_sum_reduction_for_comms(True)
    ours, handle = attached("none", ours)
    for model in (native, ours):
        _backward(model, [0])
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
                _backward(model, [step])
            fsdp2_models.expect_close_gradients(ours, native, 1e-3 if types else 1e-6)
            handle.close()


def accumulated_gradients():
    """Without any communication, without that between replicas, and with all of it."""
    for switch, steps in (("set_requires_gradient_sync", 1), ("set_requires_all_reduce", 1),
                          ("set_is_last_backward", 3)):
        native, (ours, handle) = fsdp2_models.hsdp(), attached("none")
        for model in (native, ours):
            getattr(model, switch)(False)
            _backward(model, [0, 1])
            getattr(model, switch)(True)
            _backward(model, [2])
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


def overflow_skips():
    model, handle = attached(FEEDBACK, scaler=torch.amp.GradScaler("cpu"))
    _backward(model, [0])
    model.zero_grad()
    for step in (1, 2):  # the second adds to gradients that are there
        loss = models.loss_of(model, step)
        (loss * float("inf") if dist.get_rank() == 0 else loss).backward()
        assert fsdp2_models.gradients(model).isnan().all()
    stats = handle.stats()
    assert (stats["commits"], stats["skips"]) == (1, 2), stats
    handle.close()


def _resumed(state, weights, steps):
    model, handle = attached(FEEDBACK)
    model.load_state_dict(weights)
    if state is not None:
        handle.load_state_dict(state)
    models.train(model, steps)
    handle.close()
    return fsdp2_models.weights(model)


def resume_gives_the_same_bits():
    model, handle = attached(FEEDBACK)
    models.train(model, range(6))
    weights = copy.deepcopy(model.state_dict())
    file = io.BytesIO()
    torch.save(handle.state_dict(), file)
    handle.close()
    file.seek(0)
    state = torch.load(file, weights_only=True)
    replica, part = (mesh().get_local_rank(name) for name in ("replicate", "shard"))
    place = f"rank{replica}of2@shard{part}of{mesh()['shard'].size()}"
    units = {key.partition(f"{place}/")[2] for key in state if f"model/{place}/" in key}
    assert units and all(unit.endswith(f"@shard {part} of {mesh()['shard'].size()}")
                         for unit in units), units
    assert {"gradwire/model/step", f"gradwire/model/controller/{place}"} < set(state), set(state)
    once, again = (_resumed(state, weights, range(6, 12)) for _ in range(2))
    expect_equal(once, again)
    assert not torch.equal(once, _resumed(None, weights, range(6, 12)))
    _, handle = attached(FEEDBACK)
    foreign = {key.replace("of2@", "of4@"): value for key, value in state.items()}
    expect_raises(ValueError, place, lambda: handle.load_state_dict(foreign, residuals="error"))
    handle.close()


def detach_and_attach_again():
    native, (ours, handle) = fsdp2_models.hsdp(), attached("none")
    for steps in (range(3), range(3, 5), range(5, 7)):
        if steps.start == 3:
            handle.detach()  # the flush, then torch's own group
        if steps.start == 5:
            assert not handle.attached
            handle = gradwire.torch.attach(ours, "none", across=across())
        models.train(native, steps)
        models.train(ours, steps)
        difference = (fsdp2_models.weights(native) - fsdp2_models.weights(ours)).abs().max()
        assert difference < 1e-6, difference
    assert handle.stats()["steps"] == 2
    handle.close()


def what_was_kept_back_is_sent():
    """Of a gradient that is the same in all steps, the sum after detach() is what it would be."""
    model, handle = attached("topk(0.05)", min_numel=0)
    sent = 0
    for step in range(4):
        if step == 3:
            handle.detach()
        model.zero_grad()
        _backward(model, [0])
        sent += fsdp2_models.gradients(model)
    plain = fsdp2_models.hsdp()
    _backward(plain, [0])
    meant = 4 * fsdp2_models.gradients(plain)
    error = (sent - meant).norm() / meant.norm()
    assert error < 1e-5, error


def what_an_unused_unit_keeps_back_is_not_lost():
    """detach() goes on until a step sends it, or close() says that nobody wants it."""
    for is_sent in (True, False):
        module = fsdp2_models.optional()
        model, handle = attached("topk(0.05)", module, min_numel=0)
        models.train(model, range(3))
        handle.detach()
        module.uses_second = False
        for step in (3, 4):
            model.zero_grad()
            expect_raises(gradwire.InvalidUsage, "'model/second@shard",
                          models.loss_of(model, step).backward)
            assert handle.attached and handle.stats()["commits"] == step + 1
        if is_sent:
            module.uses_second = True
            models.train(model, [5])
        else:
            module.second.requires_grad_(False)
            expect_raises(gradwire.InvalidUsage, "'model/second@shard",
                          models.loss_of(model, 5).backward)
            handle.close()
        assert not handle.attached


def refusals():
    attach = gradwire.torch.attach
    model = fsdp2_models.network()
    expect_raises(TypeError, "of one dimension", lambda: attach(model, "none", across=mesh()))
    for spec in ("powersgd(rank=2)", "acp", 'auto(allow="powersgd(rank=2)")'):
        expect_raises(ValueError, "for matrices", lambda s=spec: attached(s, model))
    expect_raises(ValueError, "mesh['replicate']", lambda: attached("none", fsdp2_models.hsdp()))
    expect_raises(ValueError, "DistributedDataParallel averages",
                  lambda: attach(models.wrap(), "none", across=across()))
    expect_raises(TypeError, "fully_shard()", lambda: attach(models.network(), "none"))
    expect_raises(ValueError, "torch.float64",
                  lambda: attached("none", fsdp2_models.shard(models.network().double())))
    _, handle = attached("none", model)
    expect_raises(RuntimeError, "detach first", lambda: attached("bf16", model))
    handle.close()
    hooked = fsdp2_models.network()
    hooked[2].set_all_reduce_hook(lambda output: None)
    expect_raises(ValueError, "2 has an all-reduce hook", lambda: attached("none", hooked))
    # The ranks of one shard's replicas only share themselves with a shard.
    everybody = dist.group.WORLD
    if mesh()["shard"].size() > 1:
        expect_raises(ValueError, "which across= has too",
                      lambda: attach(fsdp2_models.network(), "none", across=everybody))


def tensor_parallel_models():
    """Refused, whichever module it is, and in DistributedDataParallel too."""
    shards = mesh()["shard"].size()
    cube = init_device_mesh("cpu", (fsdp2_models.REPLICAS, 1, shards),
                            mesh_dim_names=("replicate", "shard", "part"))
    for layer in ("0", "2"):
        module = parallelize_module(models.network(), cube["part"], {layer: ColwiseParallel()})
        model = fsdp2_models.shard(module, over=cube["shard"])
        expect_raises(ValueError, f"{layer} is tensor-parallel", lambda m=model:
                      gradwire.torch.attach(m, "none", across=cube["replicate"]))
    # Of the first parameter a whole shard: it tells who takes part.
    expect_raises(ValueError, "2 is tensor-parallel", lambda: gradwire.torch.attach(model, "none"))
    module = parallelize_module(models.network(), cube["part"], {"2": ColwiseParallel()})
    model = models.wrap(module, device_mesh=cube["replicate"])
    expect_raises(ValueError, "is tensor-parallel", lambda: gradwire.torch.attach(model, "none"))


class Twice(nn.Module):
    """Runs a layer two times."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.layer = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(self.layer(self.first(x)).relu())


def _twice(over=None):
    module = Twice()
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


def _close_together(handle):
    """Amid a step it ends the other ranks' steps, too."""
    dist.barrier()
    handle.close()
    assert not handle.attached


def _twice_as_often(module):
    hook = module._get_fsdp_state()._fsdp_param_group._all_reduce_hook

    def call_twice(output):
        hook(output.clone())
        hook(output)

    return call_twice


def gradients_twice_in_a_step():
    model, handle = attached("none")
    model[2].set_all_reduce_hook(_twice_as_often(model[2]))
    expect_raises(gradwire.InvalidUsage, "'model/2@shard", models.loss_of(model, 0).backward)
    _close_together(handle)


def _let_a_hook_update(model):
    model[0].bias.register_post_accumulate_grad_hook(models.fail)
    return gradwire.InvalidArgument, "a parameter of 0@shard"


def _let_gradients_come_twice(model):
    model[2].set_all_reduce_hook(_twice_as_often(model[2]))
    return gradwire.InvalidUsage, "'model/2@shard"


def refusals_of_one_replica():
    """The other one is told, and does not wait for the rest of the step."""
    for make_wrong in (_let_a_hook_update, _let_gradients_come_twice):
        model, handle = attached(FEEDBACK)
        models.train(model, range(2))
        kind, words = gradwire.Aborted, "gave the step up: "
        if across().get_local_rank() == 0:
            kind, words = make_wrong(model)
        expect_raises(kind, words, models.loss_of(model, 2).backward)
        assert handle.stats()["aborts"] == 1 and not handle._is_open
        _close_together(handle)


def unused_parameters():
    """Other gradients than those registered."""
    module = Twice()
    module.unused = nn.Linear(64, 64)
    model, handle = attached("none", fully_shard(module, mesh=mesh()["shard"]))
    inputs, _ = models.batch(0)
    expect_raises(gradwire.InvalidArgument, "use each of its parameters",
                  model(inputs).sum().backward)
    _close_together(handle)


def failed_backward():
    """A unit has been submitted when it throws. Then FSDP can go on since torch 2.15 only.

    What was kept back is not sent along with gradients that are thrown away: the step is aborted.
    """
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    inputs, _ = models.batch(2)
    inputs.requires_grad_().register_hook(models.fail)
    expect_raises(ZeroDivisionError, "in the model", model(inputs).sum().backward)
    if hasattr(model, "reset_iter_state"):
        model.reset_iter_state()
        models.train(model, range(2, 4))
        fsdp2_models.expect_equal_replicas(model)
        stats = handle.stats()
        assert (stats["commits"], stats["aborts"], stats["steps"]) == (4, 1, 4), stats
    _close_together(handle)


def failed_backward_of_one_replica():
    """The other one throws the step away, too, when this one begins the next."""
    model, handle = attached(FEEDBACK)
    if hasattr(model, "reset_iter_state"):
        models.train(model, range(2))
        inputs = models.batch(2)[0].requires_grad_()  # alike: it makes FSDP's order of units
        if across().get_local_rank() == 0:
            inputs.register_hook(models.fail)
            expect_raises(ZeroDivisionError, "in the model", model(inputs).sum().backward)
            model.reset_iter_state()
        else:
            expect_raises(gradwire.Aborted, "gave the step up: its backward failed",
                          model(inputs).sum().backward)
        models.train(model, range(2, 4))
        fsdp2_models.expect_equal_replicas(model)
        stats = handle.stats()
        assert (stats["commits"], stats["aborts"], stats["steps"]) == (4, 1, 4), stats
    _close_together(handle)


def aborted_amid_a_step():
    """The backward raises, here and on the other replica, and so does every later one."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    inputs = models.batch(2)[0].requires_grad_()
    if across().get_local_rank() == 0:
        inputs.register_hook(lambda grad: handle.abort())
    error = gradwire.Aborted if across().get_local_rank() == 0 else gradwire.PeerLost
    for _ in range(2):
        expect_raises(error, "", model(inputs).sum().backward)
    handle.close()
    model, handle = attached(FEEDBACK, model)
    models.train(model, range(2))
    fsdp2_models.expect_equal_replicas(model)
    handle.close()


def a_revoked_step():
    """Raised at the end of backward, after FSDP's own end: the same model goes on."""
    model, handle = attached("bf16" if dist.get_rank(across().get_group()) else "qsgd(bits=8)")
    # Mismatch where it is noticed, Aborted where it is heard of.
    expect_raises((gradwire.Aborted, gradwire.Mismatch), "model/4@shard",
                  models.loss_of(model, 0).backward)
    _close_together(handle)
    model, handle = attached(FEEDBACK, model)
    models.train(model, range(2))
    fsdp2_models.expect_equal_replicas(model)
    assert handle.stats()["commits"] == 2
    handle.close()


def an_ended_communicator():
    """Every backward raises: none leaves gradients that were not averaged."""
    model, handle = attached("none")
    models.train(model, range(1))
    dist.barrier()
    handle._comm.abort()
    for step in (1, 2, 3):
        expect_raises(gradwire.GradwireError, "abort", models.loss_of(model, step).backward)
    _close_together(handle)


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


def dropping_the_model_ends_it():
    model, handle = attached("none")
    models.train(model, range(2))
    router = gradwire.torch.attaching._routers[model]
    comm, alive = weakref.ref(handle._comm), [weakref.ref(one) for one in (model, router)]
    del model, router
    gc.collect()
    assert [one() for one in alive] == [None, None]
    del handle
    gc.collect()
    assert comm() is None


if __name__ == "__main__":
    scenarios.run(globals(), vars(fsdp2_steps), vars(fsdp2_scatter), vars(fsdp2_training))
