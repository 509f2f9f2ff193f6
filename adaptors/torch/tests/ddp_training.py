"""Training with DistributedDataParallel in all its ways. Scenarios of ddp_program."""

import inspect
import threading
import time
import warnings
from unittest import mock

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch
import models
from gradwire.torch.ddp import DdpHandle
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks

COMPRESSED = ["bf16", "qsgd(bits=8)", "qsgd(bits=4,feedback=on)", "topk(0.1)", "powersgd(rank=4)",
              "efsign", "auto"]
# Served just as well; some lose more than this network forgives.
OTHERS = ["fp16", "acp(rank=4)", "intsgd", "terngrad", "signsgd(momentum=0.9)", "randk(0.1)",
          "topk(0.1,agreement=gather)", "topk(0.1,agreement=owners)", "qsgd(bits=8,sum=carrier)"]
# The ways in which DDP drives hooks.
WAYS = [{}, {"bucket_cap_mb": 25}, {"gradient_as_bucket_view": True}, {"static_graph": True},
        {"find_unused_parameters": True}]
# Those that torch has since 2.15.
NEW_WAYS = [{name: True} for name in ("lazy_bucket_allocation", "batched_grad_copy")
            if name in inspect.signature(DistributedDataParallel).parameters]


def none_is_plain_ddp():
    for way in WAYS + [{**new, **way} for new in NEW_WAYS for way in WAYS]:
        plain, (ours, handle) = models.wrap(**way), attached("none", wrap_options=way)
        assert models.train(plain, range(5)) == models.train(ours, range(5)), way
        expect_equal(models.weights(plain), models.weights(ours))
        assert handle.stats()["steps"] == 5
        handle.close()


def compressed_trains():
    for spec in COMPRESSED:
        for way in WAYS[:4] + NEW_WAYS:
            model, handle = attached(spec, wrap_options=way, min_numel=256)
            losses = models.train(model, range(40))
            first, last = sum(losses[:5]), sum(losses[-5:])
            assert last < 0.8 * first, (spec, way, first, last)
            expect_equal_on_ranks(models.weights(model))
            assert handle.stats()["commits"] == 40
            handle.close()


def any_spec():
    for spec in OTHERS:
        model, handle = attached(spec, min_numel=256)
        before = models.weights(model)
        models.train(model, range(10))
        after = models.weights(model)
        assert after.isfinite().all() and not torch.equal(before, after), spec
        expect_equal_on_ranks(after)
        used = {row["spec"].partition("(")[0] for row in handle.ledger()["tensors"]}
        assert spec.partition("(")[0] in used, (spec, used)
        assert handle.stats()["commits"] == 10
        handle.close()


def buckets_are_rebuilt():
    """The residuals belong to parameters, not to buckets: nothing is lost but for the flush."""
    counts = []

    class Watched(DdpHandle):
        def on_bucket(self, bucket):
            if bucket.is_last():
                counts.append(bucket.index() + 1)
            return super().on_bucket(bucket)

    gradwire.torch.ddp.DdpHandle = Watched
    try:
        model, handle = attached("topk(0.05)", models.Sum(), {"bucket_cap_mb": 0.05})
    finally:
        gradwire.torch.ddp.DdpHandle = DdpHandle
    steps, sent, meant = 8, torch.zeros(6, 90, 100), torch.zeros(6, 90, 100)
    for step in range(steps):
        inputs = models.Sum.inputs(step)
        if step == steps - 1:
            handle.detach()
        model.zero_grad()
        model(inputs[dist.get_rank()]).backward()
        sent += torch.stack([p.grad for p in model.module.parts])
        meant += inputs.mean(0)
    assert counts[0] != counts[-1] and counts[-1] > 2, counts
    assert not handle.attached
    difference = (sent - meant).abs().max().item()
    assert difference < 1e-4, difference


def groups_are_made_once():
    """For each bucket, and anew when torch rebuilds them or has other memory for gradients."""
    for way in ({}, {"gradient_as_bucket_view": True}):
        model, handle = attached(FEEDBACK, wrap_options=way)
        with mock.patch.object(gradwire, "Group", wraps=gradwire.Group) as made:
            models.train(model, range(2))
            first = made.call_count
            models.train(model, range(2, 7))
            buckets = len(handle._groups)
            assert buckets > 1 and made.call_count == first, (buckets, first, made.call_count)
        # One bucket before torch has seen the order of gradients.
        assert first == buckets + 1, (first, buckets)
        handle.close()


def blocked_time_is_counted():
    """Of each step, and never more than there is: of the rank that waits for a late one."""
    model, handle = attached("none")
    last, start = 0.0, time.perf_counter()
    for step in range(5):
        models.train(model, [step])
        blocked = handle.stats()["blocked_s"]
        assert last < blocked < time.perf_counter() - start, (last, blocked)
        last = blocked
    late_s, store = 2, dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["rank 1 may go on"])
    else:  # from its last gradient on: on busy cores those before take any time
        later = threading.Timer(late_s, store.set, ["rank 1 may go on", ""])
        next(model.parameters()).register_hook(lambda _: later.start())
    models.train(model, [5])
    waited = handle.stats()["blocked_s"] - last
    if dist.get_rank() == 1:
        assert waited < late_s / 8, waited
    else:
        assert waited > 0.9 * late_s, waited
    handle.close()


class _Transposed(nn.Module):
    """Its gradient is a matrix of rank 1, and does not lie row by row."""

    def __init__(self, is_strided):
        super().__init__()
        numbers = torch.zeros(64, 256)[:, ::2] if is_strided else torch.zeros(64, 128)
        self.weight = nn.Parameter(numbers.t())

    def forward(self, column, row):
        return column @ self.weight @ row


def a_transposed_parameter():
    """Low rank is that of its matrix: one of rank 1 loses nothing."""
    for is_strided in (False, True):
        model, handle = attached("powersgd(rank=1)", _Transposed(is_strided))
        column, row = torch.arange(128.0), torch.arange(64.0).cos()
        model(column * (dist.get_rank() + 1), row).backward()
        meant = 1.5 * torch.outer(column, row)
        torch.testing.assert_close(model.module.weight.grad, meant, rtol=1e-4, atol=1e-3)
        handle.close()


def no_sync():
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        with model.no_sync():
            for step in range(3):
                models.loss_of(model, step).backward()
        models.loss_of(model, 3).backward()
        models.loss_of(model, 4).backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        expect_equal(one.grad, other.grad)
    assert handle.stats()["steps"] == 2
    handle.close()


class _Ignoring(nn.Module):
    """DDP is told to ignore all of it but the first layer, and does with the last one only."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scale = nn.Parameter(torch.ones(8))
        self.first, self.shared, self.last = (nn.Linear(64, 64, bias=False) for _ in range(3))
        self.again = nn.Linear(64, 64, bias=False)
        self.again.weight = self.shared.weight
        self._ddp_params_and_buffers_to_ignore = ["scale", "shared.weight", "last.weight"]

    def forward(self, x):
        x = self.again(self.shared(self.first(x)).relu())
        return self.scale * self.last(x)[:, :8]


def ignored_parameters():
    """Those that DDP averages all the same are ours to average."""
    way = {"find_unused_parameters": True}
    for spec in ("none", FEEDBACK):
        plain, (ours, handle) = models.wrap(_Ignoring(), **way), attached(spec, _Ignoring(), way)
        if spec == "none":
            for model in (plain, ours):
                models.loss_of(model, 0).backward()
            for one, other in zip(plain.parameters(), ours.parameters()):
                expect_equal(one.grad, other.grad)
        else:
            models.train(ours, range(3))
        names = {row["name"] for row in handle.ledger()["tensors"]}
        assert names == {"model/scale", "model/first.weight", "model/shared.weight"}, names
        handle.close()


def uneven_inputs():
    plain, (ours, handle) = models.wrap(), attached("none")
    for model in (plain, ours):
        with model.join(divide_by_initial_world_size=True):
            models.train(model, range(3 + 2 * dist.get_rank()))
    expect_equal(models.weights(plain), models.weights(ours))
    assert handle.stats()["commits"] == 5
    handle.close()


def bfloat16_parameters():
    plain, (ours, handle) = (models.wrap(models.network().bfloat16()),
                             attached("none", models.network().bfloat16()))
    for model in (plain, ours):
        x, _ = models.batch(0)
        model(x.bfloat16()).float().sum().backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        assert torch.allclose(one.grad.float(), other.grad.float(), rtol=2e-2, atol=1e-2)
    handle.close()


def _half_network():
    return models.network().half()


def half_precision_trains():
    """In float16 the average is plain DDP's, but for its order of rounding."""
    plain, (ours, handle) = models.wrap(_half_network()), attached("none", _half_network())
    for model in (plain, ours):
        x, y = models.batch(0)
        nn.functional.mse_loss(model(x.half()).float(), y).backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=4e-3, atol=1e-5)
    handle.close()


def half_sums_may_overflow():
    """Where the average does not, it is right."""
    module = nn.Linear(64, 64, bias=False).half()
    model, handle = attached("none", module)
    model(torch.full((1, 64), 200.0).half()).backward(torch.full((1, 64), 200.0).half())
    gradient = module.weight.grad
    assert (gradient == 40000.0).all(), gradient
    handle.close()


def low_precision_with_feedback():
    for dtype in (torch.float16, torch.bfloat16):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        model, handle = attached(FEEDBACK, models.network().to(dtype), min_numel=256, scaler=scaler)
        optimizer = torch.optim.SGD(model.parameters(), lr=models.LEARNING_RATE)
        losses = []
        for step in range(40):
            optimizer.zero_grad()
            x, y = models.batch(step)
            loss = nn.functional.mse_loss(model(x.to(dtype)).float(), y)
            scaler.scale(loss).backward()
            # GradScaler unscales no gradients in float16.
            for parameter in model.parameters():
                parameter.grad.div_(scaler.get_scale())
            optimizer.step()
            losses.append(loss.item())
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), (dtype, losses)
        expect_equal_on_ranks(models.weights(model))
        assert handle.stats()["commits"] == 40
        handle.close()


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 64, sparse=True)
        self.head = nn.Linear(64, 1)
        self.wide = nn.Linear(64, 1).double()

    def forward(self, numbers):
        found = self.words(numbers)
        return self.head(found).sum() + self.wide(found.double()).sum().float()


def others_go_through_torch():
    """Sparse gradients and float64, as attach() says: filters that make an error of that end no step."""
    plain, ours = models.wrap(Embedded()), models.wrap(Embedded())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle = gradwire.torch.attach(ours, "none")
    said = [str(warning.message).split(" are ")[0] for warning in caught]
    for kind in ("sparse gradients", "gradients of type torch.float64"):
        assert said.count(kind) == 1, said
    numbers = torch.arange(7) * (dist.get_rank() + 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*not compressed")
        for _ in range(3):
            for model in (plain, ours):
                model.zero_grad()
                model(numbers).backward()
    for one, other in zip(plain.parameters(), ours.parameters()):
        expect_equal(one.grad.to_dense(), other.grad.to_dense())
    handle.close()


def nothing_is_ours():
    """Torch's group takes all gradients: the next backward ends what is detached, here too."""
    model = models.wrap(nn.Linear(3, 3).double())
    for _ in range(2):
        handle = gradwire.torch.attach(model, "none")
        model(torch.ones(2, 3).double()).sum().backward()
        handle.detach()
        assert handle.attached
        model(torch.ones(2, 3).double()).sum().backward()
        assert not handle.attached
    expect_equal_on_ranks(model.module.weight.grad)


def two_models():
    """Trained in turns, and by one backward."""
    pairs = [attached(FEEDBACK, name=name) for name in ("one", "two")]
    (one, _), (two, _) = pairs
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=models.LEARNING_RATE)
    for step in range(6):
        optimizer.zero_grad()
        if step < 3:
            models.loss_of(one, step).backward()
            models.loss_of(two, step).backward()
        else:
            (models.loss_of(one, step) + models.loss_of(two, step)).backward()
        optimizer.step()
    for model, handle in pairs:
        expect_equal_on_ranks(models.weights(model))
        assert handle.stats()["commits"] == 6
        handle.close()


def compiled():
    # torch cuts the graph where buckets end, which it cannot if they are this small.
    way = {"bucket_cap_mb": 25}
    plain = models.wrap(**way)
    ours, handle = attached("none", torch.compile(models.network(), backend="eager"), way)
    models.train(plain, range(3))
    models.train(ours, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    names = {row["name"] for row in handle.ledger()["tensors"]}
    assert "model/0.weight" in names, names
    handle.close()


class Wide(nn.Module):
    """More than a bucket of the least size that torch.compile takes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.wide, self.last = (nn.Linear(64, 768), nn.Linear(768, 768),
                                            nn.Linear(768, 8))

    def forward(self, x):
        return self.last(self.wide(self.first(x).relu()).relu())


def compiled_around_ddp():
    """torch cuts the graph where buckets end; attach takes what torch.compile gives."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    way = {"bucket_cap_mb": 1}
    plain = models.wrap(Wide(), **way)
    ours = torch.compile(models.wrap(Wide(), **way), backend=count)
    handle = gradwire.torch.attach(ours, "none")
    models.train(plain, range(3))
    models.train(ours, range(3))
    assert len(graphs) > 1, len(graphs)
    expect_equal(models.weights(plain), models.weights(ours))
    assert handle.stats()["commits"] == 3
    handle.close()


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.full((64,), float(index)), torch.zeros(8)


def forked_workers():
    model, handle = attached(FEEDBACK)
    models.train(model, range(1))
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2,
                                         multiprocessing_context="fork")
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
    assert handle.stats()["commits"] == 5
    handle.close()
