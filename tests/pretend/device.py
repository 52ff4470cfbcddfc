"""The device: a wrapper around CPU tensors, and every operator run on what it holds."""

import functools

import torch
from torch.utils._device import _device_constructors
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from .waits import under_way, wait

NAME = "pretend"
DEVICE = torch.device("cpu")  # set by install()
CPU = torch.device("cpu")

ONE_WAIT = {
    "aten::_local_scalar_dense": "item",
    "aten::equal": "equal",
    "aten::nonzero": "nonzero",
    "aten::masked_select": "masked_select",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_consecutive": "unique",
    "aten::bincount": "bincount",
    # The kernel copies the lengths to the device; that of the backward pass does so again, which counts as the same wait.
    "aten::_ctc_loss": "ctc_loss",
    "aten::_ctc_loss.Tensor": "ctc_loss",
}
INDEXING = {
    f"aten::{name}"
    for name in "index.Tensor _unsafe_index.Tensor index_put index_put_ _index_put_impl_ _unsafe_index_put".split()
}
COPIES = {"aten::_to_copy", "aten::copy_", "aten::_copy_from"}
HOST_ARGUMENTS = {
    "aten::_ctc_loss.Tensor": (2, 3),
    "aten::_ctc_loss_backward.Tensor": (3, 4),
    "aten::_pack_padded_sequence": (1,),
}
HOST_RESULTS = {"aten::_pack_padded_sequence": 1}


class Pretend(torch.Tensor):
    """A tensor of the device; ``held`` is the CPU tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        geometry = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, held.size(), **geometry, dtype=held.dtype, device=DEVICE)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})

    @property
    def data(self):
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, value):
        torch.Tensor.data.__set__(self, value)
        self.held = value.held

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copied = Pretend(self.held.clone()).requires_grad_(self.requires_grad)
        copied.__dict__.update({name: value for name, value in self.__dict__.items() if name != "held"})
        if self.grad is not None:
            copied.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol):
        raise TypeError("a pretend tensor is not pickled: copy it to the CPU first")

    def __repr__(self, **_):
        return f"pretend({self.held!r})"

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def tolist(self):
        wait("tolist")
        return self.held.tolist()

    def numpy(self, **_):
        raise TypeError("can't convert pretend device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *_, **__):
        return self.numpy()

    def data_ptr(self):
        return self.held.data_ptr()

    def untyped_storage(self):
        return self.held.untyped_storage()

    def __getitem__(self, index):
        return torch.Tensor.__getitem__(self, on_device(index))

    def __setitem__(self, index, value):
        torch.Tensor.__setitem__(self, on_device(index), value)

    def is_pinned(self, *_):
        return False

    def pin_memory(self, *_):
        raise RuntimeError("cannot pin a pretend tensor: only dense CPU tensors can be pinned")

    def new(self, *given):
        filled = len(given) == 1 and isinstance(given[0], list)
        return self.new_tensor(given[0], dtype=self.dtype) if filled else torch.Tensor.new(self, *given)

    def new_tensor(self, data, dtype=None, device=None, requires_grad=False):
        kind = dtype or (data.dtype if isinstance(data, torch.Tensor) else self.dtype)
        return torch.tensor(data, dtype=kind, device=device or self.device, requires_grad=requires_grad)


def on_device(index):
    """An index with its lists made tensors, which torch would write into memory of the device itself."""
    if isinstance(index, tuple):
        return tuple(on_device(part) for part in index)
    return (
        torch.tensor(index, dtype=None if len(index) else torch.int64, device=DEVICE)
        if isinstance(index, list)
        else index
    )


def is_cpu(value):
    return isinstance(value, torch.Tensor) and not isinstance(value, Pretend)


def tensors(value):
    """The tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def replace(value, change):
    """``value`` with ``change`` applied to what it is made of."""
    if isinstance(value, (list, tuple)):
        return type(value)(replace(item, change) for item in value)
    return change(value)


def held(value):
    if isinstance(value, Pretend):
        return value.held
    return CPU if isinstance(value, torch.device) else value


def run(func, args, kwargs):
    """An operator with arguments of which some are of the device, or that makes a tensor of it."""
    name = func.name()
    if name in COPIES:
        return copied(func, name, args, kwargs)
    given = [tensor for value in (*args, *kwargs.values()) for tensor in tensors(value)]
    pretends = [tensor for tensor in given if isinstance(tensor, Pretend)]
    if pretends:
        check_devices(func, name, args, kwargs, given)
        record(name, args, kwargs)
    generator = kwargs.get("generator")
    if generator is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{generator.device.type}'")
    kwargs = dict(kwargs)
    on_cpu = not pretends and torch.device(kwargs.get("device") or CPU).type == "cpu"
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    result = func(*replace(args, held), **{key: replace(value, held) for key, value in kwargs.items()})
    if func._schema.is_mutable:
        for tensor in pretends:
            if tensor.held.size() != tensor.size() or tensor.held.stride() != tensor.stride():
                torch.Tensor.data.__set__(tensor, Pretend(tensor.held))
    known = {id(tensor.held): tensor for tensor in pretends}

    def wrapped(value):
        if not isinstance(value, torch.Tensor) or on_cpu:
            return value
        return known[id(value)] if id(value) in known else Pretend(value)

    if name in HOST_RESULTS:
        return tuple(item if index == HOST_RESULTS[name] else wrapped(item) for index, item in enumerate(result))
    return replace(result, wrapped)


def check_devices(func, name, args, kwargs, given):
    """Raise RuntimeError where CUDA would: CPU tensors beside tensors of the device."""
    if not any(is_cpu(tensor) for tensor in given):
        return
    allowed = HOST_ARGUMENTS.get(name, ())
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments]
    for position, value in enumerate((*args, *kwargs.values())):
        for tensor in tensors(value):
            if not is_cpu(tensor) or position in allowed:
                continue
            if name in INDEXING and position == 1 and isinstance(args[0], Pretend):
                continue
            if tensor.dim() > 0 or written[position]:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but got {func} of a {NAME} tensor and a CPU tensor of "
                    f"shape {tuple(tensor.shape)}, argument {position}"
                )


def record(name, args, kwargs):
    """What this operator waits for."""
    if name in ONE_WAIT:
        wait(ONE_WAIT[name])
    for position in HOST_ARGUMENTS.get(name, ()):
        if isinstance(args[position], Pretend):
            wait(f"{name.split('::_')[1].split('.')[0]}: lengths on the device")
    if name == "aten::repeat_interleave.Tensor" and kwargs.get("output_size") is None:
        wait("repeat_interleave")
    if name in INDEXING:
        for index in args[1]:
            if index is None:
                continue
            if is_cpu(index) and index.dim() > 0:
                wait("indices on the host")
            if index.dtype in (torch.bool, torch.uint8) and not fills(args):
                wait("boolean indexing")


def fills(args):
    """Whether an index_put_ with one mask and one number is run as masked_fill, without a wait."""
    masks = [index for index in args[1] if index is not None]
    return len(args) > 2 and len(masks) == 1 and args[2].numel() == 1 and not (len(args) > 3 and args[3])


def copied(func, name, args, kwargs):
    """Copies within the device, to it and from it."""
    if name == "aten::_to_copy":
        source = args[0]
        target = torch.device(kwargs.get("device") or source.device)
        kept = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking", "pin_memory")}
        waiting = not kwargs.get("non_blocking")
        result = func(held(source), **kept)
        if target.type == "cpu":
            return result if is_cpu(source) else to_host(result, result.clone(), waiting)
        if is_cpu(source):
            to_device(source, waiting)
        return Pretend(result)
    target, source = args[:2] if name == "aten::copy_" else args[1::-1]
    waiting = not (len(args) > 2 and args[2] or kwargs.get("non_blocking"))
    if isinstance(target, Pretend):
        torch.ops.aten.copy_(target.held, held(source))
        if is_cpu(source):
            to_device(source, waiting)
    elif isinstance(source, Pretend):
        value = source.held.to(target.dtype, copy=True).expand_as(target)
        if waiting or not target.is_pinned():
            wait("copy to the host")
            target.copy_(value)
        else:
            to_host(target, value, waiting)
    return target


def to_host(result, value, waiting):
    """``result`` holds ``value`` after the next wait, which may be now."""
    if waiting:
        wait("copy to the host")
        return result.copy_(value)
    result.fill_(float("nan") if result.is_floating_point() else True if result.dtype == torch.bool else -(2**7))
    under_way(functools.partial(result.copy_, value))
    return result


def to_device(source, waiting):
    """``source`` is copied: at once, unless it is pinned, when it must stay as it is until the next wait."""
    if waiting:
        wait("copy to the device")
    elif source.is_pinned():
        before = source.clone()

        def check():
            if not torch.equal(torch.nan_to_num(source), torch.nan_to_num(before)):
                raise RuntimeError("the pinned source of a non_blocking copy changed before the copy was finished")

        under_way(check)


def install():
    """Register the device; once in a process. Returns it."""
    global DEVICE
    _setup_privateuseone_for_python_backend(NAME)
    # So that Module.to and Module.half keep the parameters' identity, as on CUDA.
    torch.__future__.set_swap_module_params_on_conversion(True)
    DEVICE = torch.device(NAME, 0)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda func, *args, **kwargs: run(func, args, kwargs), "PrivateUse1")
    install.library = library  # its end would take the fallback away
    _device_constructors()  # kept by torch: the ones below, not what takes their place
    for constructor in ("tensor", "as_tensor", "asarray"):
        changed = _copied_after(getattr(torch, constructor))
        setattr(torch, constructor, changed)
        torch.jit._builtins._register_builtin(
            changed, f"aten::{constructor}"
        )  # fairseq scripts functions when imported
    torch.Tensor.pin_memory = _pin_memory
    torch.Tensor.is_pinned = lambda self, *_: getattr(self, "_pretend_pinned", False)
    return DEVICE


def _copied_after(constructor):
    """torch.tensor and the like fill memory themselves: here on the CPU, and what they made is copied, as on CUDA."""

    @functools.wraps(constructor)
    def construct(data, *args, device=None, **kwargs):
        if isinstance(data, Pretend):
            return (
                constructor(data, *args, **kwargs)
                if device is None
                else constructor(data, *args, device=device, **kwargs)
            )
        if device is None or torch.device(device).type == "cpu":
            return constructor(data, *args, device=device, **kwargs)
        if isinstance(data, torch.Tensor) or constructor.__name__ != "tensor":
            return constructor(data, *args, **kwargs).to(device)
        trained = kwargs.pop("requires_grad", False)
        return constructor(data, *args, **kwargs).to(device).requires_grad_(trained)

    return construct


def _pin_memory(self, *_):
    if self.is_pinned():
        return self
    pinned = self.clone()
    pinned._pretend_pinned = True
    return pinned
