"""powersgd(rank=r) approximates as torch's powerSGD_hook does."""

import launch
import powersgd_program


def test_approximations_from_the_same_matrix_and_basis_agree():
    for ended in launch.ranks("powersgd_program.py"):
        assert ended.code == 0, ended.output[-3000:]
        for rank in powersgd_program.RANKS:
            assert f"rank {rank}: " in ended.output
