"""Answers that are spans of a passage (XQuAD, MLQA, TyDiQA), scored by F1 and exact match."""

import logging
import os
import re
import string
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.constants import ChoiceEnum
from fairseq.tasks import register_task
from torch import Tensor

from ..common.options import check_range, option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from .groups import GroupTask, log_mean
from .inputs import check_rows
from .languages import language_of
from .predictions import Cells
from .questions import (
    NO_ANSWER,
    QuestionDataset,
    QuestionSet,
    place_answers,
    read_passages,
    read_questions,
)
from .task import COMMAND, NLUConfig

logger = logging.getLogger(__name__)

LISTED_QUESTIONS = 5
"""Questions that a message names."""
NORMALISATIONS: Any = ChoiceEnum(["language", "squad"])


@dataclass
class SpanQAConfig(NLUConfig):
    """The shared options, and the sizes of windows and answers."""

    max_question: int = option(64, "longest question in pieces; longer ones are cut")
    window_stride: int = option(
        128,
        "pieces from the start of a window of the passage to the start of the next (not their "
        "overlap), limited to the size of a window. A question counts towards --max-tokens as its "
        "windows x its longest window",
    )
    max_answer: int = option(30, "longest predicted answer in pieces")
    answer_normalisation: NORMALISATIONS = option(
        "language",
        "words of answers that are compared: language = without Unicode punctuation and the "
        "articles of the subset's language, Chinese by character, as MLQA's evaluation; squad = "
        "by the rules of SQuAD v1.1 (English articles) in every language, as XTREME scores XQuAD "
        "and TyDiQA",
    )


@register_task("span_qa", dataclass=SpanQAConfig)
class SpanQATask(GroupTask):
    """Extractive question answering with the criterion ``span_qa``.

    Long passages are read in overlapping windows; an item of a batch is a question with all of
    them.

    Source: XTREME (Hu et al. 2020), section 3: as in Devlin et al. 2019, section 4.2. MT transfer
    has no such task, VECO has.
    """

    criterions = ("span_qa",)
    cfg: SpanQAConfig
    prediction_ending = "json"
    has_labels = False
    head = "span_head"

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> Any:
        """Set up the task; raise ValueError for an option out of range."""
        check_range(cfg, "[1, inf)", "max_question", "window_stride", "max_answer")
        return super().setup_task(cfg, **kwargs)

    def load_language(self, name: str) -> QuestionDataset:
        """Load questions and windows of a subset; log their numbers."""
        texts = [self.read(folder, name, self.dictionary) for folder in ("input0", "input1")]
        passages = read_passages(os.path.join(self.cfg.data, "passages", name + ".jsonl"))
        entries = read_questions(os.path.join(self.cfg.data, "qa", name + ".jsonl"), len(passages))
        offsets = self.read("offsets", name, None)
        check_rows({f"offsets/{name}": len(offsets), f"passages/{name}": len(passages)})
        gold, unplaced = place_answers(entries, passages, offsets)
        consequence = "their loss is that of no answer, f1 and em compare with its text"
        self._report(name, unplaced, "is not at its place in the passage", consequence)
        unanswered = [entry.name for entry in entries if not entry.answers]
        is_labelled = len(unanswered) < len(entries)
        if is_labelled:
            self._report(name, unanswered, "is missing", "they have no part in f1 and em")
        dataset = QuestionDataset(
            texts,
            self.input_options(name),
            QuestionSet(entries, passages, offsets, gold, self._answer_language(name)),
            self.cfg.max_question,
            self.cfg.window_stride,
        )
        dataset.is_labelled = is_labelled
        logger.info(
            f"{name}: {dataset.windows.sum()} windows of at most {dataset.longest} tokens, "
            f"{dataset.cut_questions} questions cut to {self.cfg.max_question} pieces, "
            f"{dataset.uncovered} answers in no window whole"
        )
        return dataset

    def _report(self, name: str, questions: List[str], fault: str, consequence: str) -> None:
        """Refuse questions with a faulty first answer in training, and warn of them elsewhere.

        Args:
            name: name of the subset.
            questions: ids of the questions; nothing happens if there are none.
            fault: predicate of "the first answer".
            consequence: what the fault means outside training.
        """
        if not questions:
            return
        listed = ", ".join(questions[:LISTED_QUESTIONS])
        listed += ", …" if len(questions) > LISTED_QUESTIONS else ""
        self.refuse_in_training(
            f"{name}: the first answer of {len(questions)} questions {fault}: {listed}",
            valid=f"training data without them, as {COMMAND} writes it",
            consequence=consequence,
        )

    def _answer_language(self, name: str) -> Optional[str]:
        """Return the code of the language whose rules compare answers; None = SQuAD's rules."""
        if str(self.cfg.answer_normalisation) == "squad":
            return None
        language = language_of(name)
        if not language and not self.for_training:
            raise ValueError(
                f"subset {name} names no language for --answer-normalisation language; valid: a "
                f"subset named as {name}.en, or --answer-normalisation squad"
            )
        return language.split("_")[0].lower()

    def add_head(self, model: Any) -> None:
        """Register a token head with two logits per token: start and end."""
        model.register_token_head(self.head, num_classes=2)

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Cells]]:
        """Return a row per question: its id and the predicted answer."""
        answers = criterion.answers(logits, sample)
        return [[(question.name, answer)] for question, answer in zip(sample["questions"], answers)]


@register_criterion("span_qa", dataclass=FairseqDataclass)
class SpanQACriterion(SummedCriterion):
    """Mean cross-entropy of start and end, a sum over windows in nats.

    Validation also predicts the answer to each question: the span of at most ``--max-answer``
    pieces, inside the passage's part of one window, with the largest sum of start and end logit
    over all windows. Questions without a gold answer are not scored.

    Source: Devlin et al. 2019, section 4.2.
    """

    tasks = ("span_qa",)

    def __init__(self, task: Any):
        super().__init__(task)
        self.max_answer, self.head = task.cfg.max_answer, task.head

    def forward(
        self, model: Any, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of a batch, and sums of F1 and exact match in validation."""
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.head
        )  # R S 2
        losses = span_losses(logits, _outside(logits, sample), sample["target"])
        sums: Dict[str, Any] = {}
        if not model.training:
            sums = self._score(sample, self.answers(logits, sample))
        return self.result(losses.sum() if reduce else losses, len(losses), sample, **sums)

    def answers(self, logits: Tensor, sample: Dict[str, Any]) -> List[str]:
        """Predict the answer to each question of a batch from logits (R, S, 2)."""
        questions = sample["questions"]
        spans = best_spans(logits, _outside(logits, sample), self.max_answer)
        rows = best_rows(spans.scores, sample["group"], len(questions))
        # From places in the input to pieces of the passage.
        shift = sample["first_piece"][rows] - sample["passage_start"][rows]
        first, last = (spans.first[rows] + shift).tolist(), (spans.last[rows] + shift).tolist()
        return [question.text(*span) for question, span in zip(questions, zip(first, last))]

    @staticmethod
    def _score(sample: Dict[str, Any], answers: List[str]) -> Dict[str, Any]:
        """Sum F1 and exact match over the questions that have gold answers."""
        sums = {"questions": 0, "f1": 0.0, "em": 0}
        for question, answer in zip(sample["questions"], answers):
            if question.answers:
                sums["questions"] += 1
                sums["f1"] += answer_f1(answer, question.answers, question.language)
                sums["em"] += exact_match(answer, question.answers, question.language)
        return sums

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per window; f1 and em in percent of the questions, if computed."""
        log_loss(logging_outputs)
        if total(logging_outputs, "questions"):
            log_mean(logging_outputs, "f1", "f1", "questions")
            log_mean(logging_outputs, "em", "em", "questions")


# ---- Spans. ----


class Spans(NamedTuple):
    """The best span of each of R rows."""

    scores: Tensor  # (R,) sum of start and end logit
    first: Tensor  # (R,) int64, place of the first piece
    last: Tensor  # (R,) int64


def _outside(logits: Tensor, sample: Dict[str, Any]) -> Tensor:
    """Mask the places of a batch outside the passage, (R, S) bool, True = outside."""
    return outside_passage(logits.size(1), sample["passage_start"], sample["passage_length"])


def outside_passage(width: int, starts: Tensor, lengths: Tensor) -> Tensor:
    """Mask the places outside the passage.

    Args:
        width: S.
        starts, lengths: (R,) int64, first place and number of pieces of each row's passage.

    Returns:
        (R, S) bool, True = outside.
    """
    place = torch.arange(width, device=starts.device)
    return (place < starts[:, None]) | (place >= (starts + lengths)[:, None])


def span_losses(logits: Tensor, outside: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean of the cross-entropies of start and end.

    The softmax covers the passage and the place NO_ANSWER. It leaves padding out, so that the loss
    does not depend on the batch, and question and separators, which never hold an answer.

    Args:
        logits: (R, S, 2) of start and end.
        outside: (R, S) bool, True = outside the passage.
        targets: (R, 2) int64, places of start and end.

    Returns:
        (R,) nats, in float32 at least.

    Source: Devlin et al. 2019, section 4.2. Differs: BERT's softmax also includes question,
    separators and padding.
    """
    is_masked = outside.clone()
    is_masked[:, NO_ANSWER] = False
    return F.cross_entropy(_masked(logits, is_masked), targets, reduction="none").mean(dim=1)


def best_spans(logits: Tensor, outside: Tensor, longest: int) -> Spans:
    """Find the span of each row with the largest sum of start and end logit.

    The score is -inf for a row without a passage. Needs memory for R x S x ``longest`` numbers.

    Args:
        logits: (R, S, 2) of start and end.
        outside: (R, S) bool, True = outside the passage.
        longest: largest number of places in a span, at least 1.
    """
    begins, ends = _masked(logits, outside).unbind(-1)
    reach = min(longest, logits.size(1))
    padded_ends = F.pad(ends, (0, reach - 1), value=float("-inf"))
    sums = begins[:, :, None] + padded_ends.unfold(1, reach, 1)  # R S reach
    scores, place = sums.flatten(1).max(dim=1)
    first = place // reach
    return Spans(scores, first, first + place % reach)


def best_rows(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """Find the row of each group with the highest score, the first of equal ones.

    Args:
        scores: (R,).
        group: (R,) int64, number of the group of each row, below ``groups``; none is empty.

    Returns:
        (groups,) int64.
    """
    best = scores.new_full((groups,), float("-inf")).scatter_reduce(0, group, scores, "amax")
    rows = torch.arange(len(scores), device=scores.device)
    candidates = torch.where(scores == best[group], rows, len(scores))  # R: the row, or none
    no_row = candidates.new_full((groups,), len(scores))
    return no_row.scatter_reduce(0, group, candidates, "amin")


def _masked(logits: Tensor, is_masked: Tensor) -> Tensor:
    """Set masked logits (R, S, 2) to -inf, in float32 at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return wide.masked_fill(is_masked[:, :, None], float("-inf"))


# ---- F1 and exact match. ----

ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # Also inside words: of the official pattern's two alternatives, only this one can match.
    "ar": "ال",
}


def answer_words(text: str, language: Optional[str] = None) -> List[str]:
    """Split an answer into the words that are compared: lower case, no punctuation, no articles.

    Args:
        language: None = SQuAD's rules: ASCII punctuation, English articles. A code as zh = MLQA's:
            Unicode punctuation, the articles of that language, Chinese characters singly. MLQA
            defines en, es, de, vi, ar, hi and zh (the last two without articles); other languages
            are treated as Hindi.

    Source: Rajpurkar et al. 2016, section 6.1, and the official evaluation of SQuAD v1.1; Lewis et
    al. 2020, section 3.3, and the official evaluation of MLQA (version 1). XTREME scores XQuAD and
    TyDiQA-GoldP as SQuAD, MLQA as MLQA.
    """
    text, punctuation = text.lower(), set(string.punctuation)
    if language is not None:
        punctuation |= {letter for letter in text if unicodedata.category(letter).startswith("P")}
    text = "".join(letter for letter in text if letter not in punctuation)
    articles = ARTICLES.get(language or "en")
    if articles is not None:
        text = re.sub(articles, " ", text)
    if language == "zh":
        text = re.sub("([\u4e00-\u9fa5])", r" \1 ", text)  # Chinese characters
    return text.split()


def exact_match(prediction: str, answers: Sequence[str], language: Optional[str] = None) -> bool:
    """Return True if the prediction has the words of one of the answers, in their order."""
    words = answer_words(prediction, language)
    return any(words == answer_words(answer, language) for answer in answers)


def answer_f1(prediction: str, answers: Sequence[str], language: Optional[str] = None) -> float:
    """Compute F1 of the words, as multisets, against the answer that gives the best F1, in [0, 1].

    F1 is 0 without a common word, also if both texts have no words at all. The exact match is then
    1. Both are so in the official programs.
    """
    words = Counter(answer_words(prediction, language))
    return max(_f1(words, Counter(answer_words(answer, language))) for answer in answers)


def _f1(prediction: "Counter[str]", answer: "Counter[str]") -> float:
    common = sum((prediction & answer).values())
    return 2 * common / (sum(prediction.values()) + sum(answer.values())) if common else 0.0
