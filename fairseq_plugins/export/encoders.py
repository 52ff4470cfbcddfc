"""Encoders: those of the understanding tasks with their heads, and the encoder alone of whatever pretrained model has one."""

import logging
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from fairseq import checkpoint_utils
from torch import Tensor, nn

from ..checkpoints import read_checkpoint
from ..checkpoints.encoders import read_encoder
from ..checkpoints.layouts import LAYOUT_ENTRY
from ..checkpoints.opening import find_settings
from ..checkpoints.tokenizers import sentencepiece_in
from ..checkpoints.vocabulary import SPECIAL, task_options
from ..understanding.answers import SpanQATask
from ..understanding.config import DEFAULT_POOLING
from ..understanding.encoder import TextEncoder, load_text_encoder, pool
from ..understanding.ranking import RelevanceRankingTask
from ..understanding.tags import TokenClassificationTask
from ..understanding.task import NLUTask
from . import text
from .folder import Content
from .graphs import Graph
from .rows import entries_of, places_of
from .stock_graphs import StatesGraph

logger = logging.getLogger(__name__)

PRETRAINING = ("veco_pretraining", "tlm_pretraining")
"""Tasks whose models are exported as encoders without being asked: they do not translate."""
FORMATS = {"xlmr": "xlmr", "bert": "bert", "deltalm": "xlmr"}
"""Family -> what stands around a text, where the file has no task that says it."""
HEADS: Tuple[Tuple[Any, str], ...] = (
    (RelevanceRankingTask, "ranking"),
    (TokenClassificationTask, "tokens"),
    (SpanQATask, "spans"),
    (NLUTask, "classification"),
)
"""Task -> what its head is for; the first that fits."""
OTHERS = {"codes.bpe": "fastBPE", "vocab.txt": "WordPiece"}
"""What data_prep/nlu.sh leaves in its folder beside a sentencepiece model -> what makes such pieces."""
SENTENCES, LENGTH = 3, 7  # of the example that the graph is traced with


class Understanding(NamedTuple):
    """What is exported.

    Attributes:
        symbols: entries of the vocabulary by their ids.
        head: one of those of :data:`HEADS`, or ``states`` for none; ``module`` computes it.
        languages: name -> id of its symbol, where the format of inputs needs one.
        pieces: the sentencepiece model; None for a text in pieces.
    """

    encoder: TextEncoder
    symbols: Sequence[str]
    pooling: str
    format: str
    longest: int
    pieces: Optional[Path]
    head: str = "states"
    module: Optional[nn.Module] = None
    labels: Sequence[str] = ()
    languages: Sequence[Tuple[str, int]] = ()
    windows: Sequence[Tuple[str, int]] = ()


def understands(path: Path) -> bool:
    """Whether a checkpoint is one of the understanding tasks, or of a pre-training that makes an encoder."""
    state = read_checkpoint(path)
    return find_settings(state).get(LAYOUT_ENTRY) is not None or task_options(state).get("_name") in PRETRAINING


def content(path: Path, data: Optional[str] = None, heads: Optional[int] = None, alone: bool = False) -> Content:
    """The folder of an encoder.

    Args:
        data: where the dictionaries and the sentencepiece model are; None: beside the checkpoint, or where it was trained.
        heads: attention heads, for files that do not tell.
        alone: without the head that it may have.

    Raises ValueError: a model or a way to make pieces that the runtime does not have.
    """
    state = read_checkpoint(path)
    trained = find_settings(state).get(LAYOUT_ENTRY) is not None
    found = _of_task(path, state, data) if trained and not alone else _pretrained(path, state, data, heads)
    graph = EncoderGraph(found).eval()
    lines = "".join(f"{symbol}\n" for symbol in found.symbols)
    files: Dict[str, Union[str, Path]] = {"vocabulary.txt": lines}
    files.update({text.PIECES: found.pieces} if found.pieces else {})
    if not found.pieces:
        logger.warning("%s: no sentencepiece model lies beside its dictionary: the runtime takes text in pieces", path)
    outputs = ["states", *(["logits"] if found.module else [])]
    graphs = {"encoder": Graph(graph, {"tokens": _example(found)}, {"tokens": (0, 1)}, outputs)}
    name = str(find_settings(state).get("_name") or find_settings(state).get("arch") or found.encoder.layout.family)
    return Content("encoder", name, graph, graphs, files, _described(found))


def _described(found: Understanding) -> Dict[str, Any]:
    symbols = {name: SPECIAL.index(entry) for name, entry in zip(("bos", "pad", "eos", "unk"), SPECIAL)}
    section: Dict[str, Any] = {"head": found.head, "labels": list(found.labels), "format": found.format}
    section.update(pooling=found.pooling, **dict(found.windows))
    section["languages"] = [{"name": name, "id": number} for name, number in found.languages]
    return {
        "vocabulary": dict.fromkeys(text.SIDES, "vocabulary.txt"),
        "pieces": text.PIECES if found.pieces else None,
        "symbols": symbols,
        "limits": {"source_tokens": found.longest},
        "ignored": [],
        "encoder": section,
    }


def _example(found: Understanding) -> Tensor:
    """Rows of different lengths; the longest has as many tokens as the graph is traced with."""
    pad, eos = found.encoder.layout.padding_idx, found.encoder.layout.eos_idx
    tokens = torch.full((SENTENCES, LENGTH), len(SPECIAL))
    tokens[:, -1] = eos
    tokens[1, 3:] = torch.tensor([eos, *[pad] * (LENGTH - 4)])
    return tokens


# ---- The graph. ----


class Tokens(nn.Module):
    """Embedding of tokens, with that of their segments."""

    def __init__(self, encoder: TextEncoder):
        super().__init__()
        assert encoder.segment_embeddings is not None
        self.tokens, self.segments = encoder.embed_tokens, encoder.segment_embeddings
        self.last, self.eos, self.pad = encoder.layout.segments - 1, encoder.layout.eos_idx, encoder.layout.padding_idx

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S) -> (B, S, C); types as of :meth:`TextEncoder.segment_types`."""
        ends = tokens.eq(self.eos).long()
        types = (ends.cumsum(1) - ends).clamp(max=self.last).masked_fill(tokens.eq(self.pad), 0)
        return self.tokens(tokens) + self.segments(types)


class EncoderGraph(StatesGraph):
    """Tokens -> states of the last layer, and what the head computes of them."""

    def __init__(self, found: Understanding):
        super().__init__(found.encoder, found.longest)
        if found.encoder.segment_embeddings is not None:
            self.words.tokens = Tokens(found.encoder)
        self.head, self.pooling = found.module, found.pooling
        self.of_sentences = found.head in ("classification", "ranking")

    def forward(self, tokens: Tensor) -> Any:
        """(B, S) int64 -> (B, S, C); with a head also logits, (B, classes) of sentences or (B, S, classes) of tokens."""
        states = self.states(tokens)
        if self.head is None:
            return states
        if not self.of_sentences:
            return states, self.head(states)
        pooled = pool(states, tokens.eq(self.words.pad), self.pooling)
        return states, self.head(pooled.unsqueeze(1))  # RoBERTa's head reads the first token


# ---- What the files tell. ----


def _pretrained(path: Path, state: Dict[str, Any], data: Optional[str], heads: Optional[int]) -> Understanding:
    """The encoder alone of whatever ``read_encoder`` reads. Raises ValueError: nothing tells what its rows mean."""
    found = read_encoder(path, heads, "--heads")
    layout = found.layout
    if layout.family not in FORMATS:
        raise ValueError(
            f"MODEL {path}: is an encoder of the family {layout.family}, whose inputs have a language at a place that no file "
            "tells; valid: one of an understanding task, or of XLM-R, VECO, BERT or DeltaLM"
        )
    places = places_of(state, path.parent, data)
    entries: Sequence[str] = found.entries
    if data is not None or len(entries) != layout.vocab_size:
        entries = entries_of(state, layout.vocab_size, places, f"MODEL {path}")
    if not entries:
        raise ValueError(
            f"MODEL {path}: nothing tells what its {layout.vocab_size:,} rows mean; give --data, or put the dict.txt of its "
            "training beside it"
        )
    encoder = load_text_encoder(path, heads)
    family = layout.family
    return Understanding(encoder, entries, DEFAULT_POOLING[family], FORMATS[family], layout.max_positions, _pieces(places))


def _of_task(path: Path, state: Dict[str, Any], data: Optional[str]) -> Understanding:
    """A checkpoint of an understanding task with its head. Raises ValueError: another task, or an architecture with a decoder."""
    changed = {"data": data} if data else {}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=changed)
    model: Any = models[0].eval()
    if not isinstance(task, NLUTask):
        raise ValueError(
            f"MODEL {path}: was trained with {type(task).__name__}; valid: an understanding task of this package, or --encoder"
        )
    head = next(name for kind, name in HEADS if isinstance(task, kind))
    name = getattr(task.cfg, "classification_head_name", None) or getattr(task, "head", None)
    module = {**model.classification_heads, **model.token_heads}[str(name)]
    windows: List[Tuple[str, int]] = []
    if isinstance(task, SpanQATask):
        windows = [(one, int(getattr(task.cfg, one))) for one in ("max_question", "window_stride", "max_answer")]
    languages: List[Tuple[str, int]] = []
    if task.input_format.needs_language:
        names, symbols = task.languages.names, task.languages.symbols
        languages = [(one, task.dictionary.index(symbol)) for one, symbol in zip(names, symbols)]
    return Understanding(
        model.encoder,
        task.dictionary.symbols,
        model.pooling,
        task.input_format.name,
        int(task.cfg.max_positions),
        _pieces(places_of(state, path.parent, data)),
        head,
        module,
        task.labels,
        languages,
        windows,
    )


def _pieces(places: Sequence[Path]) -> Optional[Path]:
    """The sentencepiece model; None for words as they stand. Raises ValueError: pieces that the runtime cannot make."""
    for place in places:
        found = sentencepiece_in(place)
        for name, kind in OTHERS.items() if found is None else ():
            if (place / name).is_file():
                raise ValueError(f"{place / name}: the runtime has no {kind}; valid: a sentencepiece model, or none")
        if found is not None:
            return found
    return None
