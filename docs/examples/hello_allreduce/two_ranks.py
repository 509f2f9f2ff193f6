"""Runs an example on two ranks, as its comment says to."""

import re
import subprocess


def check(case, program, env=None):
    """case: a TestCase. All ranks of the program, a command line, get the mean by each codec."""
    done = subprocess.run(
        ["cli/gradwire", "run", "-n", "2", "--", *program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=env,
    )
    case.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    for rank in (0, 1):
        for spec in ("none", "bf16", "qsgd(bits=8)"):
            case.assertRegex(done.stdout, rf"rank {rank} of 2: {re.escape(spec)} +worst error")
    # 0.000000 is what fits into the print: the exact mean in fp32.
    case.assertRegex(done.stdout, r"none +worst error 0\.000000")
