"""Models that start from a pretrained file, which their own checkpoints make superfluous."""

from typing import Any, Callable, Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModel

from .options import writable


class FilledModel:
    """Mixin of a fairseq model that needs its pretrained file, or a checkpoint of the run."""

    absent_source: Optional[str] = None  # why the pretrained file was not read; None = it was

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint of the run, which makes the pretrained file superfluous."""
        incompatible_keys = super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        self.absent_source = None
        return incompatible_keys

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; see :meth:`check_source`."""
        self.check_source()
        return super().forward(*args, **kwargs)  # type: ignore[misc]

    def check_source(self) -> None:
        """Raise ValueError if neither the pretrained file nor a checkpoint was loaded."""
        if self.absent_source is not None:
            raise ValueError(
                f"{self.absent_source}, and there is no checkpoint of this run to continue"
            )


class FilledTransformer(FilledModel, TransformerModel):
    """Stock transformer with the options of a dataclass, ``own_options``, beside its own."""

    own_options: Any

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options of the stock transformer and of ``own_options``."""
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, cls.own_options())

    def start_from(
        self, args: Any, name: str, absent: Optional[str], fill: Callable[[], Any]
    ) -> None:
        """Fill the random model from the file that option ``name`` of ``args`` gives.

        ``args`` is what checkpoints of the run keep: the path moves to ``initialised_from``, so
        that decoding opens no other file.

        Args:
            absent: why the file is not opened; None = it is.
            fill: reads the file and fills this model.
        """
        self.absent_source = absent
        if absent is None:
            fill()
        with writable(args):
            args.initialised_from = getattr(args, name)
            setattr(args, name, None)
