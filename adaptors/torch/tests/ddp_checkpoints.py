"""What handles save, and what becomes of it elsewhere. Scenarios of ddp_program."""

import copy
import gc
import tracemalloc
import warnings

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import checkpoint

import gradwire.torch
import models
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks, expect_raises


def _resumed(state, weights, steps, spec=FEEDBACK):
    model, handle = attached(spec)
    model.module.load_state_dict(weights)
    if state is not None:
        handle.load_state_dict(state)
        models.expect_state(handle, state)
    models.train(model, steps)
    stats = handle.stats()
    assert stats["steps"] == stats["commits"] == len(steps), "of this handle alone, as bytes are"
    handle.close()
    return models.weights(model)


def _of_four_ranks(state):
    """As if as many had saved it."""
    return {key.replace("of2", "of4"): value for key, value in state.items()}


def resume_gives_the_same_bits():
    model, handle = attached(FEEDBACK)
    models.train(model, range(6))
    weights = copy.deepcopy(model.module.state_dict())
    state = models.through_a_file(handle.state_dict())
    handle.close()
    rank = f"rank{dist.get_rank()}of2"
    names = [name for name, _ in model.module.named_parameters()]
    assert set(state) == {"gradwire/model/step", f"gradwire/model/controller/{rank}",
                          *(f"gradwire/model/{rank}/{name}" for name in names)}, set(state)
    once, again = (_resumed(state, weights, range(6, 12)) for _ in range(2))
    expect_equal(once, again)
    assert not torch.equal(once, _resumed(None, weights, range(6, 12)))


def resume_gives_the_same_bits_with_any_codec():
    """Also of those that keep more than a residual; but signsgd, with which this rate diverges."""
    for spec in ("bf16", "efsign", "topk(0.05)", "randk(0.1)", "powersgd(rank=2)", "acp(rank=2)",
                 "terngrad", "intsgd"):
        model, handle = attached(spec)
        models.train(model, range(6))
        weights = copy.deepcopy(model.module.state_dict())
        state = models.through_a_file(handle.state_dict())
        handle.close()
        expect_equal(*(_resumed(state, weights, range(6, 9), spec) for _ in range(2)))


def state_is_copied_once():
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    tracemalloc.start()
    state = handle.state_dict()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    state_bytes = sum(value.nbytes for value in state.values())
    assert state_bytes < peak_bytes < 1.5 * state_bytes, (peak_bytes, state_bytes)
    handle.close()


def distributed_checkpoints():
    """Each rank's keys arrive. A new handle keeps less, so the places are as large as was saved."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(3))
    saved = handle.state_dict()
    handle.close()
    with models.distributed_checkpoint(saved) as (folder, sizes):
        each = len(list(model.parameters())) + 1  # with the controller's; the step is equal on all
        assert len(sizes) == each * dist.get_world_size() + 1, list(sizes)
        _, handle = attached(FEEDBACK)
        loaded = handle.empty_state_dict(sizes)
        checkpoint.load(loaded, checkpoint_id=folder)
        handle.load_state_dict(loaded)
        models.expect_state(handle, saved)
        handle.close()


def distributed_checkpoints_of_fewer_ranks():
    """One rank's keys arrive on all, and what the ranks had alike is kept."""
    fewer = dist.new_group(range(dist.get_world_size() - 1))
    has_saved = dist.get_rank(fewer) >= 0
    saved = _trained_by(fewer) if has_saved else {}
    with models.distributed_checkpoint(saved, fewer) as (folder, sizes):
        assert len([key for key in sizes if key.endswith("/0.weight")]) == dist.get_world_size() - 1
        model, handle = attached("powersgd(rank=2)", min_numel=0)
        loaded = handle.empty_state_dict(sizes)
        checkpoint.load(loaded, checkpoint_id=folder)
        models.load_of_another_size(handle, loaded)
        step = handle.state_dict()["gradwire/model/step"]
        assert not has_saved or step == saved["gradwire/model/step"], step
        expect_raises(ValueError, "no state of 'model'", lambda: handle.empty_state_dict({}))
        expect_raises(TypeError, "state_dict_metadata", lambda: handle.empty_state_dict(folder))
        models.train(model, range(4, 6))
        expect_equal_on_ranks(models.weights(model))
        handle.close()


def foreign_checkpoints():
    _, handle = attached(FEEDBACK, name="mine")
    mine = handle.state_dict()
    foreign = {key.replace("mine", "other"): value for key, value in mine.items()}
    expect_raises(ValueError, "no state of 'mine'", lambda: handle.load_state_dict(foreign))
    resized = _of_four_ranks(mine)
    expect_raises(ValueError, f"this is rank{dist.get_rank()}of2",
                  lambda: handle.load_state_dict(resized, residuals="error"))
    for state in (mine, resized):
        expect_raises(ValueError, 'takes "drop" or "error"',
                      lambda s=state: handle.load_state_dict(s, residuals="zero"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle.load_state_dict(resized)
    assert "residuals begin at zero" in str(caught[0].message), caught
    one = next(key for key in mine if key.endswith("/0.weight"))
    for damage in (_with_one_bit_more, lambda v: v[:-1], lambda v: v[:0]):
        damaged = {**mine, one: damage(mine[one])}
        expect_raises(gradwire.DataCorrupt, "the saved state is damaged",
                      lambda d=damaged: handle.load_state_dict(d))
    fewer = {key: value for key, value in mine.items() if key != one}
    expect_raises(gradwire.Mismatch, "has no mine/0.weight", lambda: handle.load_state_dict(fewer))
    models.expect_state(handle, mine)
    handle.close()


def a_checkpoint_without_the_step_changes_nothing():
    """As of who kept one rank's keys only, by their place; of this number of ranks or another."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(4))
    state = handle.state_dict()
    handle.close()
    del state["gradwire/model/step"]
    model, handle = attached(FEEDBACK)
    models.train(model, range(2))
    before = handle.state_dict()
    for stepless in (state, _of_four_ranks(state)):
        error = expect_raises(ValueError, "no gradwire/model/step",
                              lambda s=stepless: handle.load_state_dict(s))
        assert "that key too" in str(error), error
        models.expect_state(handle, before)
    models.train(model, range(2, 4))
    assert handle.stats()["commits"] == 4
    handle.close()


class _Named(nn.Module):
    """Its layers have names with signs that are the library's."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleDict({name: nn.Linear(64, 64) for name in ("lang=en", "a,b;", "9%")})

    def forward(self, x):
        return sum(layer(x) for layer in self.layers.values())[:, :8].clone()


def names_with_signs_of_the_librarys():
    """Percent-encoded in the ledger and in keys, plain in exclude=."""
    model, handle = attached(FEEDBACK, _Named(), exclude="layers.lang=en.*")
    models.train(model, range(3))
    specs = {row["name"]: row["spec"] for row in handle.ledger()["tensors"]}
    assert specs["model/layers.lang%3Den.weight"] == "none", specs
    assert {"model/layers.a%2Cb%3B.weight", "model/layers.9%25.bias"} <= specs.keys(), specs
    state = handle.state_dict()
    handle.close()
    _, handle = attached(FEEDBACK, _Named(), exclude="layers.lang=en.*")
    handle.load_state_dict(state)
    models.expect_state(handle, state)
    handle.close()


def warnings_that_are_errors_come_last():
    """What they warn of has been done then, and steps are counted on."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(4))
    foreign = _of_four_ranks(handle.state_dict())
    handle.close()
    _, handle = attached(FEEDBACK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expect_raises(UserWarning, "begin at zero", lambda: handle.load_state_dict(foreign))
    assert int(handle.state_dict()["gradwire/model/step"]) == 4
    handle.close()


def _with_one_bit_more(value):
    value = value.clone()
    value[20] += 1
    return value


def checkpoints_of_other_specs_and_shapes():
    """Under the same names. What is there stays as it is, and training goes on."""
    narrow = models.network()
    narrow[0], narrow[2] = torch.nn.Linear(64, 96), torch.nn.Linear(96, 128)
    states = []
    for spec, module, words in (("topk(0.1)", None, "spec: qsgd"),
                                ("powersgd(rank=2)", None, "spec: qsgd"),
                                (FEEDBACK, narrow, "shape: [128")):
        other, handle = attached(spec, module, name="mine")
        models.train(other, range(1))
        states.append((handle.state_dict(), words))
        handle.close()
    model, handle = attached(FEEDBACK, name="mine")
    models.train(model, range(2))
    before = handle.state_dict()
    for state, words in states:
        error = expect_raises(gradwire.Mismatch, words,
                              lambda s=state: handle.load_state_dict(s))
        assert "attach as it was" in str(error), error
    models.expect_state(handle, before)
    models.train(model, range(2))
    handle.close()


def a_resumed_run_is_one_that_was_wrapped_again():
    """At the same step, with the state handed over in memory."""
    model, handle = attached(FEEDBACK)
    models.train(model, range(6))
    weights, state = copy.deepcopy(model.module.state_dict()), handle.state_dict()
    saved = models.through_a_file(state)
    handle.close()
    module = model.module
    del model
    gc.collect()
    wrapped_again, handle = attached(FEEDBACK, module)
    handle.load_state_dict(state)
    models.train(wrapped_again, range(6, 12))
    handle.close()
    expect_equal(models.weights(wrapped_again), _resumed(saved, weights, range(6, 12)))


def what_was_frozen_after_wrapping_is_saved():
    """DistributedDataParallel goes on to send it; its tensor is there when state is loaded."""
    def frozen():
        model = models.wrap(find_unused_parameters=True)
        model.module[0].weight.requires_grad_(False)
        return model, gradwire.torch.attach(model, "topk(0.05)", min_numel=0)

    model, handle = frozen()
    models.train(model, range(3))
    state = handle.state_dict()
    handle.close()
    model, handle = frozen()
    handle.load_state_dict(state)
    models.train(model, range(2))
    assert handle.stats()["commits"] == 2
    handle.close()


def nothing_is_lost_by_a_resume():
    """The sum of what came out, and of the flush at the end, is that of what went in."""
    total = 0
    model, handle = attached("topk(0.05)", models.Sum())
    for step in range(8):
        if step == 4:
            state = handle.state_dict()
            handle.close()
            model, handle = attached("topk(0.05)", models.Sum())
            handle.load_state_dict(state)
        if step == 7:
            handle.detach()
        inputs = models.Sum.inputs(step)
        model.zero_grad()
        model(inputs[dist.get_rank()]).backward()
        total += torch.stack([p.grad for p in model.module.parts]) - inputs.mean(0)
    assert not handle.attached
    assert total.abs().max() < 1e-4, total.abs().max()


def _final_loss(seed, resumes):
    module = models.network(seed)
    model, handle = attached(FEEDBACK, module)
    models.train(model, range(20))
    if resumes:
        state = handle.state_dict()
        handle.close()
        del model
        gc.collect()
        model, handle = attached(FEEDBACK, module)
        handle.load_state_dict(state)
    losses = models.train(model, range(20, 40))
    handle.close()
    return sum(losses[-models.BATCHES:])


def a_resumed_run_trains_as_well():
    """Its loss lies within the spread of three seeds of runs that went on."""
    went_on = [_final_loss(seed, resumes=False) for seed in range(3)]
    for seed in range(3):
        resumed = _final_loss(seed, resumes=True)
        assert abs(resumed - went_on[seed]) <= max(went_on) - min(went_on), (resumed, went_on)


def state_without_tensors():
    """Where torch's group takes all gradients; also of another number of ranks."""
    model, handle = attached("none", torch.nn.Linear(3, 3).double())
    model(torch.ones(2, 3).double()).sum().backward()
    state = handle.state_dict()
    for saved in (state, _of_four_ranks(state)):
        handle.load_state_dict(saved)
        models.expect_state(handle, state)
    expect_raises(ValueError, "no gradwire/model/step", lambda: handle.load_state_dict({}))
    handle.close()


def dropped_residuals_begin_at_zero():
    model, handle = attached("topk(0.01)", min_numel=0)
    models.train(model, range(4))
    prefix = f"gradwire/model/rank{dist.get_rank()}of2"
    state = handle.state_dict()
    handle.close()
    fresh, new_handle = attached("topk(0.01)", min_numel=0)
    models.train(fresh, range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        new_handle.load_state_dict(_of_four_ranks(state))
    loaded = new_handle.state_dict()
    assert int(loaded["gradwire/model/step"]) == 4
    # Without what was kept back: four bytes for each element.
    weight = models.network()[0].weight.numel()
    assert len(state[f"{prefix}/0.weight"]) > 4 * weight > len(loaded[f"{prefix}/0.weight"])
    models.train(fresh, range(2))
    expect_equal_on_ranks(models.weights(fresh))
    new_handle.close()


def replicated_state_is_kept_at_another_size():
    """PowerSGD's bases are the same on all ranks, however many there are."""
    model, handle = attached("powersgd(rank=2)", min_numel=0)
    models.train(model, range(4))
    state = handle.state_dict()
    handle.close()
    # What one rank of another job saved is enough for all.
    foreign = [_of_four_ranks(state)]
    dist.broadcast_object_list(foreign)
    model, handle = attached("powersgd(rank=2)", min_numel=0)
    models.load_of_another_size(handle, foreign[0])
    kept = models.kept_alike(foreign[0])["0.weight"]
    basis = 2 * 4 * min(model.module[0].weight.shape)
    assert len(kept) > basis, len(kept)
    models.train(model, range(4, 6))
    expect_equal_on_ranks(models.weights(model))
    handle.close()


def _trained_by(group, state=None):
    """What its ranks have after some steps. state: another group's, which they begin with."""
    model, handle = attached("powersgd(rank=2)", wrap_options={"process_group": group}, min_numel=0)
    if state is not None:
        models.load_of_another_size(handle, state)
    models.train(model, range(4))
    state = handle.state_dict()
    handle.close()
    return state


def replicated_state_is_kept_by_fewer_ranks_and_more():
    """Of groups that have trained."""
    fewer, everybody = dist.new_group(range(dist.get_world_size() - 1)), dist.group.WORLD
    for before, now in ((everybody, fewer), (fewer, everybody)):
        saved = [_trained_by(before) if dist.get_rank(before) >= 0 else None]
        dist.broadcast_object_list(saved)
        if dist.get_rank(now) >= 0:
            _trained_by(now, saved[0])
