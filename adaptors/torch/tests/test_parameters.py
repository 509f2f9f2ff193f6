"""Names and selection, without ranks."""

import types

import pytest
import torch

from gradwire.torch.parameters import Selection, check, plain_name


def test_names_have_no_wrappers():
    assert plain_name("_orig_mod.layer.0._checkpoint_wrapped_module.weight") == "layer.0.weight"
    assert plain_name("module.weight") == "module.weight", "a part of the model's own"
    assert plain_name("weight") == "weight"


def test_what_is_small_or_excluded_stays_exact():
    matrix, vector = torch.zeros(64, 64), torch.zeros(10000)
    selection = Selection(["head.*", "*.norm.*"], 4096)
    assert not selection.is_exact_parameter("body.weight", matrix)
    assert selection.is_exact_parameter("body.weight", matrix[1:])
    assert selection.is_exact_parameter("body.bias", vector)
    assert selection.is_exact_parameter("head.weight", matrix)
    assert selection.is_exact_parameter("body.norm.weight", matrix)


def test_globs_that_match_nothing_are_known():
    selection = Selection(["head.*", "*.bais"], 4096)
    selection.is_exact("head.weight", 10)
    selection.is_exact("body.bias", 10)
    assert selection.idle_globs == ["*.bais"]


def test_one_glob_needs_no_list():
    assert Selection("head.*", 0).is_exact_parameter("head.weight", torch.zeros(4))
    assert not Selection((), 0).is_exact_parameter("head.weight", torch.zeros(4))


@pytest.mark.parametrize("exclude", [None, 5, [None], ["head.*", 5]])
def test_what_are_no_globs_is_told(exclude):
    with pytest.raises(TypeError, match="exclude= takes globs of names"):
        Selection(exclude, 0)


@pytest.mark.parametrize("min_numel", ["4096", None, [1]])
def test_what_is_no_number_is_told(min_numel):
    with pytest.raises(TypeError, match="min_numel= takes a number of elements"):
        Selection((), min_numel)


def test_gradients_elsewhere_than_in_host_memory_are_refused():
    there = types.SimpleNamespace(is_complex=lambda: False, is_meta=False,
                                  device=torch.device("cuda"))
    words = "w is on cuda, and this build takes host memory only: train on the CPU"
    with pytest.raises(RuntimeError, match=words):
        check([("v", torch.empty(1)), ("w", there)])


def test_parameters_without_values_are_refused():
    with pytest.raises(RuntimeError, match="w is on meta and has no values yet: model.to_empty"):
        check([("w", torch.empty(1, device="meta"))])
