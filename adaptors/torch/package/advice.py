"""What to do in PyTorch about errors of the library, whose own advice is for programs in C."""

import gradwire

# By kind, behind the library's words.
ADVICE = {
    gradwire.PeerLost: "with PyTorch: end the job, start it again, as torchrun does by itself with "
                       "--max-restarts, and load a checkpoint",
    gradwire.Mismatch: "with PyTorch: the same model, arguments of attach() and steps on all ranks",
}


def for_users(error, advice):
    """The error, with that advice if there is some for its kind."""
    words = advice.get(type(error))
    return type(error)(f"{error} ({words})", error.result) if words else error
