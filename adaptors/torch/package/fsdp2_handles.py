"""What attach() returns for FSDP2: a training's steps, with replicas and without."""

import contextlib
import functools
import weakref

import torch
from torch.autograd import Variable

import gradwire
from gradwire.torch.advice import AGAIN_WITH_FSDP2, for_others, for_users
from gradwire.torch.checkpoint import Checkpoint, place_of
from gradwire.torch.fsdp2_shards import LOST
from gradwire.torch.handle import Handle
from gradwire.torch.parameters import pointer_to

# Where hooks raise, FSDP does not come to its own end of backward, and keeps what it had begun.
_MEND = ("mend that; before the next backward model.zero_grad() and, since torch 2.15, "
         "model.reset_iter_state(); earlier ones need the model to be sharded and attached again")
_REFUSED = {gradwire.InvalidUsage: _MEND, gradwire.InvalidArgument: _MEND}


def finalized_by_hand():
    return gradwire.InvalidUsage(
        "gradients come outside a backward, which ends the step: "
        "set_manual_backward_finalization(False), and set_is_last_backward for several backwards")


class _Firing:
    """A unit's gradients on their way."""

    def __init__(self, unit, tensor, output, request, is_late):
        self.unit = unit
        self.request = request
        self._tensor = tensor
        self._output = output  # must stay until the request is complete
        self._is_late = is_late

    def fill(self, value):
        self.unit.fill(value)

    def discard(self):
        self._tensor.discard_step()

    def deliver(self):
        """FSDP has the gradients; those that came late must lie where it looks."""
        place = self._output.untyped_storage().data_ptr()
        if self._is_late and any(gradient.untyped_storage().data_ptr() != place
                                 for gradient in self.unit.gradients()):
            raise gradwire.InvalidUsage(
                f"torch {torch.__version__} copies the gradients of {self.unit.name} too early for "
                "gradwire: with set_force_sum_reduction_for_comms(True) of the sharded modules it does "
                "not, and each waits for its own; or take a version that docs/pytorch.md names")


def _queue_at_the_end(call):
    """Of this backward: behind what is queued by then, as by FSDP for each of its roots.

    The engine owns it: where a backward fails, it is dropped.
    """
    engine = Variable._execution_engine
    engine.queue_callback(lambda: engine.queue_callback(call))


class Fsdp2Handle(Handle):
    """A step begins with the first unit's gradients, and ends after FSDP's own end of backward, of all
    models that have one.

    FSDP cannot go on after a backward that failed midway, so what fails meanwhile is raised at the
    end of the step.
    """

    _ADVICE = {**Handle._ADVICE, gradwire.Aborted: AGAIN_WITH_FSDP2}

    def __init__(self, comm, tensors, name, scaler):
        super().__init__(comm, tensors, name, scaler)
        self._end_of_step = None  # weak
        # Units that have had gradients in this step. Also those that others had given up by then:
        # shards of one replica must refuse the same.
        self._came = set()
        self._flushed = set()  # names of tensors that have sent what they kept back

    @contextlib.contextmanager
    def refusing(self):
        """A hook, in which what this rank refuses ends the step on all of them: none waits for it."""
        with self.taking_part():
            try:
                yield
            except (gradwire.InvalidUsage, gradwire.InvalidArgument) as error:
                with contextlib.suppress(gradwire.GradwireError):
                    if not self._is_step_of_this_backward():
                        self._begin()
                self._abandon(str(error))
                raise for_users(error, _REFUSED) from None

    def _send(self, unit, output, submit):
        """submit(): the request whose result is in `output`, at the end of backward at the latest."""
        self._open_step()
        if unit in self._came:
            raise gradwire.InvalidUsage(
                f"'{self._name}/{unit.name}' has gradients twice in one backward: shard the module "
                "together with the one that runs it")
        self._came.add(unit)
        try:
            request = submit()
        except gradwire.InvalidArgument:
            raise  # this rank refuses it
        except gradwire.GradwireError as error:
            self._error = self._error or error
            return
        is_late = unit.takes_views_of(output)
        self._sent.append(_Firing(unit, self._tensors.of(unit), output, request, is_late))
        if not is_late:
            with self._waiting():
                self._wait_for(request)

    def _spoil_gradients(self):
        """FSDP has taken them, and adds those of the step's next try to what is there: who forgets
        zero_grad() shall notice."""
        for unit in self._came:
            unit.fill(float("nan"))

    def _end_flush(self, sent):
        """FSDP passes over units without gradients, as those that are frozen by now."""
        self._flushed.update(self._tensors.of(one.unit).name for one in sent)
        left = [row["name"] for row in self._comm.ledger()["tensors"]
                if row["held_bytes"] and row["name"] not in self._flushed]
        if self._is_anywhere(bool(left)):
            what = f"'{left[0]}'" if left else "a unit of another shard"
            raise gradwire.InvalidUsage(
                f"detach() goes on: {what} had no gradients in this step, which is complete, and "
                "still keeps something back. Use the module in the next step, or close(), which "
                "loses it")
        super()._end_flush(sent)

    def _is_anywhere(self, is_here):
        """On any of those who must do the same."""
        return is_here

    def _is_step_of_this_backward(self):
        """Whether it has begun one; an earlier one may have failed and left its own open."""
        return self._is_open and self._end_of_step is not None and self._end_of_step() is not None

    def _open_step(self):
        """Begins a step unless this backward has begun one."""
        if self._is_step_of_this_backward():
            return
        if torch._C._current_graph_task_id() == -1:
            raise finalized_by_hand()
        end = functools.partial(self._end)
        _queue_at_the_end(end)
        self._end_of_step = weakref.ref(end)
        self._came = set()
        try:
            self._begin()
        except gradwire.GradwireError as error:
            self._error = error
        self._is_open = True  # also after an error: the end raises it


class ShardedHandle(Fsdp2Handle):
    """Of a model that all ranks shard."""

    def on_scatter(self, unit, output, gradients, op):
        """Reduces `gradients` of all ranks, of which `output` gets this rank's shard."""
        self._send(unit, output, lambda: self._comm.reduce_scatter_tensor(
            self._tensors.of(unit), pointer_to(gradients), pointer_to(output), op,
            keep=(gradients, output)))

    def detach(self):
        super().detach()
        if self._comm.world_size == 1:
            # FSDP reduces nothing over one rank, so no step will come that ends it.
            self.close()

    def _load_alike(self, checkpoint, places):
        """Tensors are padded to a multiple of the ranks, so those of another number are others."""
        return False


class ReplicatedHandle(Fsdp2Handle):
    """Of a model of several replicas."""

    def __init__(self, comm, tensors, name, scaler, shard, shards):
        """shard: the name of this rank's. shards: fsdp2_shards.Shards of this replica."""
        super().__init__(comm, tensors, name, scaler)
        self._shard = shard
        self._shards = shards
        self._began_aborted = False  # the backward in which a step began last

    def on_gradients(self, unit, output):
        """Averages, or sums, over the replicas in place."""
        self._send(unit, output, lambda: self._submit(unit, output))

    def _submit(self, unit, output):
        group = gradwire.Group([self._tensors.of(unit)], [pointer_to(output)])
        if self._tensors.is_majority_of(unit):
            unit.check_majority(output)
        if unit.is_summed:
            return self._comm.submit(group, "sum", keep=output)
        return self._submit_average(group, output)

    def _open_step(self):
        if not self._is_step_of_this_backward():
            self._began_aborted = self._is_aborted
        super()._open_step()

    def wait_for_shards(self, work):
        """For a collective of torch's within the replica, of a forward or a backward. An abort()
        meanwhile ends it; what began behind one goes on, as evaluations may."""
        was_aborted = (self._began_aborted if self._is_step_of_this_backward()
                       else self._is_aborted)

        def check():
            if not was_aborted:
                self._check_whole()

        with self.taking_part():
            try:
                self._shards.wait_for(work, check)
            except RuntimeError as error:
                check()
                self._leave_replicas(for_others(error))
                raise

    def _leave_replicas(self, why):
        """They hear why at once, and wait for this rank no longer."""
        with contextlib.suppress(gradwire.GradwireError):
            if not self._is_open:
                self._begin()
        self._abandon(why)
        self._comm.abort()

    def _outcome(self, sent):
        """What the shards of this replica agree on: the replicas of each have voted by themselves.

        A shard that committed what others did not has sent what it had kept back in vain, and keeps
        a rest of what is thrown away: it begins anew, as its replicas do.
        """
        try:
            mine = super()._outcome(sent)
        except gradwire.GradwireError as error:
            raise self._with_words_of_shards(error) from None
        worst = self._worst_of_shards(mine.value)
        if worst.number != mine.value and mine is gradwire.Outcome.COMMITTED:
            self._reset_tensors()
        where = f"in shard {worst.shard} of this replica"
        if worst.number == LOST:
            raise gradwire.PeerLost(f"{where} a rank is lost: {worst.text}")
        outcome = gradwire.Outcome(worst.number)
        if outcome is gradwire.Outcome.ABORTED:
            raise gradwire.Aborted(f"the step failed {where}, whose error says why ({worst.text}): if "
                                   f"that one can go on, {AGAIN_WITH_FSDP2}")
        if outcome is not mine:
            self._reason = f"shard {worst.shard} of this replica had a NaN or an infinity in the step"
        return outcome

    def _worst_of_shards(self, number):
        try:
            return max(self._shards.agree(number))
        except gradwire.GradwireError as error:
            self._leave_replicas(for_others(error))
            raise

    def _with_words_of_shards(self, error):
        """The error of this shard's step, which the others are told; that a rank is lost another one
        may know better."""
        is_lost, mine = isinstance(error, gradwire.PeerLost), for_others(error)
        words = self._shards.farewell(LOST if is_lost else gradwire.Outcome.ABORTED.value, mine)
        lost = [word for word in words if word.number == LOST and word.text != mine]
        if not lost:
            return error
        return gradwire.PeerLost(f"{error} (shard {lost[0].shard} of this replica: {lost[0].text})")

    def _is_anywhere(self, is_here):
        """A shard that began anew when others skipped a step keeps less than they do."""
        return bool(self._worst_of_shards(int(is_here)).number)

    def _is_broken(self):
        return super()._is_broken() or self._shards.is_broken

    def close(self):
        try:
            super().close()
        finally:
            self._shards.close()

    def abort(self):
        super().abort()
        self._shards.discard()

    def _checkpoint(self):
        return Checkpoint(self._comm, self._name, place_of(self._comm, self._shard))
