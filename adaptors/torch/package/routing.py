"""Who averages a model's gradients."""

import enum


class Phase(enum.Enum):
    """Who averages a model's gradients.

        attach() -> ATTACHED -- detach() --> DETACHING -- a step that commits --> DETACHED

    close() leads to DETACHED from the first two, abort() to ABORTED.
    """

    ATTACHED = "gradwire"
    DETACHING = "gradwire; the next step that commits sends what was kept back, and is the last"
    DETACHED = "torch's own group"
    # The other ranks do not follow this one to torch's own group.
    ABORTED = "nobody: backward raises, also one under way"


class Router:
    """Whom a model's hooks ask: the handle while one is attached, else torch's own group."""

    def __init__(self, group):
        self.group = group
        self.handle = None

    @property
    def is_attached(self):
        return self.handle is not None and self.handle.attached

    @property
    def is_free(self):
        """Gradients are torch's own group's to sum."""
        return self.handle is None or self.handle.phase is Phase.DETACHED
