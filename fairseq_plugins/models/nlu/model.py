"""``nlu_encoder``: a pretrained encoder of any family with sentence and token heads, for stock and own tasks."""

import logging
from dataclasses import asdict
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel, register_model
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from ...checkpoints.encoders import read_encoder
from ...checkpoints.fitting import MARKERS
from ...checkpoints.layouts import LANGUAGES_ENTRY, LAYOUT_ENTRY
from ...checkpoints.loading import load
from ...checkpoints.reading import PathLike
from ...common.filled_model import FilledModel
from ...common.fit_options import fit_options
from ...common.options import as_namespace, register_architectures, writable
from ...modules.text_encoder import TextEncoder
from . import nlu_pretrained
from .config import ARCHITECTURES, OF_STOCK_ENCODER, POOLING_OF, NLUEncoderOptions, complete
from .heads import SentenceHead, TokenHead, pool

logger = logging.getLogger(__name__)

_PROJECTION = ".out_proj.weight"


def load_text_encoder(path: PathLike, heads: Optional[int] = None) -> TextEncoder:
    """A pretrained encoder of any family from disk, in evaluation mode; arguments and errors of ``read_encoder``."""
    found = read_encoder(path, heads)
    encoder = TextEncoder(found.layout)
    load(encoder, found.tensors, allow_missing=MARKERS)
    return encoder.eval()


@register_model("nlu_encoder")
class NLUEncoderModel(FilledModel, BaseFairseqModel):
    """Encoder and named heads.

    Pretrained weights come from ``--pretrained-encoder``, of whatever model and layout; ``--restore-file`` is for checkpoints of
    this model alone. Stock criterions look at ``args``; ``absent``: see :class:`FilledModel`.
    """

    def __init__(self, args: Any, encoder: TextEncoder, absent: Optional[str] = None) -> None:
        super().__init__()
        self.args = args
        self.encoder = encoder
        self.classification_heads = nn.ModuleDict()
        self.token_heads = nn.ModuleDict()
        self.pooling = str(args.sentence_pooling or POOLING_OF[encoder.layout.family])
        self.absent_source = absent

    @classmethod
    def add_args(cls, parser: Any) -> None:
        gen_parser_from_dataclass(parser, NLUEncoderOptions())

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "NLUEncoderModel":
        """Build, and fill from the pretrained file that ``args`` names.

        ``args`` is what checkpoints of the run keep: the layout and the languages go into it, and the path moves to
        ``initialised_from``, so that decoding opens no other file.
        """
        with writable(args):
            complete(args)
        start = nlu_pretrained.find_start(as_namespace(args), task)
        encoder = TextEncoder(start.layout, **{name: getattr(args, name) for name in OF_STOCK_ENCODER})
        encoder.apply(init_bert_params)
        nlu_pretrained.fill(encoder, start, fit_options(args))
        with writable(args):
            setattr(args, LAYOUT_ENTRY, asdict(start.layout))
            setattr(args, LANGUAGES_ENTRY, list(start.languages) if start.languages else None)
            if args.pretrained_encoder is not None:
                args.initialised_from = args.pretrained_encoder
                args.pretrained_encoder = None
        return cls(args, encoder, start.absent)

    def register_classification_head(
        self, name: str, num_classes: int = 2, inner_dim: Optional[int] = None, **unused: Any
    ) -> None:
        """Add a sentence head, unless there is one of that name and size; ValueError: there is another head of that name."""
        width = self.encoder.layout.embed_dim
        head = SentenceHead(width, inner_dim or width, num_classes, self.args.head_dropout)
        self._register(self.classification_heads, self.token_heads, name, head)

    def register_token_head(self, name: str, num_classes: int) -> None:
        """Add a token head, unless there is one of that name and size; ValueError: there is another head of that name."""
        head = TokenHead(self.encoder.layout.embed_dim, num_classes, self.args.head_dropout)
        self._register(self.token_heads, self.classification_heads, name, head)

    def _register(self, heads: nn.ModuleDict, others: nn.ModuleDict, name: str, head: Any) -> None:
        if name in others:
            raise ValueError(f"head {name!r} is of the other kind (sentence or token) already; choose another name")
        if name not in heads:
            heads[name] = head.to(self.encoder.embed_tokens.weight).train(self.training)
            return
        sizes = [{key: tuple(value.shape) for key, value in one.state_dict().items()} for one in (heads[name], head)]
        if sizes[0] != sizes[1]:
            old, new = (len(one.state_dict()["out_proj.bias"]) for one in (heads[name], head))
            raise ValueError(
                f"head {name!r} has {old} classes, asked for were {new} (shapes {sizes[0]} and {sizes[1]}); choose another name, "
                "in stock tasks with --classification-head-name"
            )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        classification_head_name: Optional[str] = None,
        select: Optional[Tensor] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Encode, and apply a head. ``src_lengths``, ``features_only`` and others of fairseq's interface are not read.

        Args:
            src_tokens: (B, S) int64, padded on the right.
            classification_head_name: of a sentence or token head; None = features.
            select: (B, S) bool, or two index tensors: positions that a token head is applied to; all when None.

        Returns:
            Logits (B, classes) of a sentence head, (N, classes) of a token head at the N selected positions, (B, S, classes)
            at all; or features (B, S, C). And an empty dictionary.
        """
        self.check_source()
        hidden = self.encoder.features(src_tokens)
        name = classification_head_name
        if name is None:
            return hidden, {}
        if name in self.token_heads:
            return self.token_heads[name](hidden if select is None else hidden[select]), {}
        if name not in self.classification_heads:
            known = ", ".join([*self.classification_heads, *self.token_heads]) or "none"
            raise ValueError(f"there is no head {name!r}; registered: {known}")
        pooled = pool(hidden, src_tokens.eq(self.encoder.padding_idx), self.pooling)
        return self.classification_heads[name](pooled), {}

    def max_positions(self) -> int:
        return self.encoder.layout.max_positions

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Optional[Dict[str, Any]] = None) -> Tensor:
        """Probabilities, or their logarithms, over the classes (last dimension), in float32."""
        logits = net_output[0].float()
        return torch.log_softmax(logits, -1) if log_probs else torch.softmax(logits, -1)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> None:
        """Register the heads that a checkpoint has, and keep those it does not have as they are."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        for kind in ("classification_heads", "token_heads"):
            start = f"{prefix}{kind}."
            for key in [key for key in state_dict if key.startswith(start) and key.endswith(_PROJECTION)]:
                head = key[len(start) : -len(_PROJECTION)]
                if kind == "token_heads":
                    self.register_token_head(head, state_dict[key].size(0))
                else:
                    inner_dim = state_dict[f"{start}{head}.dense.weight"].size(0)
                    self.register_classification_head(head, state_dict[key].size(0), inner_dim)
            for key, value in getattr(self, kind).state_dict().items():
                if start + key not in state_dict:
                    logger.info("%s%s is not in the checkpoint: it keeps its values", start, key)
                    state_dict[start + key] = value


register_architectures("nlu_encoder", {"nlu_encoder": {}, **ARCHITECTURES})
