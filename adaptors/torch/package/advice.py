"""What to do in PyTorch about errors of the library, whose own advice is for programs in C."""

import re

import gradwire

# Of a group's ranks, in the text of an error.
_MOST_LISTED = 16

# By kind, behind the library's words.
ADVICE = {
    gradwire.PeerLost: "with PyTorch: end the job, start it again, as torchrun does by itself with "
                       "--max-restarts, and load a checkpoint",
    gradwire.Mismatch: "with PyTorch: the same model, arguments of attach() and steps on all ranks",
}

# Behind the communicator's end, also for what a handle is asked between steps.
ADVICE_AT_THE_END = {
    **ADVICE,
    gradwire.Aborted: "with PyTorch: attach again, which begins with nothing kept back, and "
                      "load_state_dict() of a checkpoint if there is one",
}
# Of a revoked step, behind which FSDP goes on.
AGAIN_WITH_FSDP2 = "with FSDP2: model.zero_grad(), then all backwards of this step again"


def whose_ranks(ranks):
    """What an error adds that numbers ranks as a process group does. ranks: those of the group, as
    the job numbers them. Empty: both number them alike."""
    if ranks == list(range(len(ranks))):
        return ""
    listed = [*map(str, ranks[:_MOST_LISTED]), *["..."][:len(ranks) - _MOST_LISTED]]
    return (f"ranks are numbered as in the process group; from 0 on they are {', '.join(listed)} of "
            "the job")


def for_others(error):
    """Its words for other ranks, who get advice of their own."""
    text = str(error)
    for words in (*ADVICE_AT_THE_END.values(), AGAIN_WITH_FSDP2):
        text = text.replace(f" ({words})", "")
    return text


def for_users(error, advice, whose=""):
    """The error, with that advice if there is some for its kind, and once.

    whose: what whose_ranks() gives.
    """
    text = str(error)
    words = [advice.get(type(error)), whose if re.search(r"\brank", text) else ""]
    added = "".join(f" ({one})" for one in words if one and one not in text)
    return type(error)(text + added, error.result) if added else error
