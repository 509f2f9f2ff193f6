"""What every rank of a measurement runs: rank.py steps|training|hook OPTIONS, with torchrun's
variables.

steps: blocks of steps under one setting after the other, each with a replica of its own.
training: one setting from the first weights on, with evaluations in between.
hook: the processor time of one setting's hook.
"""

import argparse
import json
import os
import time

import torch
from torch import distributed as dist

import gradwire
import hook_time
import hooks
import settings
import turns
import workloads


def parse_args():
    """The command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", required=True, help="rank 0 writes it")
    trained = argparse.ArgumentParser(add_help=False)
    trained.add_argument("--workload", choices=workloads.BY_NAME, required=True)
    trained.add_argument("--seed", type=int, required=True)
    parser = argparse.ArgumentParser(description="One rank of ./run bench-torch.")
    modes = parser.add_subparsers(dest="mode", required=True)
    steps = modes.add_parser("steps", parents=[common, trained])
    steps.add_argument("--setting", action="append", dest="settings", required=True)
    steps.add_argument("--blocks", type=int, required=True)
    steps.add_argument("--block", type=int, required=True)
    steps.add_argument("--warm-up", type=int, required=True)
    steps.add_argument("--auto-warm-up", type=int, required=True)
    training = modes.add_parser("training", parents=[common, trained])
    training.add_argument("--setting", required=True)
    training.add_argument("--steps", type=int, required=True)
    training.add_argument("--evaluate-every", type=int, required=True)
    hook = modes.add_parser("hook", parents=[common])
    hook.add_argument("--setting", required=True)
    hook.add_argument("--calls", type=int, required=True)
    return parser.parse_args()


class Replica:
    """A model under one setting, which trains."""

    def __init__(self, workload, setting, seed, name="model"):
        torch.manual_seed(seed)
        self._workload = workload
        self.network = workload.network()
        self._model = hooks.wrap(self.network, setting)
        self.handle = hooks.attach(self._model, setting, name=name)
        self._optimizer = workload.optimizer(self._model.parameters())
        # Other batches on each rank.
        self._generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())

    def step(self):
        """Seconds that it took."""
        start = time.perf_counter()
        self._optimizer.zero_grad()
        self._workload.loss(self._model, self._generator).backward()
        self._optimizer.step()
        return time.perf_counter() - start

    def close(self):
        """All ranks."""
        if self.handle:
            self.handle.close()


def _means_over_ranks(values):
    """Of [value], which is as long on all ranks."""
    total = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(total)
    return (total / dist.get_world_size()).tolist()


def _warm_up(replica, setting, args):
    for _ in range(args.auto_warm_up if settings.is_auto(setting) else args.warm_up):
        replica.step()


def _sent_bytes(replica):
    return replica.handle.stats()["sent_bytes"] if replica.handle else None


def _block(replica, length):
    """A block of steps: milliseconds of each, and the processor's for one; means over the ranks."""
    dist.barrier()
    sent, cpu = _sent_bytes(replica), time.process_time()
    seconds = [replica.step() for _ in range(length)]
    seconds.append((time.process_time() - cpu) / length)
    *step_ms, cpu_ms = (round(1000 * s, 3) for s in _means_over_ranks(seconds))
    block = {"step_ms": step_ms, "cpu_ms": cpu_ms}
    if sent is not None:
        block["sent_bytes"] = (_sent_bytes(replica) - sent) // length
    return block


def measure_steps(workload, args):
    """Blocks of each setting."""
    replicas = {s: Replica(workload, s, args.seed, settings.plain_name(s)) for s in args.settings}
    for setting, replica in replicas.items():
        _warm_up(replica, setting, args)
    blocks = {setting: [] for setting in args.settings}
    for order in turns.rounds(args.settings, args.blocks, args.seed):
        for setting in order:
            blocks[setting].append(_block(replicas[setting], args.block))
    for replica in replicas.values():
        replica.close()
    return {"settings": [{"setting": s, "blocks": blocks[s]} for s in args.settings]}


def train(workload, args):
    """Points of the curve; the clock stands still while the model is evaluated."""
    replica = Replica(workload, args.setting, args.seed)
    seconds, points = 0.0, []
    dist.barrier()
    for step in range(1, args.steps + 1):
        seconds += replica.step()
        if step % args.evaluate_every == 0 or step == args.steps:
            merit = workload.merit(replica.network)
            points.append({"step": step, "seconds": round(seconds, 4), "merit": round(merit, 4)})
    replica.close()
    return {
        "setting": args.setting, "points": points, "merit": workload.MERIT,
        "target": workload.TARGET, "higher_is_better": workload.HIGHER_IS_BETTER,
    }  # fmt: skip


def _measure(args):
    if args.mode == "hook":
        return hook_time.measure(args.setting, args.calls)
    workload = workloads.BY_NAME[args.workload]()
    measured = (measure_steps if args.mode == "steps" else train)(workload, args)
    parameters = sum(parameter.numel() for parameter in workload.network().parameters())
    return {"workload": args.workload, "parameters": parameters, "seed": args.seed, **measured}


def main():
    """Rank 0 writes the result."""
    args = parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measured = _measure(args)
    if dist.get_rank() == 0:
        result = {
            "netlab": os.environ.get("GRADWIRE_NETLAB"), "ranks": dist.get_world_size(),
            "torch": torch.__version__, "gradwire": gradwire.__version__, **measured,
        }  # fmt: skip
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
