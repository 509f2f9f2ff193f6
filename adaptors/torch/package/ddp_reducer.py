"""What the reducer of DistributedDataParallel averages and knows of its parameters."""

import weakref


def _reduced(model):
    """The parameters that DistributedDataParallel may average.

    It asks its list of the ignored for each name of a shared one, and with a dot before the name for
    those of the model itself: they are averaged though they are on the list.
    """
    found = {}
    for module_name, module in model.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if f"{module_name}.{name}" not in model.parameters_to_ignore:
                found[id(parameter)] = parameter
    return list(found.values())


def trained_by(model):
    """The parameters that its reducer has, in its order: those that trained when it was wrapped."""
    reduced = _reduced(model)
    trained = [parameter for parameter in reduced if parameter.requires_grad]
    # Without this DistributedDataParallel does not go on with what was frozen since, and does not
    # know how many it has.
    if not model.find_unused_parameters or model.static_graph or not hasattr(model, "reducer"):
        return trained
    if len(trained) == model.reducer._get_local_used_map().numel():
        return trained
    # Made of zeros, as large as the model.
    try:
        buckets = model.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:  # of sparse gradients
        return trained
    known = {id(parameter) for bucket in buckets for parameter in bucket.parameters()}
    return [parameter for parameter in reduced if id(parameter) in known]


def _dims_in_memory(parameter):
    """Its dimensions in the order of its gradient in a bucket, which is laid out as the parameter; of
    one with gaps it lies row by row."""
    by_stride = sorted(range(parameter.dim()), key=parameter.stride, reverse=True)
    is_dense = parameter.detach().permute(by_stride).is_contiguous()
    return by_stride if is_dense else list(range(parameter.dim()))


def shape_in_memory(parameter):
    """Of its gradient in a bucket."""
    return tuple(parameter.shape[dim] for dim in _dims_in_memory(parameter))


def gradient_of(parameter, part):
    """In a bucket; part: what torch gives of it, which has the parameter's shape but not its layout."""
    dims = _dims_in_memory(parameter)
    return part.view(shape_in_memory(parameter)).permute([dims.index(i) for i in range(len(dims))])


class Usage:
    """Of which parameters the averages are used, of a model with find_unused_parameters.

    What DistributedDataParallel knows of this rank, or already of all of them: of a parameter that
    any rank used one says so at the least, of others none. Besides, with gradient_as_bucket_view an
    earlier gradient of a parameter is where its average comes to lie.
    """

    def __init__(self, model, parameters):
        self._model = weakref.ref(model)
        self._parameters = parameters
        self._are_views = model.gradient_as_bucket_view

    @classmethod
    def of(cls, model, parameters):
        """None: all are used, or there is no telling which, as where some that have sparse gradients
        were frozen after wrapping."""
        if not model.find_unused_parameters or model.static_graph:
            return None
        known = len(parameters) == model.reducer._get_local_used_map().numel()
        return cls(model, parameters) if known else None

    def find_unused(self, comm, takes_part):
        """The parameters that no rank used. takes_part: otherwise this one used none (join)."""
        used = self._model().reducer._get_local_used_map().ne(0).byte() * takes_part
        if self._are_views and takes_part:
            for index in used.eq(0).nonzero().flatten().tolist():
                used[index] = self._parameters[index].grad is not None
        comm.all_reduce(used, op="max")
        # A tensor's items one by one would take 0.7 ms for a thousand parameters.
        used = used.tolist()
        return [parameter for parameter, is_used in zip(self._parameters, used) if not is_used]
