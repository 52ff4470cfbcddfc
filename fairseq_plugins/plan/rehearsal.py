"""A training step of fairseq's trainer, without values and without memory; what it would hold is counted."""

import contextlib
import logging
from collections import Counter as Counts
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import torch
from fairseq import tasks
from fairseq.trainer import Trainer
from omegaconf import open_dict
from torch import Tensor, nn

from . import live as kinds
from .batches import largest_batches
from .kernels import kernels
from .live import Allocation, Live, Peak, follow
from .valueless import Valueless, drop_values

logger = logging.getLogger(__name__)

REST, LOSS, ALL = "(the model itself)", "(criterion)", "(all of them)"
"""Components beside the parts of a model: what it does in its own ``forward``, what the criterion does, what is for all."""
START, FORWARD, BACKWARD, UPDATE = "start", "forward", "backward", "update"
"""Phases of a step, in their order."""
MICRO_BATCHES = 2
"""As many of ``--update-freq`` are run: from the second on the gradients are held while activations are made."""


class Step(NamedTuple):
    """One training step on one batch.

    Attributes:
        place: of the batch among :func:`.batches.largest_batches`.
        sentences: of the batch.
        shapes: of the tensors of integers that the model reads.
        activations: component -> bytes that are held between forward and backward pass.
        peak: when most was held.
        largest: allocation of the step, gradients and the optimizer's state not counted.
    """

    place: int
    sentences: int
    shapes: List[str]
    activations: Counts[str]
    peak: Peak
    largest: Allocation


class Plan(NamedTuple):
    """What a training needs on one device.

    Attributes:
        order: the components as the model has them.
        width: bytes of a parameter.
        trained, frozen: component -> parameters, each counted once.
        held: (kind, component) -> bytes between two steps and, for gradients, after the backward pass.
        steps: one for each batch that was tried; the first has the highest peak.
    """

    order: List[str]
    width: int
    trained: Dict[str, int]
    frozen: Dict[str, int]
    held: Dict[Tuple[str, str], int]
    steps: List[Step]


class Rehearsal(Trainer):
    """fairseq's trainer, which writes nothing."""

    def save_checkpoint(self, filename: str, extra_state: Any) -> None:
        """Not even when a step fails."""


def parts(model: nn.Module, criterion: nn.Module) -> Dict[str, nn.Module]:
    """The components: the model's children by name, and the rest."""
    return {REST: model, **dict(model.named_children()), LOSS: criterion}


def components(model: nn.Module, criterion: nn.Module) -> Dict[int, str]:
    """id of a module, parameter or buffer -> its component; what several components share belongs to the first."""
    found: Dict[int, str] = {id(model): REST}
    for name, part in parts(model, criterion).items():
        own = name == REST
        for member in () if own else part.modules():
            found.setdefault(id(member), name)
        for tensor in [*part.parameters(recurse=not own), *part.buffers(recurse=not own)]:
            found.setdefault(id(tensor), name)
    return found


def rehearse(cfg: Any) -> Plan:
    """Run a training of this configuration for one step on each of its largest batches. ``cfg``: of fairseq's command line.

    The values of the weights are held once, while the model is built.
    """
    gpu, precision = not cfg.common.cpu, _precision(cfg.common)
    with open_dict(cfg):
        cfg.common.cpu = True
        cfg.distributed_training.distributed_world_size = 1
        halves, cfg.common.fp16 = cfg.common.fp16, False  # which no trainer on a CPU allows
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    trainer = Rehearsal(cfg, task, model, criterion)
    iterator = trainer.get_train_iterator(1)
    samples = largest_batches(iterator)
    for module in (model, criterion):
        drop_values(module, precision)
    cfg.common.fp16 = halves
    trainer.device = next(model.parameters()).device
    names = components(model, criterion)
    with Valueless(), kernels(gpu), _no_device(), Live() as live:
        book = _Book(live, trainer, names)
        trainer.begin_epoch(1)
        book.step(0, samples[0])  # makes the optimizer's state
        book.label_state()
        steps = [book.step(place, sample) for place, sample in enumerate(samples)]
        return book.plan(sorted(steps, key=lambda step: -step.peak.size))


def _precision(common: Any) -> torch.dtype:
    return torch.float16 if common.fp16 else torch.bfloat16 if common.bf16 else torch.float32


@contextlib.contextmanager
def _no_device() -> Iterator[None]:
    """Where fairseq asks for the number of the GPU, tell it that of tensors without values."""
    stock = torch.cuda.current_device
    torch.cuda.current_device = lambda: None  # type: ignore[assignment, return-value]
    try:
        yield
    finally:
        torch.cuda.current_device = stock


class _Book:
    """Labels what a trainer holds and notes what its steps do."""

    def __init__(self, live: Live, trainer: Trainer, names: Dict[int, str]):
        self.live, self.trainer, self.names = live, trainer, names
        self.activations: Counts[str] = Counts()
        self.modules: Sequence[nn.Module] = (trainer.get_model(), trainer.get_criterion())
        for module in self.modules:
            follow(live, module, names)
            for tensor in [*module.parameters(), *module.buffers()]:
                live.label(tensor, kinds.WEIGHTS, names[id(tensor)])
            for parameter in module.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._label_gradient)
        self.trained = [p for module in self.modules for p in module.parameters() if p.requires_grad]
        trainer.get_criterion().register_forward_pre_hook(lambda *_: setattr(live, "phase", FORWARD))
        self.backward, trainer.optimizer.backward = trainer.optimizer.backward, self._backward

    def _label_gradient(self, parameter: Tensor) -> None:
        self.live.label(parameter.grad, kinds.GRADIENTS, self.names[id(parameter)])

    def _backward(self, loss: Tensor) -> None:
        held: Counts[str] = Counts()
        for (kind, component), size in self.live.held.items():
            if kind == kinds.STEP:
                held[component or REST] += size
        if sum(held.values()) > sum(self.activations.values()):
            self.activations = held
        self.live.phase = BACKWARD
        self.backward(loss)
        self.live.phase = UPDATE

    def step(self, place: int, sample: Dict[str, Any]) -> Step:
        """One update on copies of a sample."""
        self.activations = Counts()
        self.live.phase = START
        self.live.restart()
        copies = min(self.trainer.cfg.optimization.update_freq[0], MICRO_BATCHES)
        self.trainer.train_step([sample] * copies)
        self.live.close()
        net_input = sample.get("net_input", {})
        shapes = [
            f"{name} {' × '.join(map(str, value.shape))}"
            for name, value in net_input.items()
            if isinstance(value, Tensor) and value.dim() > 1
        ]
        sentences = int(sample.get("nsentences", 0))
        return Step(place, sentences, shapes, self.activations, self.live.peak, self.live.largest)

    def label_state(self) -> None:
        """Label what the first step made and later ones keep: the optimizer's state, copies of the weights, averages."""
        optimizer = self.trainer.optimizer
        copies = getattr(optimizer, "fp32_params", ())
        if isinstance(copies, (list, tuple)):  # one for each trained parameter, in their order; else all in one
            self.names.update({id(copy): self.names[id(own)] for copy, own in zip(copies, self.trained)})
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = self.names.get(id(parameter), ALL)
                if self.live.kind(parameter) != kinds.WEIGHTS:
                    self.live.label(parameter, kinds.OPTIMIZER, name)
                self.live.label(parameter.grad, kinds.GRADIENTS, name)
                for tensor in optimizer.optimizer.state.get(parameter, {}).values():
                    if isinstance(tensor, Tensor):
                        self.live.label(tensor, kinds.OPTIMIZER, name)
        if self.trainer.ema is not None:
            average = self.trainer.ema
            for name, tensor in [*average.get_model().state_dict(keep_vars=True).items(), *average.fp32_params.items()]:
                if self.live.kind(tensor) != kinds.WEIGHTS:  # a frozen part is shared
                    self.live.label(tensor, kinds.OPTIMIZER, self._part(name))

    def _part(self, name: str) -> str:
        first = name.split(".")[0]
        return first if first in dict(self.modules[0].named_children()) else REST

    def plan(self, steps: List[Step]) -> Plan:
        """What is held now, what is held for all parts dealt out by their trained parameters."""
        trained, frozen = Counts(), Counts()  # type: Counts[str], Counts[str]
        for module in self.modules:
            for parameter in module.parameters():
                (trained if parameter.requires_grad else frozen)[self.names[id(parameter)]] += parameter.numel()
        held: Counts[Tuple[str, str]] = Counts()
        for (kind, component), size in self.live.held.items():
            if kind != kinds.STEP and component != ALL:
                held[kind, component] += size
            elif kind != kinds.STEP:
                for name, count in trained.items():
                    held[kind, name] += round(size * count / sum(trained.values()))
        order = list(parts(*self.modules))
        return Plan(order, self.trained[0].element_size(), trained, frozen, held, steps)
