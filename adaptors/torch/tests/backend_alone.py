"""What is made of settings, each by a group of one rank. Scenarios of backend_program on one rank."""

import contextlib
import io
import os

import torch
from torch import distributed as dist

import gradwire.torch
from models import expect_raises


def _init_alone(compress, min_bytes="1M"):
    os.environ.update(GRADWIRE_COMPRESS=compress, GRADWIRE_MIN_BYTES=min_bytes)
    try:
        dist.init_process_group("cpu:gradwire", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(1 << 18))
        dist.destroy_process_group()
    finally:
        del os.environ["GRADWIRE_COMPRESS"], os.environ["GRADWIRE_MIN_BYTES"]


def what_needs_steps_is_refused():
    for spec in ("auto", "topk(0.01)", "powersgd(rank=4)", "qsgd(bits=4,feedback=on)", "intsgd",
                 "signsgd", "signsgd(momentum=0.9)", "efsign"):
        error = expect_raises(ValueError, "use gradwire.torch.attach", lambda: _init_alone(spec))
        assert spec.partition("(")[0] in str(error), error
    for spec in ("none", "bf16", "fp16", "qsgd(bits=8)", "qsgd(bits=4,sum=carrier)", "terngrad",
                 "randk(0.1,feedback=off)"):
        _init_alone(spec)
    _init_alone("bf16", "64k")
    expect_raises(ValueError, "takes a number of bytes", lambda: _init_alone("bf16", "1MB"))
    expect_raises(ValueError, "bf16", lambda: _init_alone("bf61"))


def it_says_what_it_compresses():
    """On standard error."""
    gradwire.torch.backend._announced = False
    with contextlib.redirect_stderr(io.StringIO()) as said:
        _init_alone("bf16", "2M")
    assert "all-reduce of 2,097,152 bytes and more as bf16" in said.getvalue(), said.getvalue()
