"""What is refused, and steps that fail, with replicas. Scenarios of fsdp2_program."""

import copy
import warnings

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import across, attached, mesh
from models import FEEDBACK, expect_raises


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
    doubles = models.network().double()
    expect_raises(ValueError, "torch.float64, which the library does not take: shard with "
                  "MixedPrecisionPolicy(reduce_dtype=torch.float32)",
                  lambda: attached("none", fsdp2_models.shard(copy.deepcopy(doubles))))
    floats = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    attached("none", fsdp2_models.shard(doubles, mp_policy=floats))[1].close()
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


def half_precision():
    """In float16, as the parameters or because FSDP reduces so, feedback wants a scaler; with
    replicas and without."""
    halves = MixedPrecisionPolicy(reduce_dtype=torch.float16)
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for module, policy in ((models.network().half(), MixedPrecisionPolicy()),
                           (models.network(), halves)):
        for over, replicas, specs in ((None, across(), (FEEDBACK, "auto")),
                                      (everybody, None, (FEEDBACK,))):
            model = fsdp2_models.shard(copy.deepcopy(module), over=over, mp_policy=policy)

            def attach(spec, model=model, replicas=replicas, **options):
                return gradwire.torch.attach(model, spec, across=replicas, **options)

            for spec in specs:
                expect_raises(ValueError, "or scaler=False", lambda s=spec, a=attach: a(s))
                for scaler in (False, torch.amp.GradScaler("cpu")):
                    attach(spec, scaler=scaler).close()
            attach("qsgd(bits=8)").close()


def _half_in_the_first_layer(over):
    """It is frozen when attach() looks."""
    module = models.network()
    module[0].requires_grad_(False)
    fully_shard(module[0], mesh=over, mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float16))
    return fully_shard(module, mesh=over)


def units_that_first_train_when_they_must_not_have_the_codec():
    """They are refused as by attach(), with replicas and without, and the step is given up on all
    ranks."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    scattered = fsdp2_models.network(over=everybody)
    scattered[0].requires_grad_(False)
    for model, replicas, spec, options, words in (
            (_half_in_the_first_layer(mesh()["shard"]), across(), FEEDBACK, {}, "or scaler=False"),
            (_half_in_the_first_layer(everybody), None, FEEDBACK, {}, "or scaler=False"),
            (scattered, None, "topk(0.1)", {"exclude": ["2", "4", "<root>"]}, "scattered to shards")):
        handle = gradwire.torch.attach(model, spec, across=replicas, min_numel=64, **options)
        before = [row["name"] for row in handle.ledger()["tensors"]]
        model[0].requires_grad_(True)
        error = expect_raises(gradwire.InvalidArgument, words, models.loss_of(model, 0).backward)
        assert "0" in str(error)
        assert [row["name"] for row in handle.ledger()["tensors"]] == before
        assert handle.stats()["aborts"] == 1 and not handle._is_open
        _close_together(handle)


def _expect_no_hooks(model):
    for module in fsdp2_models.sharded_modules(model):
        group = module._get_fsdp_state()._fsdp_param_group
        assert group._all_reduce_hook is None
        assert type(group._reduce_scatter_comm) is DefaultReduceScatter


def a_spec_misspelt_on_one_rank():
    """Shards of its replica, and their replicas, are told all the same."""
    model = fsdp2_models.network()
    mine = dist.get_rank() == dist.get_world_size() - 1
    kind, words = (gradwire.InvalidArgument, "Did you mean 'qsgd'?") if mine else (
        RuntimeError, "could not take part: ")
    spec = "qsdg(bits=4)" if mine else "qsgd(bits=4)"
    expect_raises(kind, words, lambda: attached(spec, model))
    _expect_no_hooks(model)
    _, handle = attached("qsgd(bits=4)", model)
    models.train(model, range(1))
    handle.close()


def warnings_that_are_errors_leave_no_hooks():
    """FSDP goes on as before, without an average over replicas."""
    model = fsdp2_models.network()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expect_raises(UserWarning, "'5'", lambda: attached("none", model, exclude="5"))
    _expect_no_hooks(model)
    _, handle = attached("none", model)
    models.train(model, range(1))
    fsdp2_models.expect_equal_replicas(model)
    handle.close()


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
    hook = model[0].bias.register_post_accumulate_grad_hook(models.fail)
    return gradwire.InvalidArgument, "a parameter of 0@shard", hook.remove


def _let_gradients_come_twice(model):
    right = model[2]._get_fsdp_state()._fsdp_param_group._all_reduce_hook
    model[2].set_all_reduce_hook(_twice_as_often(model[2]))
    return gradwire.InvalidUsage, "'model/2@shard", lambda: model[2].set_all_reduce_hook(right)


def refusals_of_one_replica():
    """The other one is told, and does not wait for the rest of the step. Then both can go on as the
    error says."""
    for make_wrong in (_let_a_hook_update, _let_gradients_come_twice):
        model, handle = attached(FEEDBACK)
        models.train(model, range(2))
        refuses = across().get_local_rank() == 0
        kind, words, mend = (make_wrong(model) if refuses
                             else (gradwire.Aborted, "gave the step up: ", None))
        error = expect_raises(kind, words, models.loss_of(model, 2).backward)
        assert not refuses or "model.reset_iter_state()" in str(error), error
        assert handle.stats()["aborts"] == 1 and not handle._is_open
        if hasattr(model, "reset_iter_state"):
            if refuses:
                mend()
                model.reset_iter_state()
            models.train(model, range(2, 4))
            fsdp2_models.expect_equal_replicas(model)
            assert handle.stats()["steps"] == 4
        _close_together(handle)


def unused_parameters():
    """Other gradients than those registered."""
    module = fsdp2_models.Twice()
    module.unused = nn.Linear(64, 64)
    model, handle = attached("none", fully_shard(module, mesh=mesh()["shard"]))
    inputs, _ = models.batch(0)
    expect_raises(gradwire.InvalidArgument, "use each of its parameters",
                  model(inputs).sum().backward)
    _close_together(handle)


def as_many_other_parameters_that_train():
    """What is kept back is of those that did at first: it is not added to others' gradients. With
    replicas and without."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for over, replicas in ((mesh()["shard"], across()), (everybody, None)):
        module = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
        module[1].requires_grad_(False)
        model = fully_shard(module, mesh=over)
        handle = gradwire.torch.attach(model, FEEDBACK, across=replicas, min_numel=0)
        model(models.batch(0)[0]).sum().backward()
        for layer, trains in zip(model, (False, True)):
            layer.requires_grad_(trains)
        expect_raises(gradwire.InvalidArgument, "other parameters to train than at first: freeze "
                      "before attach()", model(models.batch(1)[0]).sum().backward)
        _close_together(handle)


def _throw_in_forward(model):
    """In the first layer and further on."""
    expect_raises(RuntimeError, "cannot be multiplied", lambda: model(torch.ones(3, 5)))
    hook = model[2].register_forward_pre_hook(lambda module, inputs: models.fail(inputs))
    expect_raises(ZeroDivisionError, "in the model", lambda: models.loss_of(model, 0))
    hook.remove()


def failures_of_the_model():
    """A forward that throws leaves what follows alone. A graph that is used twice makes two steps,
    the second of which adds to the gradients, as torch has it; with replicas and without."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for native, over, replicas in ((fsdp2_models.hsdp(), None, across()),
                                   (fsdp2_models.network(over=everybody), everybody, None)):
        ours = fsdp2_models.network(over=over)
        handle = gradwire.torch.attach(ours, "none", across=replicas)
        for model in (native, ours):
            _throw_in_forward(model)
            loss = models.loss_of(model, 0)
            loss.backward(retain_graph=True)
            loss.backward()
        fsdp2_models.expect_close_gradients(ours, native)
        assert handle.stats()["steps"] == handle.stats()["commits"] == 2
        for model in (native, ours):
            models.train(model, range(3))
        difference = (fsdp2_models.weights(native) - fsdp2_models.weights(ours)).abs().max()
        assert difference < 1e-6, difference
        handle.close()


def what_is_kept_back_goes_with_a_graph_that_is_used_twice():
    """Each of its steps sends the rest of the one before."""
    model, handle = attached("topk(0.05)", min_numel=0)
    loss = models.loss_of(model, 0)
    for step in range(4):
        if step == 3:
            handle.detach()
        loss.backward(retain_graph=True)
    plain = fsdp2_models.hsdp()
    for _ in range(4):
        models.loss_of(plain, 0).backward()
    fsdp2_models.expect_close_gradients(model, plain, 1e-5)
    assert not handle.attached


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


def gradients_of_a_failed_step_are_nan():
    """FSDP has them, and adds what comes to them: who forgets zero_grad() is not misled. With replicas
    and without; and what the error advises gives the gradients that there should have been."""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    for over, replicas in ((None, across()), (everybody, None)):
        model = fsdp2_models.network(over=over)
        is_first = dist.get_rank(replicas.get_group() if replicas else None) == 0
        handle = gradwire.torch.attach(model, "bf16" if is_first else "qsgd(bits=8)",
                                       across=replicas, min_numel=64)
        error = expect_raises((gradwire.Aborted, gradwire.Mismatch), "",
                              models.loss_of(model, 0).backward)
        if isinstance(error, gradwire.Aborted):
            assert "model.zero_grad(), then all backwards of this step again" in str(error), error
        handle.set_spec("none")
        assert fsdp2_models.gradients(model).isnan().all()
        fsdp2_models.backward(model, [0])
        assert fsdp2_models.gradients(model).isnan().all()
        model.zero_grad()
        native = fsdp2_models.hsdp() if replicas else fsdp2_models.network(over=over)
        for one in (model, native):
            fsdp2_models.backward(one, [0])
        fsdp2_models.expect_close_gradients(model, native)
        handle.close()


def an_ended_communicator():
    """Every backward raises: none leaves gradients that were not averaged. Then the model may be
    attached again."""
    model, handle = attached("none")
    models.train(model, range(1))
    dist.barrier()
    handle._comm.abort()
    for step in (1, 2, 3):
        expect_raises(gradwire.GradwireError, "abort", models.loss_of(model, step).backward)
    dist.barrier()
    _, again = attached("none", model)  # without the handle
    assert again.attached and not handle.attached
    models.train(model, range(1, 3))
    fsdp2_models.expect_equal_replicas(model)
    again.close()
