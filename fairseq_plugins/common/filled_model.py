"""A model that starts from a pretrained file, which its own checkpoints make superfluous."""

from typing import Any, Callable, Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModel

from .options import writable


class FilledModel:
    """Mixin of a fairseq model: without its pretrained file it computes nothing before a checkpoint was loaded."""

    absent_source: Optional[str] = None  # why the pretrained file was not read; None when there is nothing amiss

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """A checkpoint of a run holds everything: the pretrained file need not be there to resume."""
        done = super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        self.absent_source = None
        return done

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The forward of the model behind; see :meth:`check_source`."""
        self.check_source()
        return super().forward(*args, **kwargs)  # type: ignore[misc]

    def check_source(self) -> None:
        """Raise ValueError when the pretrained file was not read, and no checkpoint of the run was loaded since."""
        if self.absent_source is not None:
            raise ValueError(f"{self.absent_source}, and there is no checkpoint of this run to continue")


class FilledTransformer(FilledModel, TransformerModel):
    """A stock transformer that takes the options of a dataclass, ``own_options``, beside the stock ones."""

    own_options: Any

    @classmethod
    def add_args(cls, parser: Any) -> None:
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, cls.own_options())

    def start_from(self, args: Any, name: str, absent: Optional[str], fill: Callable[[], Any]) -> None:
        """Fill the model, which is at random, from the file that option ``name`` of ``args`` gives.

        ``args`` is what checkpoints of the run keep: the path moves to ``initialised_from``, so that decoding opens no other file.

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
