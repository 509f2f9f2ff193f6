"""Programs of scenarios, which are their functions without parameters: one launch runs many, for
importing torch takes seconds. Each prints "passed SCENARIO"; a rank that fails ends the program.
"""

import ast
import collections
import faulthandler
import gc
import os
import sys
import traceback

from torch import distributed as dist

from launch import LIMIT_S


def of(*files):
    """Their public functions without parameters, without running the files."""
    names = []
    for file in files:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
        with open(path, encoding="utf-8") as text:
            functions = [n for n in ast.parse(text.read()).body if isinstance(n, ast.FunctionDef)]
        names += [f.name for f in functions if not f.args.args and not f.name.startswith("_")]
    return names


def chosen(request, test):
    """Those that pytest runs of a parametrized test."""
    return [item.callspec.params["scenario"] for item in request.session.items
            if item.module is request.module and getattr(item, "originalname", "") == test]


def _join_gloo():
    dist.init_process_group("gloo")


def run(*namespaces, join=_join_gloo):
    """The program: those of the scenarios in `namespaces` that its arguments name.

    join(): makes the process group, if there is to be one.
    """
    functions = dict(collections.ChainMap(*namespaces))
    # With all stacks, before the launcher kills without a word.
    faulthandler.dump_traceback_later(LIMIT_S - 10, exit=True)
    join()
    for scenario in sys.argv[1:]:
        try:
            functions[scenario]()
        except BaseException:
            print(f"failed {scenario}\n{traceback.format_exc()}", flush=True)
            os._exit(1)
        gc.collect()
        print(f"passed {scenario}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


def expect_passed(scenario, ended):
    """Else tells how all ranks fared: of one error the others' are the consequence."""
    passed = all(f"passed {scenario}\n" in rank.output for rank in ended)
    assert passed, "".join(f"\n--- rank {number} ended with exit code {rank.code}:\n"
                           f"{_told_of(scenario, rank.output)}" for number, rank in enumerate(ended))


def _told_of(scenario, output):
    """Of a rank that ended by a signal, its faulthandler's words, which are its last."""
    if f"passed {scenario}\n" in output:
        return "passed"
    return output.partition(f"failed {scenario}\n")[2] or "not run: " + output[-3000:]


def expect_good_order(ended):
    for rank in ended:
        assert rank.code == 0, rank.output[-3000:]
