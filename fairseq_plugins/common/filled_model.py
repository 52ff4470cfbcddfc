"""Models that start from a pretrained file and need it no more once they have a checkpoint."""

from typing import Any, Callable, Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModel

from .options import writable


class FilledModel:
    """Mixin that stops a fairseq model from running with random weights.

    Before its first step the model must have read its pretrained file or a checkpoint.

    Attributes:
        absent_source: message that says why the pretrained file was not read; None = that file or
            a checkpoint was loaded.
    """

    absent_source: Optional[str] = None

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint of the run, which replaces the pretrained file."""
        incompatible_keys = super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        self.absent_source = None
        return incompatible_keys

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model. Raises ValueError if it has random weights: see :meth:`check_source`."""
        self.check_source()
        return super().forward(*args, **kwargs)  # type: ignore[misc]

    def check_source(self) -> None:
        """Raise ValueError if neither the pretrained file nor a checkpoint was loaded."""
        if self.absent_source is not None:
            raise ValueError(
                f"{self.absent_source}, and there is no checkpoint of this run to continue"
            )


class FilledTransformer(FilledModel, TransformerModel):
    """Stock transformer that starts from a pretrained file.

    Attributes:
        own_options: dataclass of the options that the subclass adds to those of the transformer.
    """

    own_options: Any

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options of the stock transformer and of ``own_options``."""
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, cls.own_options())

    def start_from(
        self, args: Any, name: str, absent: Optional[str], fill: Callable[[], Any]
    ) -> None:
        """Fill the random model from its pretrained file, and record the path.

        The run's checkpoints store ``args``. There the path moves to ``initialised_from``, so that
        building the model for decoding opens no file beside the checkpoint.

        Args:
            args: options of the model; changed.
            name: option that gives the path.
            absent: message that says why the file is not read; None = it is read.
            fill: reads the file and fills this model.
        """
        self.absent_source = absent
        if absent is None:
            fill()
        with writable(args):
            args.initialised_from = getattr(args, name)
            setattr(args, name, None)
