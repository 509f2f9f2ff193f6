"""Processor time of gradwire's communication hook in the thread that runs backward."""

import dataclasses

import settings
from arguments import size as at_least

# In the place of a workload: buckets of very small parameters, see hook_time.py.
WORKLOAD = "buckets"
SETTINGS = (settings.OURS + "none", settings.OURS + "qsgd(bits=4,feedback=on)")
_MOST_HOOK_US, _MOST_PARAMETER_US = 100, 2


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is run; the default is that of published tables, the second number the least from
    which one can be made."""

    calls: int = at_least(180, 1)  # of the hook, one in each step


class HookTable:
    """A part is a setting."""

    NAME = "hook"
    TITLE = "Processor time of the communication hook"
    Size = Size

    def __init__(self, chosen, _seeds):
        self._settings = {settings.plain_name(setting): setting for setting in chosen}

    def parts(self, _cell, _size):
        """The settings."""
        return list(self._settings)

    def measure(self, jobs, cell, part, size):
        """As rank.py hook."""
        return jobs.rank(cell, "hook", setting=self._settings[part], **dataclasses.asdict(size))

    def result(self, cell, by_part):
        """{"settings": a row each}"""
        first = next(iter(by_part.values()))
        return {
            **dataclasses.asdict(cell), "torch": first["torch"], "gradwire": first["gradwire"],
            "settings": [_row(measured) for measured in by_part.values()],
        }  # fmt: skip

    def sections(self, result):
        """The table of a cell: rows."""
        return [[
            {
                "setting": f"`{row['setting']}`", "parameters": row["parameters"],
                "compressed": row["compressed"],
                "us in the hook": row["hook_us"], "us a further parameter": row["parameter_us"],
                "us at the end of the step": row["end_us"],
                "goal": f"<= {_MOST_HOOK_US}, <= {_MOST_PARAMETER_US}", "holds": row["holds"],
            }
            for row in result["settings"]
        ]]  # fmt: skip


def _row(measured):
    few, many = measured["buckets"]
    further = many["parameters"] - few["parameters"]
    parameter_us = (many["hook_us"] - few["hook_us"]) / further
    return {
        "setting": measured["setting"], **few, "parameter_us": parameter_us,
        "holds": few["hook_us"] <= _MOST_HOOK_US and parameter_us <= _MOST_PARAMETER_US,
    }  # fmt: skip
