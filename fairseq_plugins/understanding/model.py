"""``nlu_encoder``: a pretrained encoder of any family with heads on sentences and on tokens."""

import logging
from dataclasses import asdict
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel, register_model
from fairseq.models.roberta.model import RobertaClassificationHead
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from ..checkpoints.layouts import LANGUAGES_ENTRY, LAYOUT_ENTRY
from ..common.filled_model import FilledModel
from ..common.fit_options import fit_options
from ..common.options import as_namespace, register_architectures, writable
from . import pretrained
from .config import ARCHITECTURES, DEFAULT_POOLING, STOCK_OPTIONS, NLUEncoderOptions, complete
from .encoder import TextEncoder, TokenHead, pool

logger = logging.getLogger(__name__)

PROJECTION = ".out_proj.weight"


@register_model("nlu_encoder")
class NLUEncoderModel(FilledModel, BaseFairseqModel):
    """Encoder and heads by name; fine-tuning trains every weight of both.

    Pretrained weights of any model come from ``--pretrained-encoder``; ``--restore-file`` reads
    checkpoints of this model alone. A checkpoint holds ``encoder.*``, ``classification_heads.*``
    and ``token_heads.*``; its options hold the encoder's layout and languages, so that it needs no
    other file.
    """

    def __init__(self, args: Any, encoder: TextEncoder, absent: Optional[str] = None) -> None:
        super().__init__()
        self.args = args
        self.encoder = encoder
        self.classification_heads = nn.ModuleDict()
        self.token_heads = nn.ModuleDict()
        self.pooling = str(args.sentence_pooling or DEFAULT_POOLING[encoder.layout.family])
        self.absent_source = absent

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options of :class:`.config.NLUEncoderOptions`."""
        gen_parser_from_dataclass(parser, NLUEncoderOptions())

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "NLUEncoderModel":
        """Build the model and fill it from the pretrained file.

        Checkpoints keep ``args``: layout and languages are added, and the path of the file moves
        to ``initialised_from``, so that decoding does not open it.
        """
        with writable(args):
            complete(args)
        start = pretrained.find_start(as_namespace(args), task)
        stock_options = {name: getattr(args, name) for name in STOCK_OPTIONS}
        encoder = TextEncoder(start.layout, **stock_options)
        encoder.apply(init_bert_params)
        pretrained.fill(encoder, start, fit_options(args))
        with writable(args):
            setattr(args, LAYOUT_ENTRY, asdict(start.layout))
            setattr(args, LANGUAGES_ENTRY, list(start.languages) if start.languages else None)
            if args.pretrained_encoder is not None:
                args.initialised_from = args.pretrained_encoder
                args.pretrained_encoder = None
        return cls(args, encoder, start.absent)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        classification_head_name: Optional[str] = None,
        select: Optional[Tensor] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Encode, and apply a head to the output of the last layer.

        A sentence head sees one vector per sentence (``--sentence-pooling``), a token head the
        states at ``select``. ``src_lengths``, ``features_only`` and others are part of fairseq's
        interface and not read.

        Args:
            src_tokens: (B, S) int64, padded on the right.
            classification_head_name: a sentence or token head; None = no head.
            select: positions of a token head: (B, S) bool or two index tensors; None = all.

        Returns:
            Logits (B, classes) of a sentence head, (N, classes) of a token head at N selected
            positions, (B, S, classes) at all; or states (B, S, C). And an empty dictionary.

        Raises:
            ValueError: there is no head of this name.
        """
        self.check_source()
        hidden = self.encoder.features(src_tokens)  # B S C
        name = classification_head_name
        if name is None:
            return hidden, {}
        if name in self.token_heads:
            return self.token_heads[name](hidden if select is None else hidden[select]), {}
        if name in self.classification_heads:
            padding_mask = src_tokens.eq(self.encoder.padding_idx)
            pooled = pool(hidden, padding_mask, self.pooling)  # B C
            # RoBERTa's head reads the first token.
            return self.classification_heads[name](pooled.unsqueeze(1)), {}
        names = ", ".join([*self.classification_heads, *self.token_heads]) or "none"
        raise ValueError(f"there is no head {name!r}; registered: {names}")

    def register_classification_head(
        self, name: str, num_classes: int = 2, inner_dim: Optional[int] = None, **unused: Any
    ) -> None:
        """Add a sentence head unless there is an equal one; see :meth:`register_token_head`."""
        width = self.encoder.layout.embed_dim
        dropout = self.args.head_dropout
        head = RobertaClassificationHead(width, inner_dim or width, num_classes, "tanh", dropout)
        self._register(self.classification_heads, self.token_heads, name, head)

    def register_token_head(self, name: str, num_classes: int) -> None:
        """Add a token head unless there is an equal one.

        Raises:
            ValueError: there is a head of this name with another kind or size.
        """
        head = TokenHead(self.encoder.layout.embed_dim, num_classes, self.args.head_dropout)
        self._register(self.token_heads, self.classification_heads, name, head)

    def _register(
        self, heads: nn.ModuleDict, heads_of_other_kind: nn.ModuleDict, name: str, head: nn.Module
    ) -> None:
        """Add a head to ``heads``; if one of this name and size is there, keep it."""
        if name in heads_of_other_kind:
            raise ValueError(
                f"head {name!r} is of the other kind (sentence or token) already; choose another "
                "name"
            )
        if name not in heads:
            heads[name] = head.to(self.encoder.embed_tokens.weight).train(self.training)
            return
        old_shapes, shapes = _shapes(heads[name]), _shapes(head)
        if old_shapes != shapes:
            old_classes, classes = old_shapes["out_proj.bias"][0], shapes["out_proj.bias"][0]
            raise ValueError(
                f"head {name!r} has {old_classes} classes, asked for were {classes} (shapes "
                f"{old_shapes} and {shapes}); choose another name, in stock tasks with "
                "--classification-head-name"
            )

    def max_positions(self) -> int:
        """Return the longest input in tokens."""
        return self.encoder.layout.max_positions

    def get_normalized_probs(
        self, net_output: Any, log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """Compute (log-)probabilities of the classes, the last dimension, in float32."""
        logits = net_output[0].float()
        return torch.log_softmax(logits, -1) if log_probs else torch.softmax(logits, -1)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> None:
        """Register the heads of a checkpoint; heads that it lacks keep their values."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        for key, tensor in list(state_dict.items()):
            kind, _, name_in_kind = key[len(prefix) :].partition(".")  # as token_heads, h.out_proj…
            if not key.startswith(prefix) or not name_in_kind.endswith(PROJECTION):
                continue
            head, classes = name_in_kind.removesuffix(PROJECTION), tensor.size(0)
            if kind == "token_heads":
                self.register_token_head(head, classes)
            elif kind == "classification_heads":
                inner_dim = state_dict[f"{prefix}{kind}.{head}.dense.weight"].size(0)
                self.register_classification_head(head, classes, inner_dim)
        for key, tensor in self.state_dict().items():
            is_of_head = key.startswith(("classification_heads.", "token_heads."))
            if is_of_head and prefix + key not in state_dict:
                logger.info("%s%s is not in the checkpoint: it keeps its values", prefix, key)
                state_dict[prefix + key] = tensor


def _shapes(head: nn.Module) -> Dict[str, Tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}


register_architectures("nlu_encoder", ARCHITECTURES)
