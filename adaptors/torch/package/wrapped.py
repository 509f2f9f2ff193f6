"""What attach() asks of a model, whatever has wrapped it."""

import abc


class WrappedModel(abc.ABC):
    """A model in DistributedDataParallel or with fully_shard(), as attach() sees it.

    attach() calls the methods of a model in this order. Up to end_open_steps() it tells an error of one rank
    to all; from make_equal() on all ranks take part in what each of them does.
    """

    trained = ()  # [(plain name, parameter)]: those whose gradients are averaged

    @classmethod
    def check_spec(cls, spec):
        """Raises where this kind of model never takes it."""

    @classmethod
    def check_rows(cls, rows):
        """Raises where it does not take it of these tensors; rows: of the ledger."""

    @property
    @abc.abstractmethod
    def groups(self):
        """[process group] of all who take part; gradwire averages over the first."""

    @abc.abstractmethod
    def check(self):
        """Raises where gradwire cannot serve the model."""

    @abc.abstractmethod
    def check_hooks(self):
        """Raises where the model has somebody else's hook; ours may be there of an earlier attach()."""

    def end_open_steps(self):
        """Of an earlier wrapping of the parameters, for which the other ranks wait."""

    def make_equal(self, places):
        """Where parameters must be equal on some ranks and nobody has seen to it.

        places: rendezvous.Place of each of the groups, which have been settled.
        """

    def join_others(self, places, settings):
        """Besides the communicator of the first group; handle() takes what it makes along.

        places: of the other groups.
        """

    def leave_others(self):
        """Where attach() fails behind join_others()."""

    @abc.abstractmethod
    def tensors(self, comm, prefix, spec, selection):
        """The Tensors of its gradients, registered as selection (parameters.Selection) says."""

    def warnings(self):
        """Texts of what users should know of the model; equal on all ranks."""
        return []

    @abc.abstractmethod
    def hook(self, old):
        """The Router that the model's hooks ask from now on. old: that of an earlier attach(), or
        None."""

    @property
    @abc.abstractmethod
    def size(self):
        """(tensors, elements), those too that go through torch's own group."""

    @property
    def speaks(self):
        """Whether rank 0 of the first group tells what is compressed."""
        return True

    @abc.abstractmethod
    def handle(self, comm, tensors, name, scaler):
        """The Handle of what tensors() and hook() have made."""
