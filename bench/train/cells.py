"""The cells of the tables: a link, a model, a number of ranks, how much is computed."""

import dataclasses
import json
import pathlib
import re

_PATH = pathlib.Path(__file__).with_name("cells.json")
UNLIMITED = "unlimited"


@dataclasses.dataclass(frozen=True)
class Cell:
    """`compute` is relative to the time that `none` takes to exchange the gradients, `limits` are the
    keys of the spec `auto` with their values."""

    id: int
    link: str
    compute: float
    model: str
    scale: float
    ranks: int
    limits: dict
    fixed: tuple

    @property
    def name(self):
        """One word, for files and progress."""
        return f"cell-{self.id:02}"

    @property
    def auto(self):
        """The spec without a codec of its own."""
        keys = ",".join(f"{key}={json.dumps(value)}" for key, value in self.limits.items())
        return f"auto({keys})" if keys else "auto"

    def processor_bound(self, compute):
        """Four ranks on a few cores have no processor to spare on a link this fast, nor where they
        compute ("host") themselves: judged for safety only."""
        return self.ranks >= 4 and (compute == "host" or self.link in ("10gbit", UNLIMITED))

    def columns(self):
        """What every table's rows begin with."""
        return {
            "cell": self.id, "link": self.link, "model": self.model, "scale": self.scale,
            "ranks": self.ranks, "compute": self.compute,
        }  # fmt: skip


def load():
    """All of them, by id."""
    text = json.loads(_PATH.read_text(encoding="utf-8"))
    cells = []
    for entry in text["cells"]:
        settings = text["settings"][entry.pop("settings")]
        cells.append(Cell(**entry, limits=settings["limits"], fixed=tuple(settings["fixed"])))
    return {cell.id: cell for cell in cells}


def select_from(known, text):
    """Values of `known` by the numbers in "1,5,9-12", in that order and each once, or all;
    ValueError for other texts."""
    if text == "all":
        return list(known.values())
    chosen = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if first > last or first not in known or last not in known:
            raise ValueError(f"takes numbers from {min(known)} to {max(known)} and ranges of them, "
                             f"the lower one first, as 1,2-3, or all; not '{part}'")
        chosen |= {i: known[i] for i in range(first, last + 1)}
    return list(chosen.values())


def select(text):
    """As select_from."""
    return select_from(load(), text)
