"""What a handle says, without ranks."""

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch.ddp import DdpHandle


def test_a_revoked_step_needs_the_model_to_be_wrapped_again():
    error = DdpHandle._for_users(gradwire.Aborted(gwResult_t.gwAborted, "run it again"))
    assert isinstance(error, gradwire.Aborted) and error.result == gwResult_t.gwAborted
    assert "run it again" in str(error) and "attach again" in str(error)


def test_other_errors_stay_as_they_are():
    error = gradwire.PeerLost(gwResult_t.gwPeerLost, "rank 1")
    assert DdpHandle._for_users(error) is error
