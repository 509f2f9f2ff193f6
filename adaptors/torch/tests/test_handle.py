"""What attach() and a handle do, without ranks."""

import pytest

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch import attaching
from gradwire.torch.ddp import DdpHandle


def test_a_revoked_step_needs_the_model_to_be_wrapped_again():
    error = DdpHandle._for_users(gradwire.Aborted(gwResult_t.gwAborted, "run it again"))
    assert isinstance(error, gradwire.Aborted) and error.result == gwResult_t.gwAborted
    assert "run it again" in str(error) and "attach again" in str(error)


def test_other_errors_stay_as_they_are():
    error = gradwire.PeerLost(gwResult_t.gwPeerLost, "rank 1")
    assert DdpHandle._for_users(error) is error


def test_a_scaler_makes_nonfinite_skip_unless_it_is_set():
    for settings in (None, "", "plan_log=/nonfinite", {"plan_log": "/nonfinite"}):
        assert "nonfinite=skip" in attaching._with_defaults(settings, scaler=True)
        assert "nonfinite=skip" not in attaching._with_defaults(settings, scaler=None)
    for settings in ("nonfinite=mine", "debug=error\nnonfinite = mine", {"nonfinite": "mine"}):
        with pytest.raises(gradwire.InvalidArgument, match="'mine'"):
            gradwire.Comm.from_unique_id(gradwire.unique_id(), 0, 1,
                                         attaching._with_defaults(settings, scaler=True))
