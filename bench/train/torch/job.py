"""Jobs of ranks with PyTorch."""

import dataclasses
import pathlib

_RANK = pathlib.Path(__file__).with_name("rank.py")


@dataclasses.dataclass(frozen=True)
class Cell:
    """What is trained, over which link, on how many ranks."""

    workload: str
    link: str
    ranks: int

    @property
    def name(self):
        """One word, for files and progress."""
        return f"{self.workload}-{self.link}-p{self.ranks}"


class TorchJobs:
    """Runs rank.py by a Python that has PyTorch, one job at a time."""

    def __init__(self, jobs, python):
        self._jobs, self._python = jobs, str(python)

    def rank(self, cell, mode, **options):
        """The JSON of `rank.py MODE`; of options each value of a tuple is given apart."""
        command = [self._python, str(_RANK), mode]
        for name, value in options.items():
            values = value if isinstance(value, tuple) else (value,)
            command += [f"--{name.replace('_', '-')}={v}" for v in values]
        return self._jobs.program(cell, command)

    def machine_state(self):
        """As Jobs.machine_state."""
        return self._jobs.machine_state()
