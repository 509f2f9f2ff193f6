"""The cells of the tables: a link, a model, a number of ranks, how much is computed."""

import dataclasses
import json
import pathlib

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


def select(text):
    """Those of "1,5,9-12", or all; ValueError for others."""
    cells = load()
    if text == "all":
        return list(cells.values())
    wanted = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        wanted += range(int(first), int(last or first) + 1)
    if unknown := [str(i) for i in wanted if i not in cells]:
        raise ValueError(f"no cell {', '.join(unknown)} among {min(cells)} to {max(cells)}")
    return [cells[i] for i in wanted]
