"""What attach() and Handle.set_spec() ask of a spec."""


def _check_half(rows, scaler):
    """Small gradients in half precision are zero without loss scaling; feedback then sums zeros."""
    half = [row["name"] for row in rows if row["feedback"] and row["datatype"] == "half"]
    if half and scaler is None:
        raise ValueError(f"{half[0]} has gradients in float16 and a codec with feedback: pass "
                         "scaler=, the GradScaler of the loss, or scaler=False to go without")


def is_majority(row):
    """Whether a row of the ledger has a codec that gives signs. These are of one magnitude whatever
    gradients are divided by, so only its averages are such."""
    return row["spec"].partition("(")[0] == "signsgd"


class Rules:
    """For a kind of models, a class of WrappedModel, with that loss scaler. Errors say what to do."""

    def __init__(self, kind, scaler):
        self._kind = kind
        self._scaler = scaler

    def check(self, spec):
        """Before any tensor has it."""
        if not isinstance(spec, str):
            raise TypeError(f'the spec is a text, as "auto" or "qsgd(bits=4)", not {spec!r}')
        if not spec.strip():
            raise ValueError('the spec is empty: "none" sums exactly')
        self._kind.check_spec(spec)

    def check_rows(self, rows):
        """Of the ledger, of tensors that have it."""
        self._kind.check_rows(rows)
        _check_half(rows, self._scaler)
