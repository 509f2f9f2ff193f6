"""gradwire.Comm with arrays of numpy; here because Bazel's Python has none."""

import launch


def test_collectives_take_arrays_of_numpy():
    for ended in launch.ranks("numpy_program.py", afresh=True):
        assert ended.code == 0, ended.output
        for scenario in ("reductions", "others", "tensors", "refusals"):
            assert f"passed {scenario}\n" in ended.output, ended.output
