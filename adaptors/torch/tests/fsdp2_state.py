"""What handles keep, save and leave behind, with replicas. Scenarios of fsdp2_program."""

import copy
import gc
import re
import weakref

import torch
from torch import distributed as dist
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import across, attached, backward, mesh
from models import FEEDBACK, expect_equal, expect_raises


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
    state = models.through_a_file(handle.state_dict())
    handle.close()
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
    error = expect_raises(ValueError, place,
                          lambda: handle.load_state_dict(foreign, residuals="error"))
    assert 'start as many ranks as then, or residuals="drop"' in str(error), error
    handle.close()


def _expect_one_ranks_keys(handle, sizes):
    """Of another number of replicas, or of ranks: one that had the same shard, if there are any."""
    others = {re.sub(r"/(rank\d+of)\d+", r"/\g<1>7", key): size for key, size in sizes.items()}
    mine = [re.sub(r"rank\d+of\d+", "rank0of7", key) for key in handle.state_dict()
            if "/controller/" not in key]
    assert set(handle.empty_state_dict(others)) == set(mine), (others, mine)


def distributed_checkpoints():
    """Of weights and what gradwire keeps together, with replicas and without."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for over, replicas in ((None, across()), (everybody, None)):
        def network(over=over, replicas=replicas):
            model = fsdp2_models.network(over=over)
            return model, gradwire.torch.attach(model, FEEDBACK, across=replicas, min_numel=64)

        model, handle = network()
        models.train(model, range(3))
        saved, weights = handle.state_dict(), fsdp2_models.weights(model)
        handle.close()
        both = {"model": model.state_dict(), **saved}
        with models.distributed_checkpoint(both) as (folder, sizes):
            ours = [key for key in sizes if key.startswith("gradwire/")]
            each = len(saved) - 1  # the step is equal on all
            assert each == 4 + 1 and len(ours) == each * dist.get_world_size() + 1, ours
            model, handle = network()
            _expect_one_ranks_keys(handle, sizes)
            places = handle.empty_state_dict(sizes)
            checkpoint.load({"model": model.state_dict(), **places}, checkpoint_id=folder)
            handle.load_state_dict(places)
            models.expect_state(handle, saved)
            expect_equal(fsdp2_models.weights(model), weights)
            models.train(model, range(3, 5))
            handle.close()


def _trained_by(mesh_of_all, state=None):
    """What replicas have after some steps. state: that of others, which they begin with."""
    model = fsdp2_models.network(over=mesh_of_all["shard"])
    handle = gradwire.torch.attach(model, "topk(0.05)", across=mesh_of_all["replicate"],
                                   min_numel=0)
    if state is not None:
        models.load_of_another_size(handle, state)
        # Of a residual there would be 8 an element.
        assert all(row["held_bytes"] <= 16 for row in handle.ledger()["tensors"])
    models.train(model, range(4))
    fsdp2_models.expect_equal_replicas(model, mesh_of_all["replicate"])
    state = handle.state_dict()
    handle.close()
    return state


def replicated_state_is_kept_by_fewer_replicas_and_more():
    """The quotas of topk, which have changed by then."""
    names, ranks = ("pair", "replicate", "shard"), dist.get_world_size()
    together, in_pairs = (init_device_mesh("cpu", shape, mesh_dim_names=names)
                          for shape in ((1, ranks, 1), (ranks // 2, 2, 1)))
    for before, now in ((together, in_pairs), (in_pairs, together)):
        saved = [_trained_by(before)]
        dist.broadcast_object_list(saved)  # each pair has its own
        _trained_by(now, saved[0])


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
    """Of a gradient that is the same in all steps, the sum after detach() is what it would be; of
    another, that is thrown away, there is nothing in it."""
    model, handle = attached("topk(0.05)", min_numel=0)
    sent = 0
    for step in range(4):
        if step == 3:
            handle.detach()
        with handle.discarding():
            backward(model, [1])
        model.zero_grad()
        backward(model, [0])
        sent += fsdp2_models.gradients(model)
    plain = fsdp2_models.hsdp()
    backward(plain, [0])
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
