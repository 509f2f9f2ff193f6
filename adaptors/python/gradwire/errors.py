"""One exception per family of result codes; all are GradwireError and have `.result`."""

import re

from gradwire._bindings import gwResult_t

# What the library's texts call by its name in C.
_NAMES = {
    "GW_SPLIT_NOCOLOR": "None",
    "gwSum": "'sum'", "gwProd": "'prod'", "gwMax": "'max'", "gwMin": "'min'", "gwAvg": "'avg'",
    "gwGetUniqueId": "unique_id()", "gwCommInitRankConfig": "from_unique_id()",
    "gwCommInitEnv": "from_environment()", "gwCommSplit": "split()", "gwCommUserRank": "rank",
    "gwCommCount": "world_size", "gwCommGetAsyncError": "raise_async_error()",
    "gwCommFinalize": "close()", "gwCommDestroy": "close()", "gwCommAbort": "abort()",
    "gwCommGetStats": "stats()", "gwCommGetLedger": "ledger()",
    "gwAllReduce": "all_reduce()", "gwReduce": "reduce()", "gwBroadcast": "broadcast()",
    "gwReduceScatter": "reduce_scatter()", "gwAllGather": "all_gather()",
    "gwAllToAll": "all_to_all()", "gwBarrier": "barrier()", "gwSend": "send()",
    "gwRecv": "receive()", "gwGroupStart": "exchange()", "gwGroupEnd": "exchange()",
    "gwTensorRegister": "tensor()", "gwTensorDeregister": "deregister()",
    "gwTensorSetSpec": "set_spec()", "gwTensorDiscardStep": "discard_step()",
    "gwAllReduceTensors": "submit()", "gwReduceScatterTensor": "reduce_scatter_tensor()",
    "gwRequestTest": "test()", "gwRequestWait": "wait()",
    "gwStepBegin": "begin_step()", "gwStepSetLossScale": "begin_step()",
    "gwStepEnd": "end_step()", "gwStepAbort": "abort_step()",
    "gwStateSave": "save_state()", "gwStateLoad": "load_state()",
}


class GradwireError(RuntimeError):
    """A call into gradwire failed; the text names rank, peer, operation, tensor and remedy."""

    CODE = None  # what `result` is unless it is given

    def __init__(self, text, result=None):
        super().__init__(text)
        self.result = self.CODE if result is None else result

    def __reduce__(self):
        return type(self), (str(self), self.result)


class InvalidArgument(GradwireError, ValueError):
    """An argument is wrong: no effect, everything is still usable."""

    CODE = gwResult_t.gwInvalidArgument


class InvalidUsage(GradwireError):
    """The call is not allowed now: no effect, everything is still usable."""

    CODE = gwResult_t.gwInvalidUsage


class TimedOut(GradwireError, TimeoutError):
    """The bound of a wait passed; what was waited for stays valid."""

    CODE = gwResult_t.gwTimeout


class Aborted(GradwireError):
    """The training step was revoked; run it again."""

    CODE = gwResult_t.gwAborted


class Mismatch(GradwireError):
    """The ranks disagree about an operation, or a checkpoint about a tensor; the text has the field
    and both values."""

    CODE = gwResult_t.gwMismatch


class DataCorrupt(GradwireError):
    """Bytes from the network or a file are damaged."""

    CODE = gwResult_t.gwDataCorrupt


class NonFinite(GradwireError):
    """A NaN or an infinity met the policy `nonfinite`: the same gradients would fail again."""

    CODE = gwResult_t.gwNonFinite


class PeerLost(GradwireError):
    """Another rank is gone, or failed and said so; the communicator is of no more use: close it,
    and start another one without that rank."""

    CODE = gwResult_t.gwPeerLost


class Revoked(GradwireError):
    """The communicator was revoked; close it."""

    CODE = gwResult_t.gwRevoked


class StartFailed(GradwireError):
    """No communicator: a transport that cannot work here, or ranks without the job's secret."""

    CODE = gwResult_t.gwTransportUnavailable


_CLASSES = {kind.CODE: kind for kind in (InvalidArgument, InvalidUsage, TimedOut, Aborted, Mismatch,
                                         DataCorrupt, NonFinite, PeerLost, Revoked, StartFailed)}
_CLASSES |= {gwResult_t.gwRemoteError: PeerLost, gwResult_t.gwUnauthenticated: StartFailed}


def in_python(text):
    """A text of the library's for who has never seen its C API."""
    return re.sub(r"\b(gw[A-Z]|GW_)\w*", lambda name: _NAMES.get(name[0], name[0]), text)


def error_of(code, text):
    """The exception for a result code that is not gwSuccess."""
    result = gwResult_t(code)
    return _CLASSES.get(result, GradwireError)(text or result.name, result)
