"""What the two VECO models have in common: a stock transformer that reads pretrained states and says what became of them."""

import logging
from typing import Dict, Optional, Sequence

from torch import Tensor

from ...checkpoints.fitting import FitOptions
from ...common.filled_model import FilledTransformer
from ...common.fit_options import FIT_OPTIONS
from .config import VECOOptions
from .layer_choice import LayerChoice

logger = logging.getLogger(__name__)


class PreparedModel(FilledTransformer):
    """Stock encoder and decoder.

    Attributes:
        choice: the layers that encoder and decoder take from a pretrained stack.
        kept_rows: for each entry of the pretrained dict.txt whether the data's dictionary has it; None = the same dictionary.
        fit_options: names and values of the options that fit a pretrained state.
    """

    own_options = VECOOptions
    choice: Optional[LayerChoice] = None
    kept_rows: Optional[Sequence[bool]] = None
    fit_options: FitOptions = FIT_OPTIONS

    def adapt(self, state_dict: Dict[str, Tensor]) -> None:
        """Turn a pretrained state into one of this model, in place; ValueError where it does not fit."""
        raise NotImplementedError

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> None:
        """Adapt a pretrained state; a state of a run is left as it is. Then fairseq's own upgrades."""
        if not name:
            try:
                self.adapt(state_dict)
            except ValueError as error:  # fairseq's trainer reports every error here as its own
                logger.error("%s", error)
                raise
        super().upgrade_state_dict_named(state_dict, name)
