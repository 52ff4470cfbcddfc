"""VECO (Luo et al. 2021): a transformer of XLM-R's shape whose encoder and decoder are layers of one pre-trained stack."""

import copy
from functools import partial
from typing import Any, Dict, Type

from fairseq.models import register_model
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from ...checkpoints.starting import left_closed
from ...common.fit_options import fit_options
from ...common.options import as_namespace, defaults_of, register_architectures, set_architecture, writable
from . import veco_pretrained
from .config import ARCHITECTURES, VECOOptions, resolve
from .prepared_model import PreparedModel
from .pretraining import VECOPretrainingModel
from .state import StackReader


@register_model("veco")
class VECOModel(PreparedModel):
    """The encoder-decoder that translates; every option of the stock transformer holds.

    With a task that pre-trains (``task.pretrains_veco``), ``build_model`` makes a :class:`VECOPretrainingModel` instead.
    """

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PreparedModel:
        """Build, then fill from the masked LM that ``args`` names; see ``start_from``.

        The choice of layers stays in ``args``, and counts in a stack of ``encoder_layers`` layers also when the encoder has fewer.
        """
        pretrains = bool(getattr(task, "pretrains_veco", False))
        with writable(args):
            set_architecture(args, defaults_of(VECOOptions))
            choice = resolve(args, pretrains)
        plain = copy.copy(as_namespace(args))
        plain.encoder_layers = len(choice.encoder)
        kind: Type[PreparedModel] = VECOPretrainingModel if pretrains else cls
        model: PreparedModel = TransformerModel.build_model.__func__(kind, plain, task)
        model.choice, model.kept_rows = choice, getattr(task, "kept_rows", None)
        model.fit_options = fit_options(args)
        path = args.init_from_mlm
        if path:
            absent = left_closed("--init-from-mlm", path, plain, task)
            model.start_from(args, "init_from_mlm", absent, partial(veco_pretrained.fill, model, plain, path))
        return model

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """See :class:`StackReader`."""
        StackReader(self, state_dict).adapt()


register_architectures("veco", ARCHITECTURES)
