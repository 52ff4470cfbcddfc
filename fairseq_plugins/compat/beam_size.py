"""The beam size of a generator reaches a model's cross-attention while the generator generates, and no longer."""

from typing import Any, List

from torch import nn

from .patch import Patch

KEPT = ("beam_size", "_beam_size", "reorder_encoder_out")
"""What ``set_beam_size`` of stock models changes in their modules."""

BEAM_SIZE = Patch(
    name="beam_size",
    reason="making a generator tells mBART its beam size for good: batches of training and validation are then read as copies for "
    "a beam (--eval-bleu), and a second generator with another beam size decodes with the first one's",
)


class _Recorder(nn.Module):
    """A model that notes which beam sizes it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: List[int] = []

    def set_beam_size(self, beam_size: int) -> None:
        self.told.append(beam_size)


@BEAM_SIZE.probe
def _stays_set() -> bool:
    from fairseq.sequence_generator import EnsembleModel

    model = _Recorder()
    EnsembleModel([model]).set_decoder_beam_size(2)  # all that a generator does when it is made
    return bool(model.told)


@BEAM_SIZE.replace("fairseq.sequence_generator:EnsembleModel.set_decoder_beam_size")
def set_decoder_beam_size(stock: Any, ensemble: Any, beam_size: int) -> None:
    """Nothing: models are told when something is generated. A generator that does not tell them expands what they read."""


@BEAM_SIZE.replace(
    "fairseq.sequence_generator:SequenceGenerator.generate",
    "fairseq.sequence_generator:SequenceGeneratorWithAlignment.generate",
)
def generate(stock: Any, generator: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the models read the encoder's output as copies for a beam, and put everything back after."""
    from fairseq.sequence_generator import EnsembleModel

    ensemble = generator.model
    before = [
        (module, {name: vars(module)[name] for name in KEPT if name in vars(module)}) for module in ensemble.modules()
    ]
    try:
        EnsembleModel.set_decoder_beam_size.__wrapped__(ensemble, generator.beam_size)  # does nothing for 1
        return stock(generator, *args, **kwargs)
    finally:
        for module, values in before:
            for name in KEPT:
                vars(module).pop(name, None)
            vars(module).update(values)
