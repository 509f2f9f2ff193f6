"""One exception per family of result codes; all are GradwireError and have `.result`."""

from gradwire._bindings import gwResult_t


class GradwireError(RuntimeError):
    """A call into gradwire failed; the text names rank, peer, operation, tensor and remedy."""

    def __init__(self, result, text):
        super().__init__(text)
        self.result = result

    def __reduce__(self):
        return type(self), (self.result, str(self))


class InvalidArgument(GradwireError, ValueError):
    """An argument is wrong: no effect, everything is still usable."""


class InvalidUsage(GradwireError):
    """The call is not allowed now: no effect, everything is still usable."""


class TimedOut(GradwireError, TimeoutError):
    """The bound of a wait passed; what was waited for stays valid."""


class Aborted(GradwireError):
    """The training step was revoked; run it again."""


class Mismatch(GradwireError):
    """The ranks disagree about an operation; the text has the field and both values."""


class DataCorrupt(GradwireError):
    """Bytes from the network or a file are damaged."""


class NonFinite(GradwireError):
    """A NaN or an infinity met the policy `nonfinite`."""


class PeerLost(GradwireError):
    """Another rank is gone, or failed and said so; the communicator is of no more use."""


class Revoked(GradwireError):
    """The communicator was revoked; destroy it."""


class StartFailed(GradwireError):
    """No communicator: a transport that cannot work here, or ranks without the job's secret."""


_CLASSES = {
    gwResult_t.gwInvalidArgument: InvalidArgument,
    gwResult_t.gwInvalidUsage: InvalidUsage,
    gwResult_t.gwTimeout: TimedOut,
    gwResult_t.gwAborted: Aborted,
    gwResult_t.gwMismatch: Mismatch,
    gwResult_t.gwDataCorrupt: DataCorrupt,
    gwResult_t.gwNonFinite: NonFinite,
    gwResult_t.gwRemoteError: PeerLost,
    gwResult_t.gwPeerLost: PeerLost,
    gwResult_t.gwRevoked: Revoked,
    gwResult_t.gwTransportUnavailable: StartFailed,
    gwResult_t.gwUnauthenticated: StartFailed,
}


def error_of(code, text):
    """The exception for a result code that is not gwSuccess."""
    result = gwResult_t(code)
    return _CLASSES.get(result, GradwireError)(result, text or result.name)
