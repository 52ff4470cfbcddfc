"""The pretend device: a wrapper around CPU tensors, whose operators run on the CPU tensors."""

import functools

import torch
from torch.utils._device import _device_constructors
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from .waits import call_at_next_wait, wait

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
    # The kernel copies the lengths to the device. The backward kernel copies them again, which
    # counts as the same wait.
    "aten::_ctc_loss": "ctc_loss",
    "aten::_ctc_loss.Tensor": "ctc_loss",
}
INDEXING_NAMES = """index.Tensor _unsafe_index.Tensor index_put index_put_ _index_put_impl_
    _unsafe_index_put"""
INDEXING = {f"aten::{name}" for name in INDEXING_NAMES.split()}
COPIES = {"aten::_to_copy", "aten::copy_", "aten::_copy_from"}
COPY_OPTIONS = {"dtype", "layout", "memory_format"}
HOST_ARGUMENTS = {
    "aten::_ctc_loss.Tensor": (2, 3),
    "aten::_ctc_loss_backward.Tensor": (3, 4),
    "aten::_pack_padded_sequence": (1,),
}
HOST_RESULTS = {"aten::_pack_padded_sequence": 1}


class Pretend(torch.Tensor):
    """A tensor of the device; ``content`` is the CPU tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, content):
        options = {"strides": content.stride(), "storage_offset": content.storage_offset()}
        options.update(dtype=content.dtype, device=DEVICE)
        return torch.Tensor._make_wrapper_subclass(cls, content.size(), **options)

    def __init__(self, content):
        self.content = content

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})

    @property
    def data(self):
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, value):
        torch.Tensor.data.__set__(self, value)
        self.content = value.content

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copy = Pretend(self.content.clone()).requires_grad_(self.requires_grad)
        attributes = {name: value for name, value in self.__dict__.items() if name != "content"}
        copy.__dict__.update(attributes)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol):
        raise TypeError("a pretend tensor is not pickled: copy it to the CPU first")

    def __repr__(self, **_):
        return f"pretend({self.content!r})"

    def __format__(self, spec):
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def tolist(self):
        wait("tolist")
        return self.content.tolist()

    def numpy(self, **_):
        raise TypeError("can't convert pretend device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *_, **__):
        return self.numpy()

    def data_ptr(self):
        return self.content.data_ptr()

    def untyped_storage(self):
        return self.content.untyped_storage()

    def __getitem__(self, index):
        return torch.Tensor.__getitem__(self, on_device(index))

    def __setitem__(self, index, value):
        torch.Tensor.__setitem__(self, on_device(index), value)

    def is_pinned(self, *_):
        return False

    def pin_memory(self, *_):
        raise RuntimeError("cannot pin a pretend tensor: only dense CPU tensors can be pinned")

    def new(self, *args):
        if len(args) == 1 and isinstance(args[0], list):
            return self.new_tensor(args[0], dtype=self.dtype)
        return torch.Tensor.new(self, *args)

    def new_tensor(self, data, dtype=None, device=None, requires_grad=False):
        if dtype is None:
            dtype = data.dtype if isinstance(data, torch.Tensor) else self.dtype
        options = {"device": device or self.device, "requires_grad": requires_grad}
        return torch.tensor(data, dtype=dtype, **options)


def on_device(index):
    """Convert lists in an index to tensors: torch would write them into the device's memory."""
    if isinstance(index, tuple):
        return tuple(on_device(part) for part in index)
    if isinstance(index, list):
        dtype = None if index else torch.int64
        return torch.tensor(index, dtype=dtype, device=DEVICE)
    return index


def is_cpu(value):
    return isinstance(value, torch.Tensor) and not isinstance(value, Pretend)


def tensors(value):
    """List the tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def replace(value, change):
    """Apply ``change`` to a value, or to each part of a list or tuple."""
    if isinstance(value, (list, tuple)):
        return type(value)(replace(item, change) for item in value)
    return change(value)


def to_cpu(value):
    """Replace a tensor of the device by its CPU tensor, and a device by the CPU."""
    if isinstance(value, Pretend):
        return value.content
    return CPU if isinstance(value, torch.device) else value


def run(func, args, kwargs):
    """Run an operator that has a tensor of the device as an argument or makes one."""
    name = func.name()
    if name in COPIES:
        return run_copy(func, name, args, kwargs)
    inputs = [tensor for value in (*args, *kwargs.values()) for tensor in tensors(value)]
    pretends = [tensor for tensor in inputs if isinstance(tensor, Pretend)]
    if pretends:
        check_devices(func, name, args, kwargs, inputs)
        record(name, args, kwargs)
    generator = kwargs.get("generator")
    if generator is not None:
        kind = generator.device.type
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{kind}'")
    kwargs = dict(kwargs)
    on_cpu = not pretends and torch.device(kwargs.get("device") or CPU).type == "cpu"
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    cpu_kwargs = {key: replace(value, to_cpu) for key, value in kwargs.items()}
    output = func(*replace(args, to_cpu), **cpu_kwargs)
    if func._schema.is_mutable:
        for tensor in pretends:
            content = tensor.content
            if content.size() != tensor.size() or content.stride() != tensor.stride():
                torch.Tensor.data.__set__(tensor, Pretend(content))
    wrappers = {id(tensor.content): tensor for tensor in pretends}

    def wrap(value):
        if not isinstance(value, torch.Tensor) or on_cpu:
            return value
        return wrappers[id(value)] if id(value) in wrappers else Pretend(value)

    if name in HOST_RESULTS:
        parts = enumerate(output)
        return tuple(part if index == HOST_RESULTS[name] else wrap(part) for index, part in parts)
    return replace(output, wrap)


def check_devices(func, name, args, kwargs, inputs):
    """Raise RuntimeError like CUDA for CPU tensors beside tensors of the device."""
    if not any(is_cpu(tensor) for tensor in inputs):
        return
    allowed = HOST_ARGUMENTS.get(name, ())
    aliases = [argument.alias_info for argument in func._schema.arguments]
    is_output = [alias is not None and alias.is_write for alias in aliases]
    for position, value in enumerate((*args, *kwargs.values())):
        for tensor in tensors(value):
            if not is_cpu(tensor) or position in allowed:
                continue
            if name in INDEXING and position == 1 and isinstance(args[0], Pretend):
                continue
            if tensor.dim() > 0 or is_output[position]:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but got {func} of a {NAME} "
                    f"tensor and a CPU tensor of shape {tuple(tensor.shape)}, argument {position}"
                )


def record(name, args, kwargs):
    """Wait if this operator waits on CUDA."""
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
            if index.dtype in (torch.bool, torch.uint8) and not is_masked_fill(args):
                wait("boolean indexing")


def is_masked_fill(args):
    """Return True for an index_put_ of one number by one mask, which needs no wait."""
    if len(args) < 3:
        return False
    masks = [index for index in args[1] if index is not None]
    accumulate = len(args) > 3 and args[3]
    return len(masks) == 1 and args[2].numel() == 1 and not accumulate


def run_copy(func, name, args, kwargs):
    """Copy within the device, to it or from it."""
    if name == "aten::_to_copy":
        return copy_to(func, args[0], kwargs)
    target, source = args[:2] if name == "aten::copy_" else args[1::-1]
    blocking = not (len(args) > 2 and args[2] or kwargs.get("non_blocking"))
    if isinstance(target, Pretend):
        torch.ops.aten.copy_(target.content, to_cpu(source))
        if is_cpu(source):
            to_device(source, blocking)
    elif isinstance(source, Pretend):
        content = source.content.to(target.dtype, copy=True).expand_as(target)
        to_host(target, content, blocking or not target.is_pinned())
    return target


def copy_to(func, source, kwargs):
    """Run aten::_to_copy, which makes a new tensor."""
    target = torch.device(kwargs.get("device") or source.device)
    blocking = not kwargs.get("non_blocking")
    options = {key: value for key, value in kwargs.items() if key in COPY_OPTIONS}
    copy = func(to_cpu(source), **options)
    if target.type == "cpu":
        return copy if is_cpu(source) else to_host(copy, copy.clone(), blocking)
    if is_cpu(source):
        to_device(source, blocking)
    return Pretend(copy)


def to_host(target, content, blocking):
    """Copy ``content`` into ``target`` at once, or make it invalid until the next wait."""
    if blocking:
        wait("copy to the host")
        return target.copy_(content)
    if target.is_floating_point():
        target.fill_(float("nan"))
    else:
        target.fill_(True if target.dtype == torch.bool else -(2**7))
    call_at_next_wait(functools.partial(target.copy_, content))
    return target


def to_device(source, blocking):
    """Record a copy to the device; a pinned source must not change until the next wait."""
    if blocking:
        wait("copy to the device")
    elif source.is_pinned():
        before = source.clone()

        def check():
            if not torch.equal(torch.nan_to_num(source), torch.nan_to_num(before)):
                raise RuntimeError(
                    "the pinned source of a non_blocking copy changed before the copy was finished"
                )

        call_at_next_wait(check)


def install():
    """Register the device, once in a process; return it."""
    global DEVICE
    _setup_privateuseone_for_python_backend(NAME)
    # So that Module.to and Module.half keep the parameters' identity, as on CUDA.
    torch.__future__.set_swap_module_params_on_conversion(True)
    DEVICE = torch.device(NAME, 0)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda func, *args, **kwargs: run(func, args, kwargs), "PrivateUse1")
    install.library = library  # the fallback ends with the library
    _device_constructors()  # torch caches them: the stock ones, not the replacements below
    for constructor in ("tensor", "as_tensor", "asarray"):
        replacement = _copy_after(getattr(torch, constructor))
        setattr(torch, constructor, replacement)
        # fairseq scripts functions when imported.
        torch.jit._builtins._register_builtin(replacement, f"aten::{constructor}")
    torch.Tensor.pin_memory = _pin_memory
    torch.Tensor.is_pinned = lambda self, *_: getattr(self, "_pretend_pinned", False)
    return DEVICE


def _copy_after(constructor):
    """Make torch.tensor and the like build on the CPU and copy the tensor to the device.

    torch itself would write into the device's memory.
    """

    @functools.wraps(constructor)
    def construct(data, *args, device=None, **kwargs):
        if isinstance(data, Pretend):
            options = kwargs if device is None else {**kwargs, "device": device}
            return constructor(data, *args, **options)
        if device is None or torch.device(device).type == "cpu":
            return constructor(data, *args, device=device, **kwargs)
        if isinstance(data, torch.Tensor) or constructor.__name__ != "tensor":
            return constructor(data, *args, **kwargs).to(device)
        requires_grad = kwargs.pop("requires_grad", False)
        return constructor(data, *args, **kwargs).to(device).requires_grad_(requires_grad)

    return construct


def _pin_memory(self, *_):
    if self.is_pinned():
        return self
    pinned = self.clone()
    pinned._pretend_pinned = True
    return pinned
