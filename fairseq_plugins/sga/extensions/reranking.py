"""Reranking of n-best lists by an autoregressive model (noisy parallel decoding)."""

import logging
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, data_utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.nat import FairseqNATModel
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

logger = logging.getLogger(__name__)

Hypotheses = List[List[Dict[str, Any]]]


class RerankOptions(NamedTuple):
    """How the scores of two models become one."""

    path: str  # --rerank-at; several checkpoints joined by ":" for their mean probability
    weight: float = 0.5  # --rerank-at-weight, in [0, 1]; 0 = the score of CTC alone, 1 = that of the model alone
    length_penalty: float = 1.0  # --lenpen, exponent of the length that the sum is divided by


def rerank_options(path: Optional[str], weight: Optional[float], length_penalty: float) -> Optional[RerankOptions]:
    """Fill the default of what was not given (None), and check the options; None without ``--rerank-at``."""
    if weight is not None and not 0.0 <= weight <= 1.0:
        raise ValueError(f"--rerank-at-weight must lie in [0, 1]; got {weight}")
    if path:
        return RerankOptions(path, RerankOptions(path).weight if weight is None else weight, length_penalty)
    if weight is not None:
        raise ValueError(f"--rerank-at-weight {weight}: nothing is reranked without --rerank-at CHECKPOINT")
    return None


class ATReranker:
    """Scores each hypothesis by stock models, of one task, that write from left to right.

    Score: ``((1 - weight) log p_CTC(y | x) + weight log p_AT(y </s> | x)) / (|y| + 1) ^ length_penalty``.

    Source: Gu et al. 2018, "noisy parallel decoding", which has the model's score alone; SGA does not rerank.
    """

    def __init__(self, models: List[Any], task: Any, dictionary: Dictionary, options: RerankOptions):
        for model in models:
            if not isinstance(model, FairseqEncoderDecoderModel) or isinstance(model, FairseqNATModel):
                kind = f"{type(model).__name__} does not write from left to right"
                raise ValueError(
                    f"--rerank-at {options.path}: {kind}; valid: a stock encoder-decoder, as --arch transformer"
                )
        check_dictionary(options.path, dictionary, task.source_dictionary)
        check_dictionary(options.path, dictionary, task.target_dictionary)
        self.models, self.task, self.options = models, task, options
        self.dictionary: Dictionary = task.target_dictionary
        self.bos = dictionary.bos()
        self.scorer = SequenceScorer(self.dictionary)

    @classmethod
    def read(
        cls,
        options: RerankOptions,
        dictionary: Dictionary,
        languages: Tuple[Optional[str], Optional[str]] = (None, None),
        data: Optional[str] = None,
    ) -> "ATReranker":
        """Read the models with fairseq's loader.

        ``dictionary`` is that of the hypotheses. Other ``languages`` (source, target) in training are warned of, not refused:
        it may be on purpose. The dictionaries in ``data``, the data-bin of what is decoded, stand in where those of the
        training are gone.
        """
        paths = utils.split_paths(options.path)
        for path in paths:
            if not os.path.isfile(path):
                raise ValueError(f"--rerank-at {path}: no such file; valid: a checkpoint of an autoregressive model")
        models, cfg, task = load_at(paths, options.path, data)
        for side, own in zip(("source", "target"), languages):
            trained = getattr(cfg.task, f"{side}_lang", None)
            if own and trained and trained != own:
                there = f"that model was trained with --{side}-lang {trained}, it scores {own}"
                logger.warning("--rerank-at %s: %s", options.path, there)
        logger.info("--rerank-at %s: %d model(s), weight %g", options.path, len(models), options.weight)
        return cls(models, task, dictionary, options)

    @torch.no_grad()
    def rescore(self, sources: Tensor, sentences: Hypotheses) -> Hypotheses:
        """Order the hypotheses of each source by falling ``score`` of both models.

        They get ``at_score``, the sum of the log-probabilities of the tokens and ``</s>`` in nats, and ``positional_scores``,
        equal shares of the new ``score``. A source or a hypothesis longer than the model's positions raises ValueError.

        ``sources`` (B, S) int64 are padded anywhere, with or without ``<s>``; each has hypotheses with ``tokens`` and
        ``score``, that of CTC with the bonus of its tokens.
        """
        pad = self.dictionary.pad()
        plain = [row[row.ne(pad) & row.ne(self.bos)] for row in sources.cpu()]
        for model in self.models:
            model.to(sources.device).eval()
        for rank in range(max(len(sentence) for sentence in sentences)):
            rows = [row for row, sentence in enumerate(sentences) if len(sentence) > rank]
            chosen = [sentences[row][rank] for row in rows]
            tokens = [hypothesis["tokens"] for hypothesis in chosen]
            scores = self._log_probs([plain[row] for row in rows], tokens, sources.device)
            for hypothesis, score in zip(chosen, scores):
                self._combine(hypothesis, score)
        return [sorted(sentence, key=lambda hypothesis: -float(hypothesis["score"])) for sentence in sentences]

    def _combine(self, hypothesis: Dict[str, Any], at_score: Tensor) -> None:
        weight, tokens = self.options.weight, hypothesis["tokens"]
        length = 1 + int(tokens.ne(self.dictionary.eos()).sum())
        both = (1.0 - weight) * hypothesis["score"] + weight * at_score.to(hypothesis["score"])
        score = both / length**self.options.length_penalty
        hypothesis.update(at_score=at_score, score=score, positional_scores=(score / len(tokens)).repeat(len(tokens)))

    def _log_probs(self, sources: List[Tensor], hypotheses: List[Tensor], device: torch.device) -> List[Tensor]:
        """log p(y </s> | x) of one hypothesis per source, as a batch."""
        pad, eos, unk = self.dictionary.pad(), self.dictionary.eos(), self.dictionary.unk()
        targets = []
        for tokens in hypotheses:
            known = tokens.masked_fill(tokens >= len(self.dictionary), unk)  # <mask>, where it has none
            targets.append(torch.cat([known[known.ne(eos)], known.new_tensor([eos])]))
        self._check_lengths(sources, targets)
        # The task knows how its sources look: padding, <s>, tags.
        dataset = self.task.build_dataset_for_inference(sources, [len(source) for source in sources])
        sample = dataset.collater([dataset[number] for number in range(len(sources))])
        order = sample["id"].tolist()
        rows = [targets[number] for number in order]
        sample["target"] = data_utils.collate_tokens(rows, pad, eos)
        sample["net_input"]["prev_output_tokens"] = data_utils.collate_tokens(
            rows, pad, eos, move_eos_to_beginning=True
        )
        sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
        sample["net_input"] = {key: value for key, value in sample["net_input"].items() if key != "constraints"}
        scored = self.scorer.generate(self.models, sample)
        sums = torch.stack([found[0]["positional_scores"].sum() for found in scored]).cpu()
        by_number = dict(zip(order, sums))
        return [by_number[number] for number in range(len(sources))]

    def _check_lengths(self, sources: List[Tensor], targets: List[Tensor]) -> None:
        limits = utils.resolve_max_positions(*(model.max_positions() for model in self.models))
        for what, rows, limit in zip(("source", "hypothesis"), (sources, targets), limits):
            longest = max(len(row) for row in rows)
            if longest > limit:
                room = f"longer than that model's {limit} positions"
                raise ValueError(f"--rerank-at {self.options.path}: a {what} of {longest} tokens is {room}")


def load_at(paths: List[str], option: str, data: Optional[str]) -> Tuple[List[Any], Any, Any]:
    """Models, configuration and task by fairseq's loader; the dictionaries of ``data`` where the training's are gone."""
    try:
        return checkpoint_utils.load_model_ensemble_and_task(paths)
    except FileNotFoundError as error:
        gone = error
    remedy = "its dictionaries are read from the data-bin that it was trained on"
    if data is None:
        raise ValueError(f"--rerank-at {option}: {gone}; {remedy}") from gone
    logger.warning("--rerank-at %s: %s; the dictionaries of %s are taken, which must be the same", option, gone, data)
    try:
        return checkpoint_utils.load_model_ensemble_and_task(paths, arg_overrides={"data": data})
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"--rerank-at {option}: {gone}; {remedy}, and those of {data} do not fit: {error}") from error


def check_dictionary(path: str, own: Dictionary, other: Dictionary) -> None:
    """Raise ValueError where two dictionaries differ; ``<mask>``, which tasks of masked LMs add at the end, may be missing."""
    sides = [symbols[:-1] if symbols[-1] == "<mask>" else symbols for symbols in (own.symbols, other.symbols)]
    remedy = "train it on a data-bin made with the same dict.txt"
    for index, (left, right) in enumerate(zip(*sides)):
        if left != right:
            differs = f"has {right!r} as entry {index}, that of the hypotheses {left!r}"
            raise ValueError(f"--rerank-at {path}: its dictionary {differs}; {remedy}")
    if len(sides[0]) != len(sides[1]):
        differs = f"has {len(sides[1])} entries, that of the hypotheses {len(sides[0])}"
        raise ValueError(f"--rerank-at {path}: its dictionary {differs}; {remedy}")
