"""VECO (Luo et al. 2021): a transformer of XLM-R's shape whose encoder and decoder are layers of one pre-trained stack."""

from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict, Type

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf
from torch import Tensor

from ...checkpoints.starting import left_closed
from ...modules.model_options import set_architecture, writable
from . import veco_pretrained
from .base import VECOBase
from .config import ARCHITECTURES, VECOOptions, resolve
from .pretraining import VECOPretrainingModel
from .state import StackReader

OPTIONS = {one.name: one.default for one in fields(VECOOptions) if one.name != "_name"}


@register_model("veco")
class VECOModel(VECOBase):
    """The encoder-decoder that translates; every option of the stock transformer holds.

    With a task that pre-trains (``task.pretrains_veco``), ``build_model`` makes a :class:`VECOPretrainingModel` instead.
    """

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Options of the stock transformer and :class:`VECOOptions`."""
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, VECOOptions())

    @classmethod
    def build_model(cls, args: Any, task: Any) -> VECOBase:
        """Build, then fill from the masked LM that ``args`` names.

        ``args`` is what checkpoints of the run keep: the path moves to ``initialised_from``, so that decoding opens no other file.
        The choice of layers stays, and counts in a stack of ``encoder_layers`` layers also when the encoder has fewer.

        Raises:
            ValueError: options, sizes, positions or dictionary that do not fit; naming option, value and what is valid.
        """
        pretrains = bool(getattr(task, "pretrains_veco", False))
        with writable(args):
            set_architecture(args, OPTIONS)
            choice = resolve(args, pretrains)
        # A namespace in any case: the stock model loses what it does not know of a hydra configuration.
        plain = Namespace(**(dict(OmegaConf.to_container(args)) if OmegaConf.is_config(args) else vars(args)))  # type: ignore[arg-type]
        plain.encoder_layers = len(choice.encoder)
        kind: Type[VECOBase] = VECOPretrainingModel if pretrains else cls
        model: VECOBase = TransformerModel.build_model.__func__(kind, plain, task)
        model.prepare(choice, getattr(task, "kept_rows", None), str(args.embedding_mismatch))
        path = args.init_from_mlm
        if path:
            model.absent_source = left_closed("--init-from-mlm", path, plain, task)
            if model.absent_source is None:
                veco_pretrained.fill(model, plain, path)
            with writable(args):
                args.initialised_from, args.init_from_mlm = path, None
        return model

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """See :class:`StackReader`."""
        StackReader(self, state_dict).adapt()


def _register(name: str, defaults: Dict[str, Any]) -> None:
    @register_model_architecture("veco", name)
    def architecture(args: Any) -> None:
        set_architecture(args, defaults)


for _name, _defaults in ARCHITECTURES.items():
    _register(_name, _defaults)
