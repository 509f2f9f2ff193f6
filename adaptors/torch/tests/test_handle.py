"""What attach() and a handle do, without ranks."""

import array
import concurrent.futures
import functools
import gc
import inspect
import pydoc
import re
import weakref
from unittest import mock

import pytest
import torch
from torch.distributed.fsdp import FullyShardedDataParallel

import gradwire.torch
from gradwire._bindings import gwResult_t
from gradwire.torch import advice
from gradwire.torch.ddp import DdpHandle
from gradwire.torch.handle import Handle
from gradwire.torch.routing import Phase, Router
from gradwire.torch.tensors import Description, Tensors


def test_help_has_every_public_name():
    text = pydoc.plaintext.document(gradwire.torch)
    assert text.index("gradwire.torch.attach(model") < text.index("attach(model, spec, *, across")
    for name in gradwire.torch.__all__:
        assert inspect.getdoc(getattr(gradwire.torch, name))
    for name, member in inspect.getmembers(gradwire.torch.Handle):
        assert name.startswith("_") or inspect.getdoc(member), name


class _FirstFsdp(FullyShardedDataParallel):
    """As far as it goes without an accelerator."""

    def __init__(self):
        torch.nn.Module.__init__(self)

    __getattr__ = torch.nn.Module.__getattr__


@pytest.mark.parametrize("model, words", [
    (_FirstFsdp(), "not _FirstFsdp: use fully_shard()"),
    (torch.nn.Linear(1, 1), "not Linear: wrap it first")])
def test_of_what_is_not_wrapped_the_remedy_is_named(model, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        gradwire.torch.attach(model, "none")


def test_a_revoked_step_needs_the_model_to_be_wrapped_again():
    error = advice.for_users(gradwire.Aborted("run it again"), DdpHandle._ADVICE)
    assert isinstance(error, gradwire.Aborted) and error.result == gwResult_t.gwAborted
    for words in ("run it again", "attach again, load_state_dict(state)", "model.zero_grad()"):
        assert words in str(error)


def test_the_librarys_advice_is_for_programs_in_c():
    for kind, words in ((gradwire.PeerLost, "torchrun"), (gradwire.Mismatch, "attach()")):
        error = advice.for_users(kind("of rank 1"), Handle._ADVICE)
        assert type(error) is kind and error.result == kind.CODE
        assert str(error).startswith("of rank 1 (") and words in str(error)


def test_ranks_that_a_group_numbers_are_told_by_the_jobs_numbers():
    error, nothing = gradwire.PeerLost("rank 1 is lost"), gradwire.PeerLost("nobody is")
    for_users = functools.partial(advice.for_users, advice={})
    for ranks, words in (([1, 3], "from 0 on they are 1, 3 of the job)"),
                         (list(range(0, 64, 2)), ", 28, 30, ... of the job)")):
        whose = advice.whose_ranks(ranks)
        assert str(for_users(error, whose=whose)).endswith(words)
        assert for_users(nothing, whose=whose) is nothing
    assert advice.whose_ranks([0, 1, 2]) == "" and for_users(error) is error


def test_other_ranks_are_told_without_advice():
    error = advice.for_users(gradwire.PeerLost("rank 1 is lost"), Handle._ADVICE)
    assert advice.for_others(error) == "rank 1 is lost" != str(error)


def test_other_errors_stay_as_they_are():
    error = gradwire.NonFinite("rank 1")
    assert advice.for_users(error, DdpHandle._ADVICE) is error


def _handle():
    """Of a world of one rank."""
    comm = gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1)
    tensor = comm.tensor("model/w", [100], spec="topk(0.01,min_numel=0)")
    return Handle(comm, tensor, "model", None)


def _handle_with_tensors(comm, *names):
    """(handle, its tensors): compressed, and one that is exact anyway."""
    tensors = Tensors(comm, "model", "topk(0.5,min_numel=0)",
                      lambda name: Description(name, (4,), torch.float32, name == "exact"))
    for name in ("exact", *names):
        tensors.of(name)
    return Handle(comm, tensors, "model", None), tensors


def _specs(handle):
    return [row["spec"].partition("(")[0] for row in handle.ledger()["tensors"]]


def test_detach_gives_up_what_a_failed_backward_left_open():
    with gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1) as comm:
        handle, tensors = _handle_with_tensors(comm, "first", "last")
        handle._begin()
        comm.submit(gradwire.Group([tensors.of("last")], [array.array("f", bytes(16))])).wait()
        handle.detach()
        assert handle.phase is Phase.DETACHING and handle.attached
        assert _specs(handle) == ["none", "none", "none"]
        handle._begin()
        handle._end()
        assert handle.phase is Phase.DETACHED and not handle.attached


@pytest.mark.parametrize("end, phase", [(Handle.close, Phase.DETACHED),
                                        (Handle.abort, Phase.ABORTED)])
def test_torch_averages_behind_the_end_but_not_behind_an_abort(end, phase):
    handle, router = _handle(), Router(None)
    assert router.is_free and not router.is_attached
    router.handle = handle
    assert handle.phase is Phase.ATTACHED and router.is_attached and not router.is_free
    end(handle)
    handle.close()  # takes nothing back
    assert handle.phase is phase and not router.is_attached
    assert router.is_free == (phase is Phase.DETACHED)


def test_detach_amid_a_backward_changes_nothing():
    with gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1) as comm:
        handle, _ = _handle_with_tensors(comm, "first")
        loss = torch.ones(1, requires_grad=True).sum()
        loss.register_hook(lambda grad: handle.detach())
        handle._begin()
        with pytest.raises(gradwire.InvalidUsage, match="detach after backward"):
            loss.backward()
        handle._end()
        assert handle.attached and _specs(handle) == ["none", "topk"]


def test_a_flush_that_fails_flushes_nothing():
    with gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1) as comm:
        handle, tensors = _handle_with_tensors(comm, "first", "last")
        comm.begin_step(0)
        comm.submit(gradwire.Group([tensors.of("last")], [array.array("f", bytes(16))])).wait()
        with pytest.raises(gradwire.InvalidUsage):
            tensors.flush()
        assert _specs(handle) == ["none", "topk", "topk"]
        comm.abort_step()


@pytest.mark.parametrize("kind, words", [
    (Handle, "attach again, which begins with nothing kept back"),
    (lambda *args: DdpHandle(*args, None), "wrap the model in DistributedDataParallel again")])
@pytest.mark.parametrize("end", [Handle.abort, lambda handle: handle._comm.abort()])
def test_behind_an_abort_no_state_is_asked_for(kind, words, end):
    """There is none any more."""
    comm = gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1)
    handle = kind(comm, None, "model", None)
    handle._begin()
    end(handle)
    with pytest.raises(gradwire.Aborted, match=words) as told:
        handle._end()
    text = str(told.value)
    assert text.count("(with PyTorch: ") == 1 and "handle.state_dict()" not in text, text
    handle.close()


class _Failed:
    """Was sent, and its request ends badly."""

    def __init__(self):
        self.request = self

    def wait(self):
        raise gradwire.Mismatch("the ranks disagree")


def _handle_of_a_failed_step():
    """A weak reference."""
    handle = _handle()
    handle._begin()
    handle._sent.append(_Failed())
    try:
        handle._end()
    except gradwire.Mismatch:
        return weakref.ref(handle)
    raise AssertionError("no error")


def test_the_error_of_a_step_does_not_keep_its_handle():
    """Which has all buffers; without the collector."""
    gc.collect()
    gc.disable()
    try:
        assert _handle_of_a_failed_step()() is None
    finally:
        gc.enable()


def test_state_is_saved_and_loaded_where_a_failed_backward_left_a_step_open():
    with gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1) as comm:
        handle, tensors = _handle_with_tensors(comm, "first")

        def submit(*numbers):
            handle._begin()
            part = array.array("f", numbers)
            comm.submit(gradwire.Group([tensors.of("first")], [part]), keep=part).wait()

        submit(1, 2, 3, 4)
        handle._end()
        before = handle.state_dict()
        for call in (handle.state_dict, lambda: handle.load_state_dict(before)):
            submit(5, 6, 7, 8)
            call()
            assert not handle._is_open and handle.stats()["aborts"] > 0
            for key, value in handle.state_dict().items():
                assert torch.equal(value, before[key]), key


def test_state_amid_a_backward_is_refused():
    handle = _handle()
    state = handle.state_dict()
    for words, call in (("save after", handle.state_dict),
                        ("load after", lambda: handle.load_state_dict(state))):
        loss = torch.ones(1, requires_grad=True).sum()
        loss.register_hook(lambda grad, call=call: call())
        handle._begin()
        with pytest.raises(gradwire.InvalidUsage, match=f"'model' is in a step: {words} backward"):
            loss.backward()
        handle._end()
    handle.close()


@pytest.mark.parametrize("call", [Handle.detach, Handle.state_dict,
                                  lambda handle: handle.load_state_dict({})])
def test_behind_the_communicators_end_the_remedy_is_named(call):
    comm = gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1)
    handle, _ = _handle_with_tensors(comm, "first")
    comm.abort()
    with pytest.raises(gradwire.Aborted, match="with PyTorch: attach again"):
        call(handle)
    handle.close()


@pytest.mark.parametrize("change, kind, words", [
    (lambda state: None, TypeError, "what state_dict.. gave, not NoneType"),
    (lambda state: "a/path", TypeError, "what state_dict.. gave, not str"),
    (lambda state: {"model": {}, "ours": state}, ValueError, "Its part 'ours' has states: load that"),
    (lambda state: {1: 2, "model": {}}, ValueError, "no state of 'model'"),
    (lambda state: {key.replace("/model/", "/an/other/"): value for key, value in state.items()},
     ValueError, "It has that of 'an/other': attach.name=."),
    (lambda state: {key: None for key in state}, TypeError, "w is NoneType and no tensor"),
    (lambda state: {**state, "gradwire/model/step": None}, ValueError, "is None and not the count"),
    (lambda state: {**state, "gradwire/model/step": torch.ones(2)}, ValueError, "and not the count"),
    (lambda state: {**state, "gradwire/model/controller/rank0of1": 3}, TypeError, "int and no tensor"),
    (lambda state: {key: value.float() if value.dim() else value for key, value in state.items()},
     gradwire.DataCorrupt, "in type and size too; or do not load it"),
    (lambda state: {key.replace("of1", "of2"): value[:-1] if value.dim() else value
                    for key, value in state.items()},
     gradwire.DataCorrupt, "ends early .*in type and size too; or do not load it")])
def test_what_is_no_state_is_told(change, kind, words):
    """Cause and remedy; what is there stays."""
    handle = _handle()
    state = handle.state_dict()
    with pytest.raises(kind, match=words):
        handle.load_state_dict(change(state))
    assert handle.state_dict().keys() == state.keys()
    handle.close()


def test_of_an_open_step_another_thread_gives_nothing_up():
    handle = _handle()
    handle._begin()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(gradwire.InvalidUsage, match="'model' is in a step: save after backward"):
            pool.submit(handle.state_dict).result()
    handle._end()
    assert handle.stats()["aborts"] == 0
    handle.close()


def test_loading_needs_no_numpy():
    handle = _handle()
    state = handle.state_dict()
    with mock.patch.object(torch.Tensor, "numpy", side_effect=RuntimeError("no numpy")):
        handle.load_state_dict(state)
        with pytest.warns(UserWarning, match="rank0of2") as caught:
            handle.load_state_dict({key.replace("of1", "of2"): value
                                    for key, value in state.items()})
        assert caught[0].filename == __file__
    handle.close()


def test_loaded_state_may_lie_anywhere():
    handle = _handle()
    state = handle.state_dict()
    # Each byte of every second one, in copies that nobody else keeps.
    handle.load_state_dict({key: value if value.dim() == 0 else value.repeat_interleave(2)[::2]
                            for key, value in state.items()})
    gc.collect()
    for key, value in handle.state_dict().items():
        assert torch.equal(value, state[key])
    handle.close()


def test_backend_stats_without_a_group_of_the_backend():
    with pytest.raises(RuntimeError, match="call torch.distributed.init_process_group"):
        gradwire.torch.backend_stats()
    for group, words in ((-100, "not that of others"), ("default", "not 'default'")):
        with pytest.raises(TypeError, match=f"a process group that this rank is in, {words}"):
            gradwire.torch.backend_stats(group)
