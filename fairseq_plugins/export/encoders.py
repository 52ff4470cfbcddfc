"""Encoders: of understanding tasks, with their heads, and of pretrained models."""

import logging
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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
from .stock_graphs import StatesGraph

logger = logging.getLogger(__name__)

PRETRAINING = ("veco_pretraining", "tlm_pretraining")
"""Tasks whose models are exported as encoders without ``--encoder``: they do not translate."""
FORMATS = {"xlmr": "xlmr", "bert": "bert", "deltalm": "xlmr"}
"""Family -> input format, if the file has no task that names it."""
HEADS: Tuple[Tuple[Any, str], ...] = (
    (RelevanceRankingTask, "ranking"),
    (TokenClassificationTask, "tokens"),
    (SpanQATask, "spans"),
    (NLUTask, "classification"),
)
"""Task and purpose of its head; the first task that fits counts."""
UNSUPPORTED_PIECES = {"codes.bpe": "fastBPE", "vocab.txt": "WordPiece"}
"""File that data_prep/nlu.sh leaves in place of a sentencepiece model -> tool that reads it."""
WINDOWS = ("max_question", "window_stride", "max_answer")
"""Options of span extraction in ``model.json``."""
SENTENCES, LENGTH = 3, 7  # of the example that the graph is traced with


class EncoderModel(NamedTuple):
    """An encoder with all that ``model.json`` says about it.

    Attributes:
        symbols: entries of the vocabulary by their ids.
        format: input format.
        max_tokens: longest input.
        pieces: the sentencepiece model; None if the runtime takes text in pieces.
        head: purpose of the head, see :data:`HEADS`; ``states`` if there is no head.
        module: the head; None if there is none.
        labels: classes of the head.
        languages: name and id of the symbol of each language, if the input format needs one.
        windows: name and value of each of :data:`WINDOWS`, for span extraction.
    """

    encoder: TextEncoder
    symbols: Sequence[str]
    pooling: str
    format: str
    max_tokens: int
    pieces: Optional[Path]
    head: str = "states"
    module: Optional[nn.Module] = None
    labels: Sequence[str] = ()
    languages: Sequence[Tuple[str, int]] = ()
    windows: Sequence[Tuple[str, int]] = ()

    def describe(self) -> Dict[str, Any]:
        """Make the entries of ``model.json``."""
        symbols = {
            "bos": SPECIAL.index("<s>"),
            "pad": SPECIAL.index("<pad>"),
            "eos": SPECIAL.index("</s>"),
            "unk": SPECIAL.index("<unk>"),
        }
        section: Dict[str, Any] = {
            "head": self.head,
            "labels": list(self.labels),
            "format": self.format,
            "pooling": self.pooling,
            **dict(self.windows),
            "languages": [{"name": name, "id": number} for name, number in self.languages],
        }
        return {
            "vocabulary": dict.fromkeys(text.SIDES, "vocabulary.txt"),
            "pieces": text.PIECES if self.pieces else None,
            "symbols": symbols,
            "limits": {"source_tokens": self.max_tokens},
            "ignored": [],
            "encoder": section,
        }

    def example(self) -> Tensor:
        """Make rows of different lengths; the longest has as many tokens as the traced graph."""
        layout = self.encoder.layout
        tokens = torch.full((SENTENCES, LENGTH), len(SPECIAL))
        tokens[:, -1] = layout.eos_idx
        tokens[1, 3] = layout.eos_idx
        tokens[1, 4:] = layout.padding_idx
        return tokens


def is_encoder(path: Path) -> bool:
    """Return True for a checkpoint of an understanding task, or of :data:`PRETRAINING`."""
    state = read_checkpoint(path)
    return _is_understanding(state) or task_options(state).get("_name") in PRETRAINING


def _is_understanding(state: Dict[str, Any]) -> bool:
    """Return True for a checkpoint of an understanding task: these store their encoder's layout."""
    return find_settings(state).get(LAYOUT_ENTRY) is not None


def content(
    path: Path,
    data: Optional[str] = None,
    heads: Optional[int] = None,
    without_head: bool = False,
) -> Content:
    """Make the content of the folder of an encoder.

    Args:
        data: folder of the dictionaries and the sentencepiece model; None: they lie beside the
            checkpoint, or in the data folder of its training.
        heads: attention heads, for files that do not tell.
        without_head: leave out the head, if there is one.

    Raises:
        ValueError: a model or a tokenizer that the runtime does not have.
    """
    state = read_checkpoint(path)
    if _is_understanding(state) and not without_head:
        model = _read_with_head(path, state, data)
    else:
        model = _read_pretrained(path, state, data, heads)
    graph = EncoderGraph(model).eval()
    files: text.Files = {"vocabulary.txt": text.list_symbols(model.symbols)}
    if model.pieces:
        files[text.PIECES] = model.pieces
    else:
        problem = "no sentencepiece model lies beside its dictionary"
        logger.warning("%s: %s: the runtime takes text in pieces", path, problem)
    outputs = ["states", "logits"] if model.module else ["states"]
    graphs = {"encoder": Graph(graph, {"tokens": model.example()}, {"tokens": (0, 1)}, outputs)}
    settings = find_settings(state)
    name = settings.get("_name") or settings.get("arch") or model.encoder.layout.family
    return Content("encoder", str(name), graph, graphs, files, model.describe())


# ---- The graph. ----


class Tokens(nn.Module):
    """Sum of the embeddings of tokens and of their segments."""

    def __init__(self, encoder: TextEncoder):
        super().__init__()
        assert encoder.segment_embeddings is not None
        layout = encoder.layout
        self.tokens, self.segments = encoder.embed_tokens, encoder.segment_embeddings
        self.last, self.eos, self.pad = layout.segments - 1, layout.eos_idx, layout.padding_idx

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed (B, S) -> (B, S, C); types as of :meth:`TextEncoder.segment_types`."""
        ends = tokens.eq(self.eos).long()
        types = (ends.cumsum(1) - ends).clamp(max=self.last).masked_fill(tokens.eq(self.pad), 0)
        return self.tokens(tokens) + self.segments(types)


class EncoderGraph(StatesGraph):
    """Tokens -> states of the last layer, and the head's logits."""

    def __init__(self, model: EncoderModel):
        super().__init__(model.encoder, model.max_tokens)
        if model.encoder.segment_embeddings is not None:
            self.words.tokens = Tokens(model.encoder)
        self.head, self.pooling = model.module, model.pooling
        self.of_sentences = model.head in ("classification", "ranking")

    def forward(self, tokens: Tensor) -> Any:
        """Encode (B, S) int64.

        Returns:
            States (B, S, C). With a head also logits: (B, classes) of a head of sentences, (B, S,
            classes) of a head of tokens.
        """
        states = self.states(tokens)
        if self.head is None:
            return states
        if not self.of_sentences:
            return states, self.head(states)
        pooled = pool(states, tokens.eq(self.words.pad), self.pooling)
        return states, self.head(pooled.unsqueeze(1))  # RoBERTa's head reads the first token


# ---- Files. ----


def _read_pretrained(
    path: Path, state: Dict[str, Any], data: Optional[str], heads: Optional[int]
) -> EncoderModel:
    """Read the encoder, without a head, of any model that ``read_encoder`` reads.

    Raises:
        ValueError: a family without a known input format, or no file that names the rows.
    """
    file = read_encoder(path, heads, "--heads")
    layout = file.layout
    if layout.family not in FORMATS:
        raise ValueError(
            f"MODEL {path}: is an encoder of the family {layout.family}, whose inputs have a "
            "language at a place that no file tells; valid: one of an understanding task, or of "
            "XLM-R, VECO, BERT or DeltaLM"
        )
    places = text.places_of(state, path.parent, data)
    entries: Sequence[str] = file.entries
    if data is not None or len(entries) != layout.vocab_size:
        entries = text.entries_of(state, layout.vocab_size, places, f"MODEL {path}")
    if not entries:
        raise ValueError(
            f"MODEL {path}: nothing tells what its {layout.vocab_size:,} rows mean; give --data, "
            "or put the dict.txt of its training beside it"
        )
    return EncoderModel(
        encoder=load_text_encoder(path, heads),
        symbols=entries,
        pooling=DEFAULT_POOLING[layout.family],
        format=FORMATS[layout.family],
        max_tokens=layout.max_positions,
        pieces=_pieces(places),
    )


def _read_with_head(path: Path, state: Dict[str, Any], data: Optional[str]) -> EncoderModel:
    """Load a checkpoint of an understanding task with its head.

    Raises:
        ValueError: another task, or an architecture with a decoder.
    """
    overrides = {"data": data} if data else {}
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides=overrides
    )
    model: Any = models[0].eval()
    if not isinstance(task, NLUTask):
        raise ValueError(
            f"MODEL {path}: was trained with {type(task).__name__}; valid: an understanding task "
            "of this package, or --encoder"
        )
    name = getattr(task.cfg, "classification_head_name", None) or getattr(task, "head", None)
    heads = {**model.classification_heads, **model.token_heads}
    windows: List[Tuple[str, int]] = []
    if isinstance(task, SpanQATask):
        windows = [(window, int(getattr(task.cfg, window))) for window in WINDOWS]
    languages: List[Tuple[str, int]] = []
    if task.input_format.needs_language:
        for language, symbol in zip(task.languages.names, task.languages.symbols):
            languages.append((language, task.dictionary.index(symbol)))
    return EncoderModel(
        encoder=model.encoder,
        symbols=task.dictionary.symbols,
        pooling=model.pooling,
        format=task.input_format.name,
        max_tokens=int(task.cfg.max_positions),
        pieces=_pieces(text.places_of(state, path.parent, data)),
        head=next(purpose for kind, purpose in HEADS if isinstance(task, kind)),
        module=heads[str(name)],
        labels=task.labels,
        languages=languages,
        windows=windows,
    )


def _pieces(places: Sequence[Path]) -> Optional[Path]:
    """Find the sentencepiece model; None if there is no segmenter.

    Raises:
        ValueError: a segmenter that the runtime does not have.
    """
    for place in places:
        segmenter = sentencepiece_in(place)
        if segmenter is not None:
            return segmenter
        for name, tool in UNSUPPORTED_PIECES.items():
            if (place / name).is_file():
                valid = "a sentencepiece model, or none"
                raise ValueError(f"{place / name}: the runtime has no {tool}; valid: {valid}")
    return None
