"""The beam size of a generator reaches a model's cross-attention while the generator generates, and no longer."""

from contextlib import contextmanager
from typing import Any, Iterator, List

from torch import nn

from .patch import Patch, instead_of, is_patched

NAME = "beam_size"
KEPT = ("beam_size", "_beam_size", "reorder_encoder_out")
"""What ``set_beam_size`` of stock models changes in their modules."""


class _Recorder(nn.Module):
    """A model that notes which beam sizes it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: List[int] = []

    def set_beam_size(self, beam_size: int) -> None:
        self.told.append(beam_size)


def _stays_set() -> bool:
    from fairseq.sequence_generator import EnsembleModel, SequenceGenerator

    if is_patched(SequenceGenerator.generate, NAME) or not hasattr(EnsembleModel, "set_decoder_beam_size"):
        return False
    model = _Recorder()
    EnsembleModel([model]).set_decoder_beam_size(2)  # all that a generator does when it is made
    return bool(model.told)


@contextmanager
def beam_size_set(ensemble: Any, beam_size: int, set_beam_size: Any) -> Iterator[None]:
    """Let the models of an ensemble read the encoder's output as copies for a beam, and put everything back after.

    Args:
        ensemble: of fairseq.
        beam_size: of the generator.
        set_beam_size: fairseq's ``EnsembleModel.set_decoder_beam_size``; it does nothing for 1.
    """
    before = [
        (module, {name: vars(module)[name] for name in KEPT if name in vars(module)}) for module in ensemble.modules()
    ]
    try:
        set_beam_size(ensemble, beam_size)
        yield
    finally:
        for module, values in before:
            for name in KEPT:
                vars(module).pop(name, None)
            vars(module).update(values)


def _set_while_generating() -> None:
    from fairseq.sequence_generator import EnsembleModel, SequenceGenerator, SequenceGeneratorWithAlignment

    set_beam_size = EnsembleModel.set_decoder_beam_size

    @instead_of(set_beam_size, NAME)
    def set_decoder_beam_size(self: Any, beam_size: int) -> None:
        """Nothing: models are told when something is generated. A generator that does not tell them expands what they read."""

    def patched(stock: Any) -> Any:
        @instead_of(stock, NAME)
        def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
            with beam_size_set(self.model, self.beam_size, set_beam_size):
                return stock(self, *args, **kwargs)

        return generate

    EnsembleModel.set_decoder_beam_size = set_decoder_beam_size
    for generator in (SequenceGenerator, SequenceGeneratorWithAlignment):
        generator.generate = patched(generator.generate)


BEAM_SIZE = Patch(
    name=NAME,
    reason="making a generator tells mBART its beam size for good: batches of training and validation are then read as copies for "
    "a beam (--eval-bleu), and a second generator with another beam size decodes with the first one's",
    upstream="no report found",
    needed=_stays_set,
    apply=_set_while_generating,
)
