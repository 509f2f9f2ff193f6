"""What shards of one replica must agree on, and what is refused. Scenarios of fsdp2_program."""

from unittest import mock

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_common

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import attached, mesh
from gradwire.torch import fsdp2_shards
from models import FEEDBACK, expect_equal, expect_raises


def _everybody():
    return init_device_mesh("cpu", (dist.get_world_size(),))


def _place():
    """(shard, replica) of this rank"""
    return tuple(mesh().get_local_rank(name) for name in ("shard", "replicate"))


def _param_group(module):
    return module._get_fsdp_state()._fsdp_param_group


def _expect_native_gradients(model, native, step):
    for one in (model, native):
        models.loss_of(one, step).backward()
    torch.testing.assert_close(fsdp2_models.gradients(model), fsdp2_models.gradients(native),
                               rtol=1e-5, atol=1e-6)


# ---- outcomes ----

def a_step_that_fails_in_one_shard():
    """It fails in all of them, which then count the same steps."""
    shard, replica = _place()
    model, handle = attached("bf16" if (shard, replica) == (0, 1) else "qsgd(bits=8)")
    words = "shard 0 of this replica" if shard else "model/4@shard 0"
    expect_raises((gradwire.Aborted, gradwire.Mismatch), words, models.loss_of(model, 0).backward)
    assert handle.stats()["commits"] == shard
    for _, tensor in handle._tensors._made.values():
        tensor.set_spec("bf16")
    models.train(model, range(2))
    fsdp2_models.expect_equal_replicas(model)
    stats = handle.stats()
    assert (stats["steps"], stats["commits"]) == (2, 2 + shard), stats
    handle.close()


def _spoil_shard_0(module):
    """In the next backward it alone has an infinity."""
    group = _param_group(module)
    hook = group._all_reduce_hook

    def spoil(output):
        if _place()[0] == 0:
            output[0] = float("inf")
        hook(output)
        module.set_all_reduce_hook(hook)

    module.set_all_reduce_hook(spoil)


def a_step_that_one_shard_skips():
    """All shards skip it."""
    shard, _ = _place()
    model, handle = attached(FEEDBACK, scaler=torch.amp.GradScaler("cpu"))
    _spoil_shard_0(model[2])
    models.loss_of(model, 0).backward()
    assert fsdp2_models.gradients(model).isnan().all()
    models.train(model, range(1, 3))
    stats = handle.stats()
    assert (stats["steps"], stats["skips"]) == (3, 1 - shard), stats
    handle.close()
    model, handle = attached("none", settings={"nonfinite": "skip"})
    _spoil_shard_0(model[2])
    expect_raises(gradwire.NonFinite, "shard 0 of this replica" if shard else "non-finite value",
                  models.loss_of(model, 0).backward)
    handle.close()


def nothing_is_kept_of_a_step_that_one_shard_skips():
    """A flush with gradients of zero shows what is kept."""
    model, handle = attached("topk(0.1)", scaler=torch.amp.GradScaler("cpu"))
    _spoil_shard_0(model[2])
    models.loss_of(model, 0).backward()
    model.zero_grad()
    handle.detach()
    (0 * models.loss_of(model, 0)).backward()
    assert not fsdp2_models.gradients(model).any(), fsdp2_models.gradients(model).abs().max()
    assert not handle.attached


def shards_end_a_flush_together():
    """One began anew when another one skipped the flush: it keeps nothing of an unused unit."""
    shard, _ = _place()
    model, handle = attached("topk(0.05)", fsdp2_models.optional(), min_numel=0,
                             scaler=torch.amp.GradScaler("cpu"))
    models.train(model, range(3))
    handle.detach()
    _spoil_shard_0(model.first)
    models.loss_of(model, 3).backward()
    model.zero_grad()
    model.uses_second = False
    expect_raises(gradwire.InvalidUsage, "of another shard" if shard else "'model/second@shard 0",
                  models.loss_of(model, 4).backward)
    assert handle.attached
    model.uses_second = True
    model.zero_grad()
    models.loss_of(model, 5).backward()
    assert not handle.attached


def a_wait_for_another_shard_is_bounded():
    """The failed shard's own error comes where the others never answer. Who comes late hears it, and
    the next words are those of the next step."""
    shard, replica = _place()
    model, handle = attached("none")
    if (shard, replica) == (0, 0):
        with mock.patch.object(fsdp2_shards, "_FAREWELL_S", 0.1):
            assert handle._shards.farewell(2, "of shard 0") == []
    dist.barrier()
    if replica == 0 and shard == 1:
        first, second = handle._shards.agree(0)
        assert (first.number, first.text, second.number) == (2, "of shard 0", 0), first
    models.train(model, range(2))
    assert handle.stats()["steps"] == 2
    handle.close()


def a_scaler_steps_on_shards():
    """An overflow at one rank keeps the weights of all, and halves the scale on all."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    model, handle = attached(FEEDBACK, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), lr=models.LEARNING_RATE)

    def weights_after(step, factor=1.0):
        optimizer.zero_grad()
        scaler.scale(factor * models.loss_of(model, step)).backward()
        scaler.step(optimizer)
        scaler.update()
        return fsdp2_models.weights(model)

    first = weights_after(0)
    second = weights_after(1, float("inf") if dist.get_rank() == 0 else 1.0)
    expect_equal(first, second)
    assert scaler.get_scale() == 512.0, scaler.get_scale()
    assert (weights_after(2) - second).norm() > 0
    fsdp2_models.expect_equal_replicas(model)
    stats = handle.stats()
    assert (stats["commits"], stats["skips"]) == (2, 1), stats
    handle.close()


# ---- gradients ----

def a_shard_without_elements():
    """A row for two shards: the gradients of the second are all padding."""
    def module():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 1, bias=False), nn.Linear(1, 8))

    native = fsdp2_models.shard(module(), over=mesh())
    for spec in ("none", FEEDBACK):
        model, handle = attached(spec, fsdp2_models.shard(module()), min_numel=0)
        if spec == "none":
            _expect_native_gradients(model, native, 0)
        models.train(model, range(3))
        fsdp2_models.expect_equal_replicas(model)
        handle.close()


def a_reset_forgets_what_was_held_back():
    model, handle = attached("none")
    if hasattr(model, "reset_iter_state"):
        model.set_requires_all_reduce(False)
        models.loss_of(model, 0).backward()
        model.reset_iter_state()
        model.set_requires_all_reduce(True)
        _expect_native_gradients(model, fsdp2_models.hsdp(), 1)
    handle.close()


def _halves_overflow_in_a_backward(model):
    group = _param_group(model[2])
    hook, seen = group._all_reduce_hook, []

    def watch(output):
        output.fill_(40000.0)
        hook(output)
        seen.append(output.clone())

    model[2].set_all_reduce_hook(watch)
    models.loss_of(model, 0).backward()
    model[2].set_all_reduce_hook(hook)
    return not (seen[0] == 40000.0).all()


def halves_do_not_overflow():
    """Their sum would, their average does not; nor where gradwire is attached no more."""
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float16)
    model, handle = attached("none", fsdp2_models.network(mp_policy=policy))
    assert not _halves_overflow_in_a_backward(model)
    handle.close()
    group = _param_group(model[2])
    elems = sum(param.padded_sharded_param_size.numel() for param in group.fsdp_params)
    gradients = torch.full((elems,), 40000.0, dtype=torch.float16)
    group._all_reduce_hook(gradients)
    assert (gradients == 40000.0).all(), gradients


# ---- refusals ----

def a_check_that_fails_on_one_rank():
    """All are told, those of other shards too, and meet at the next attach."""
    for failing in (0, dist.get_world_size() - 1):
        model = fsdp2_models.network()
        if dist.get_rank() == failing:
            model[2].set_all_reduce_hook(lambda output: None)
            expect_raises(ValueError, "hook already", lambda m=model: attached("none", m))
        else:
            expect_raises(RuntimeError, f"rank {failing} could not take part: 2 has an all-reduce",
                          lambda m=model: attached("none", m))
    model, handle = attached("none")
    models.train(model, range(1))
    handle.close()


def replicas_of_other_shards_are_refused():
    """Before any weight is overwritten, and on all ranks."""
    shards = mesh()["shard"].size()
    # Rank r of replica 0 with the one behind it in replica 1.
    rows = [[shard, shards + (shard + 1) % shards] for shard in range(shards)]
    wrong, _ = dist.new_subgroups_by_enumeration(rows)
    # An even share for each shard, and one row more for the first.
    for rows_of_layer in (64, 65):
        model = fsdp2_models.shard(nn.Sequential(nn.Linear(64, rows_of_layer), nn.ReLU(),
                                                 nn.Linear(rows_of_layer, 8)))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += dist.get_rank()
        before = fsdp2_models.weights(model)
        error = expect_raises(ValueError, "across= has ranks of other parts of the model",
                              lambda m=model: gradwire.torch.attach(m, "none", across=wrong))
        assert "@shard 0 of" in str(error) and "@shard 1 of" in str(error), error
        expect_equal(fsdp2_models.weights(model), before)
    gradwire.torch.attach(model, "none", across=fsdp2_models.across()).close()


def models_that_differ_between_replicas_are_refused():
    _, replica = _place()
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 32 + 32 * replica))
    expect_raises(ValueError, "<root>@shard",
                  lambda: attached("none", fsdp2_models.shard(module)))


def gradients_outside_a_backward_are_refused():
    """Which torch has since 2.15."""
    words = "set_manual_backward_finalization(False)"
    model = fsdp2_models.network()
    if hasattr(model, "finalize_backward"):
        model.set_manual_backward_finalization(True)
        expect_raises(gradwire.InvalidUsage, words, lambda: attached("none", model))
        model.set_manual_backward_finalization(False)
        model, handle = attached("none", model)
        model.set_manual_backward_finalization(True)
        models.loss_of(model, 0).backward()
        expect_raises(gradwire.InvalidUsage, words, model.finalize_backward)
        handle.close()


def hooks_that_update_in_backward_are_refused():
    """Also those that come after attach(), before anything is sent, with replicas and without."""
    words = "has a hook (register_post_accumulate_grad_hook)"
    for over, across in ((None, fsdp2_models.across()), (_everybody(), None)):
        model = fsdp2_models.network(over=over)
        hook = model[2].bias.register_post_accumulate_grad_hook(lambda parameter: None)
        expect_raises(ValueError, f"the parameter 2.bias {words}",
                      lambda m=model, a=across: gradwire.torch.attach(m, "none", across=a))
        hook.remove()
        handle = gradwire.torch.attach(model, "none", across=across)
        models.train(model, range(1))
        model[4].bias.register_post_accumulate_grad_hook(models.fail)
        expect_raises(ValueError, f"a parameter of 4{'' if over else '@shard'}",
                      models.loss_of(model, 1).backward)
        dist.barrier()
        handle.close()


def modules_in_several_meshes_are_named():
    """Of which torch's own look-up of the group fails. It takes them since 2.15."""
    if not hasattr(_fsdp_common, "ShardPlacementResult"):
        return
    module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8))
    shards, everybody = (_fsdp_common.FSDPMeshInfo(mesh=one, shard_mesh_dim=0)
                         for one in (mesh()["shard"], _everybody()))

    def place(parameter):
        info = everybody if parameter is module[0].weight else shards
        return _fsdp_common.ShardPlacementResult(placement=None, mesh_info=info)

    model = fully_shard(module, mesh=mesh()["shard"], shard_placement_fn=place)
    expect_raises(ValueError, "<root> has parameters in several meshes (shard_placement_fn)",
                  lambda: attached("none", model))


def gradients_on_other_devices_are_refused():
    """Also where the parameters are in host memory, as with CPUOffloadPolicy."""
    model = fsdp2_models.network()
    with mock.patch.object(_param_group(model[2]), "device", torch.device("cuda")):
        expect_raises(RuntimeError, "2 has its gradients on cuda, and this build takes host memory",
                      lambda: attached("none", model))


# ---- FSDP's own collectives ----

class _OwnAllGather(fsdp2_shards.DefaultAllGather):
    calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return super().__call__(*args, **kwargs)


def collectives_of_the_user_stay():
    model, mine = fsdp2_models.network(), _OwnAllGather()
    model[2].set_custom_all_gather(mine)
    for _ in range(2):
        _, handle = attached("none", model)
        group = _param_group(model[2])
        assert group._all_gather_comm is mine
        assert isinstance(group._reduce_scatter_comm, fsdp2_shards.WatchedReduceScatter)
        models.train(model, range(1))
        handle.close()
    assert mine.calls


def watched_collectives_go_with_replicas():
    """The same model, attached as one of which all ranks have a shard."""
    model, handle = attached("none")
    handle.close()
    handle = gradwire.torch.attach(model, "none")
    group = _param_group(model[2])
    assert type(group._all_gather_comm) is fsdp2_shards.DefaultAllGather
    assert not isinstance(group._reduce_scatter_comm, fsdp2_shards.WatchedReduceScatter)
    models.train(model, range(1))
    handle.close()


def parameters_that_are_gathered_ahead():
    """FSDP waits for them by itself: unshard(async_op=True)."""
    model, handle = attached("none")
    native = fsdp2_models.hsdp()
    for one in (model, native):
        for module in fsdp2_models.sharded_modules(one):
            module.unshard(async_op=True)
    assert isinstance(_param_group(model)._all_gather_result.all_gather_work, fsdp2_shards._Work)
    _expect_native_gradients(model, native, 0)
    handle.close()
