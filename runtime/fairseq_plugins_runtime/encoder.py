"""Run encoders: states of a text, classes of texts or of words, answers in a passage.

An input is a line, or a pair of two. Shape letters: B inputs, S tokens, C width of the states.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .answers import Answer, best_span, windows
from .folder import Folder
from .model_json import ModelError
from .places import Span
from .translator import BATCH_TOKENS, batches, pad_rows

HEADS = ("states", "classification", "ranking", "tokens", "spans")
FORMATS = ("xlmr", "bert", "mbart", "mbart50")
"""Special symbols around texts A and B:

xlmr ``<s> A </s> </s> B </s>``; bert ``<s> A </s> B </s>``; mbart ``A </s> B </s> LANG``;
mbart50 ``LANG A </s> B </s>``.
"""
POOLINGS = ("first", "last", "mean")

Input = Union[str, Tuple[str, str]]


class Classified(NamedTuple):
    """Class of an input."""

    label: str
    probability: float
    probabilities: List[float]  # of each label, in the order of ``Encoder.labels``


class Assembled(NamedTuple):
    """Ids of an input with its special symbols."""

    ids: List[int]
    starts: List[int]  # position of each text's first id
    counts: List[int]  # ids of each text after the cut


class Window(NamedTuple):
    """Part of a passage that is read with its question."""

    question: int  # number of the question, from 0
    start: int  # its first piece in the passage
    places: List[Span]  # characters that each piece of the passage covers


class Encoder:
    """Encoder with the head that it was exported with. Several threads may use it at once.

    Attributes:
        head: one of :data:`HEADS`.
        labels: classes of the head, in order; none for states and spans.
        languages: languages of the model, if inputs need one.
    """

    def __init__(self, folder: Folder) -> None:
        values = folder.model.part("encoder")
        self._folder, self._text, self._symbols = folder, folder.text, folder.symbols
        self.kind, self.architecture = folder.kind, folder.architecture
        self.precision, self.limits = folder.precision, folder.limits
        self.head, self.labels = values.choice("head", *HEADS), values.texts("labels")
        self.format = values.choice("format", *FORMATS)
        self.pooling = values.choice("pooling", *POOLINGS)
        self._languages: Dict[str, int] = {}  # name -> id
        if values.values.get("languages") != []:
            last_id = len(folder.text.source) - 1
            for part in values.parts("languages"):
                self._languages[part.text("name")] = part.integer("id", 0, last_id)
        self.languages = list(self._languages)
        if self.limits["source_tokens"] < self._added(2) + 2:
            valid = f"at least {self._added(2) + 2}, for two texts"
            raise folder.model.part("limits").error("source_tokens", valid)
        self._graph = folder.graphs("encoder")["encoder"]
        self._graph.expect(["tokens"], ["states", *(["logits"] if self.head != "states" else [])])
        self._windows: Dict[str, int] = {}
        if self.head == "spans":
            for name in ("max_question", "window_stride", "max_answer"):
                self._windows[name] = values.integer(name, 1)
            if self.limits["source_tokens"] <= self._added(2) + self._windows["max_question"]:
                valid = "less than the longest input, which has a passage too"
                raise values.error("max_question", valid)

    # ---- Tasks. ----

    def encode(
        self,
        texts: Sequence[Input],
        language: Optional[str] = None,
        pooled: bool = False,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[np.ndarray]:
        """Compute the states of each input.

        Args:
            texts: inputs.
            language: of the texts, if the model needs one.
            pooled: return one vector per input.
            batch_tokens: tokens of a batch, padding counted.

        Returns:
            (S, C) float32 per input, special symbols included; with ``pooled`` (C,) per input.

        Raises:
            ModelError: the model does not have the language, or a text is not Unicode.
        """
        rows = self._rows(texts, language)
        padded = self._run("states", rows, batch_tokens)
        states = [row_states[: len(row.ids)] for row_states, row in zip(padded, rows)]
        return [self._pool(row_states) for row_states in states] if pooled else states

    def classify(
        self,
        texts: Sequence[Input],
        language: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[Classified]:
        """Classify each input. Arguments and errors are those of :meth:`encode`.

        Raises:
            ModelError: also if the head does not classify texts.
        """
        self._need("classification", "ranking")
        all_logits = self._run("logits", self._rows(texts, language), batch_tokens)
        return [self._classified(softmax(logits)) for logits in all_logits]

    def rank(
        self,
        texts: Sequence[Input],
        language: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[float]:
        """Compute the expected grade of each input; arguments and errors as in :meth:`encode`."""
        self._need("ranking")
        grades = np.array([int(label) for label in self.labels], np.float32)
        all_logits = self._run("logits", self._rows(texts, language), batch_tokens)
        return [float(softmax(logits) @ grades) for logits in all_logits]

    def tag(
        self, lines: Sequence[str], language: Optional[str] = None, batch_tokens: int = BATCH_TOKENS
    ) -> List[List[str]]:
        """Label the words of each line, which white space separates.

        Returns:
            labels of each line; "" for words that the longest input cuts off.
        """
        self._need("tokens")
        rows, first_pieces = [], []  # of each line; the number of each word's first piece
        for number, line in enumerate(lines, start=1):
            words = [self._ids(word, number) or [self._symbols.unk] for word in line.split()]
            rows.append(self._assemble([[piece for word in words for piece in word]], language))
            first_pieces.append(np.cumsum([0, *(len(word) for word in words)])[:-1])
        tags = []
        all_logits = self._run("logits", rows, batch_tokens)
        for logits, row, firsts in zip(all_logits, rows, first_pieces):
            best, start, count = logits.argmax(axis=-1), row.starts[0], row.counts[0]
            tags.append(
                [self.labels[best[start + first]] if first < count else "" for first in firsts]
            )
        return tags

    def answer(
        self,
        questions: Sequence[Tuple[str, str]],
        language: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[Answer]:
        """Find the answer to each question in its passage.

        A long passage is read in overlapping windows.

        Args:
            questions: pairs of question and passage.
            language, batch_tokens: as in :meth:`encode`.
        """
        self._need("spans")
        rows: List[Assembled] = []
        parts: List[Window] = []
        for number, (question, passage) in enumerate(questions, start=1):
            question_ids = self._ids(question, number)[: self._windows["max_question"]]
            pieces, places = self._places(passage, number)
            room = self.limits["source_tokens"] - self._added(2) - len(question_ids)
            for start in windows(len(pieces), room, self._windows["window_stride"]):
                rows.append(self._assemble([question_ids, pieces[start : start + room]], language))
                parts.append(Window(number - 1, start, places))
        answers = [Answer("", float("-inf"))] * len(questions)
        all_logits = self._run("logits", rows, batch_tokens)
        longest = self._windows["max_answer"]
        for logits, row, part in zip(all_logits, rows, parts):
            span = best_span(logits, row.starts[1], row.counts[1], longest)
            if span.score > answers[part.question].score:
                shift = part.start - row.starts[1]  # from positions of the input to pieces
                begin, end = part.places[span.first + shift][0], part.places[span.last + shift][1]
                passage = questions[part.question][1]
                answers[part.question] = Answer(passage[begin:end], span.score)
        return answers

    def count_tokens(self, text: Input) -> int:
        """Count the tokens of an input with its special symbols.

        More than ``limits["source_tokens"]`` are cut.
        """
        parts = _parts(text)
        return self._added(len(parts)) + sum(len(self._ids(part, 1)) for part in parts)

    # ---- Inputs and graph. ----

    def _need(self, *heads: str) -> None:
        if self.head not in heads:
            raise ModelError(
                f"a model whose head is {self.head} does not do that; valid: {' or '.join(heads)}"
            )

    def _classified(self, probabilities: np.ndarray) -> Classified:
        best = int(probabilities.argmax())
        return Classified(self.labels[best], float(probabilities[best]), probabilities.tolist())

    def _pool(self, states: np.ndarray) -> np.ndarray:
        if self.pooling == "mean":
            return np.asarray(states.mean(axis=0))
        return np.asarray(states[0 if self.pooling == "first" else -1])

    def _rows(self, texts: Sequence[Input], language: Optional[str]) -> List[Assembled]:
        return [
            self._assemble([self._ids(part, number) for part in _parts(text)], language)
            for number, text in enumerate(texts, start=1)
        ]

    def _ids(self, text: str, number: int) -> List[int]:
        try:
            return self._text.ids(text)
        except ModelError as error:
            raise ModelError(f"text {number}: {error}") from None

    def _places(self, text: str, number: int) -> Tuple[List[int], List[Tuple[int, int]]]:
        try:
            return self._text.pieces(text)
        except ModelError as error:
            raise ModelError(f"text {number}: {error}") from None

    def _added(self, texts: int) -> int:
        """Count the special symbols of an input of one or two texts."""
        return 2 + (2 if self.format == "xlmr" else 1) * (texts - 1)

    def _assemble(self, texts: Sequence[List[int]], language: Optional[str]) -> Assembled:
        """Join one or two texts with special symbols; cut them if the input is too long."""
        mark = self._mark(language)
        room = self.limits["source_tokens"] - self._added(len(texts))
        counts = cut_lengths([len(text) for text in texts], room)
        ids = [] if self.format == "mbart" else [mark]
        starts = []
        for number, (text, count) in enumerate(zip(texts, counts)):
            if number and self.format == "xlmr":
                ids.append(self._symbols.eos)
            starts.append(len(ids))
            ids += [*text[:count], self._symbols.eos]
        if self.format == "mbart":
            ids.append(mark)
        return Assembled(ids, starts, counts)

    def _mark(self, language: Optional[str]) -> int:
        """Return the id of a language's symbol, or of ``<s>``."""
        if not self._languages and language is None:
            return self._symbols.bos
        if language not in self._languages:
            valid = ", ".join(self.languages) or "none, its inputs have no language"
            raise ModelError(f"language {language}: not one of the model's; valid: {valid}")
        return self._languages[language]

    def _run(self, output: str, rows: Sequence[Assembled], batch_tokens: int) -> List[np.ndarray]:
        """Compute an output of the graph for each row, with the padding of its batch at the end.

        Raises:
            ModelError: the graph has another number of classes than ``labels``.
        """
        outputs: List[Any] = [None] * len(rows)
        classes = 2 if self.head == "spans" else len(self.labels)
        for numbers in batches([len(row.ids) for row in rows], batch_tokens):
            tokens = pad_rows([rows[number].ids for number in numbers], self._symbols.pad)
            values = self._graph.run([output], {"tokens": tokens})[0]
            if output == "logits" and values.shape[-1] != classes:
                raise ModelError(
                    f"the graph has {values.shape[-1]} classes, model.json {classes}; valid: equal"
                )
            for number, row_values in zip(numbers, values):
                outputs[number] = row_values
        return outputs


def _parts(text: Input) -> Tuple[str, ...]:
    parts = (text,) if isinstance(text, str) else tuple(text)
    if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
        raise ModelError(f"a text of {len(parts)} parts; valid: a string, or a pair of two")
    return parts


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last dimension."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def cut_lengths(lengths: Sequence[int], room: int) -> List[int]:
    """Return how many ids of each of one or two texts fit into ``room`` together.

    The longer text is cut first; from equal lengths on both are cut.
    """
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]
