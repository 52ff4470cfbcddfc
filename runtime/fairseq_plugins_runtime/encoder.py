"""Models that understand: states of a text, classes of texts or of words, answers in a passage.

A text is a line, or two as a pair. B texts, S tokens, C the width of the states.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from .answers import Answer, best_span, windows
from .folder import Folder
from .model_json import ModelError
from .translator import BATCH_TOKENS, batches

HEADS = ("states", "classification", "ranking", "tokens", "spans")
FORMATS = ("xlmr", "bert", "mbart", "mbart50")
"""xlmr ``<s> A </s> </s> B </s>``; bert ``<s> A </s> B </s>``; mbart ``A </s> B </s> LANG``; mbart50 ``LANG A </s> B </s>``."""
POOLINGS = ("first", "last", "mean")

Input = Union[str, Tuple[str, str]]


class Classified(NamedTuple):
    """What comes of one text."""

    label: str
    probability: float
    probabilities: List[float]  # of ``Encoder.labels``, in their order


class Assembled(NamedTuple):
    """The ids of an input, and where each text begins among them."""

    ids: List[int]
    starts: List[int]
    kept: List[int]  # ids of each text


class Encoder:
    """A model that encodes, and what its head makes of the states. Several threads may use it at once: nothing in it changes.

    Attributes:
        head: one of :data:`HEADS`; ``labels``: its classes in their order, none for states and spans.
        languages: names, where inputs need one.
    """

    def __init__(self, folder: Folder) -> None:
        values = folder.model.part("encoder")
        self._folder, self._text, self._symbols = folder, folder.text, folder.symbols
        self.kind, self.architecture = folder.kind, folder.architecture
        self.precision, self.limits = folder.precision, folder.limits
        self.head, self.labels = values.choice("head", *HEADS), values.texts("labels")
        self.format, self.pooling = values.choice("format", *FORMATS), values.choice("pooling", *POOLINGS)
        size, listed = len(folder.text.source), values.values.get("languages")
        of_language = (
            {}
            if listed == []
            else {part.text("name"): part.integer("id", 0, size - 1) for part in values.parts("languages")}
        )
        self._languages: Dict[str, int] = of_language
        self.languages = list(of_language)
        if self.limits["source_tokens"] < self._added(2) + 2:
            raise folder.model.part("limits").error("source_tokens", f"at least {self._added(2) + 2}, for two texts")
        self._graph = folder.graphs("encoder")["encoder"]
        self._graph.expect(["tokens"], ["states", *(["logits"] if self.head != "states" else [])])
        spans = ("max_question", "window_stride", "max_answer") if self.head == "spans" else ()
        self._spans = {name: values.integer(name, 1) for name in spans}
        if spans and self.limits["source_tokens"] <= self._added(2) + self._spans["max_question"]:
            raise values.error("max_question", "less than the longest input, which has a passage too")

    # ---- What it is asked for. ----

    def encode(
        self,
        texts: Sequence[Input],
        language: Optional[str] = None,
        pooled: bool = False,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[np.ndarray]:
        """States of each text in order, (S, C) float32, special symbols included; with ``pooled`` one vector of each, (C,).

        Args:
            language: of the texts, where the model needs one.
            batch_tokens: of the inputs of a batch, padding counted.

        Raises ModelError: a language that the model does not have, a text that is no Unicode.
        """
        rows = self._rows(texts, language)
        found = self._run("states", rows, batch_tokens)
        states = [one[: len(row.ids)] for one, row in zip(found, rows)]
        return [self._pool(one) for one in states] if pooled else states

    def classify(
        self, texts: Sequence[Input], language: Optional[str] = None, batch_tokens: int = BATCH_TOKENS
    ) -> List[Classified]:
        """The class of each text in order; arguments as of :meth:`encode`. ModelError also where the head classifies no texts."""
        self._need("classification", "ranking")
        found = self._run("logits", self._rows(texts, language), batch_tokens)
        return [self._classified(softmax(logits)) for logits in found]

    def rank(
        self, texts: Sequence[Input], language: Optional[str] = None, batch_tokens: int = BATCH_TOKENS
    ) -> List[float]:
        """The expected grade of each text in order; otherwise as :meth:`classify`."""
        self._need("ranking")
        grades = np.array([int(label) for label in self.labels], np.float32)
        found = self._run("logits", self._rows(texts, language), batch_tokens)
        return [float(softmax(logits) @ grades) for logits in found]

    def tag(
        self, lines: Sequence[str], language: Optional[str] = None, batch_tokens: int = BATCH_TOKENS
    ) -> List[List[str]]:
        """The labels of the words of each line, which are what white space separates; "" for words behind the longest input."""
        self._need("tokens")
        rows, places = [], []
        for number, line in enumerate(lines, start=1):
            words = [self._ids(word, number) or [self._symbols.unk] for word in line.split()]
            rows.append(self._assemble([[piece for word in words for piece in word]], language))
            places.append(np.cumsum([0, *(len(word) for word in words)])[:-1])
        found = self._run("logits", rows, batch_tokens)
        tags = []
        for logits, row, firsts in zip(found, rows, places):
            best = logits.argmax(axis=-1)
            tags.append([self.labels[best[row.starts[0] + at]] if at < row.kept[0] else "" for at in firsts])
        return tags

    def answer(
        self,
        questions: Sequence[Tuple[str, str]],
        language: Optional[str] = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> List[Answer]:
        """The span of the passage that answers each pair of question and passage; a long passage is read in windows."""
        self._need("spans")
        rows, origins = [], []
        for number, (question, passage) in enumerate(questions, start=1):
            asked = self._ids(question, number)[: self._spans["max_question"]]
            pieces, places = self._places(passage, number)
            room = self.limits["source_tokens"] - self._added(2) - len(asked)
            for start in windows(len(pieces), room, self._spans["window_stride"]):
                rows.append(self._assemble([asked, pieces[start : start + room]], language))
                origins.append((number - 1, start, places))
        best = [Answer("", float("-inf"))] * len(questions)
        for logits, row, (number, start, places) in zip(self._run("logits", rows, batch_tokens), rows, origins):
            score, first, last = best_span(logits, row.starts[1], row.kept[1], self._spans["max_answer"])
            if score > best[number].score:
                shift = start - row.starts[1]
                text = questions[number][1][places[first + shift][0] : places[last + shift][1]]
                best[number] = Answer(text, score)
        return best

    def count_tokens(self, text: Input) -> int:
        """How many tokens a text has, the symbols around it included; compare with ``limits["source_tokens"]``."""
        parts = _parts(text)
        return self._added(len(parts)) + sum(len(self._ids(part, 1)) for part in parts)

    # ---- How. ----

    def _need(self, *heads: str) -> None:
        if self.head not in heads:
            raise ModelError(f"a model whose head is {self.head} does not do that; valid: {' or '.join(heads)}")

    def _classified(self, probabilities: np.ndarray) -> Classified:
        best = int(probabilities.argmax())
        return Classified(self.labels[best], float(probabilities[best]), probabilities.tolist())

    def _pool(self, states: np.ndarray) -> np.ndarray:
        if self.pooling == "mean":
            return np.asarray(states.mean(axis=0))
        return np.asarray(states[0 if self.pooling == "first" else -1])

    def _rows(self, texts: Sequence[Input], language: Optional[str]) -> List[Assembled]:
        return [
            self._assemble([self._ids(part, number) for part in _parts(one)], language)
            for number, one in enumerate(texts, start=1)
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
        """Symbols beside the pieces of so many texts."""
        return 2 + (2 if self.format == "xlmr" else 1) * (texts - 1)

    def _assemble(self, texts: Sequence[List[int]], language: Optional[str]) -> Assembled:
        """Put one or two texts together; the longer one gives what is too much until both are equal, then both."""
        mark = self._mark(language)
        kept = cut_lengths([len(text) for text in texts], self.limits["source_tokens"] - self._added(len(texts)))
        ids = [] if self.format == "mbart" else [mark]
        starts = []
        for number, (text, count) in enumerate(zip(texts, kept)):
            if number and self.format == "xlmr":
                ids.append(self._symbols.eos)
            starts.append(len(ids))
            ids += [*text[:count], self._symbols.eos]
        return Assembled(ids + ([mark] if self.format == "mbart" else []), starts, kept)

    def _mark(self, language: Optional[str]) -> int:
        """The id of a language's symbol, or of ``<s>``."""
        if not self._languages and language is None:
            return self._symbols.bos
        if language not in self._languages:
            valid = ", ".join(self.languages) or "none, its inputs have no language"
            raise ModelError(f"language {language}: not one of the model's; valid: {valid}")
        return self._languages[language]

    def _run(self, output: str, rows: Sequence[Assembled], batch_tokens: int) -> List[np.ndarray]:
        """An output of the graph for each row, padding behind it included. ModelError: classes that are not those of ``labels``."""
        found: List[Any] = [None] * len(rows)
        classes = 2 if self.head == "spans" else len(self.labels)
        for numbers in batches([len(row.ids) for row in rows], batch_tokens):
            tokens = np.full((len(numbers), len(rows[numbers[-1]].ids)), self._symbols.pad, np.int64)
            for place, number in enumerate(numbers):
                tokens[place, : len(rows[number].ids)] = rows[number].ids
            values = self._graph.run([output], {"tokens": tokens})[0]
            if output == "logits" and values.shape[-1] != classes:
                raise ModelError(f"the graph has {values.shape[-1]} classes, model.json {classes}; valid: as many")
            for number, one in zip(numbers, values):
                found[number] = one
        return found


def _parts(text: Input) -> Tuple[str, ...]:
    parts = (text,) if isinstance(text, str) else tuple(text)
    if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
        raise ModelError(f"a text of {len(parts)} parts; valid: a string, or a pair of two")
    return parts


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the last dimension."""
    grown = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


def cut_lengths(lengths: Sequence[int], room: int) -> List[int]:
    """Ids to keep of one or two texts such that they fit into ``room``: the longer one gives until both are equal."""
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]
