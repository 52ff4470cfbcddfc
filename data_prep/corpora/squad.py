"""Questions on passages, as SQuAD, XQuAD, MLQA and TyDiQA-GoldP write them: one JSON file per language."""

from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from ..io import BYTE_ORDER_MARK, InputError, PathLike, open_input
from .examples import read_json_text, text_of


class Answer(NamedTuple):
    """An answer.

    Attributes:
        text: as it stands in the passage.
        start: its first character in the passage, from 0; None where the file does not say.
    """

    text: str
    start: Optional[int]


class Question(NamedTuple):
    """A question with what it asks about.

    Attributes:
        article: the title, which is the same in all languages of XQuAD; without one, the first passage.
        passage: the paragraph.
        question: the question.
        answers: equally good ones; none where the passage has none (SQuAD 2) or the file does not tell.
        impossible: the file says that the passage has no answer (SQuAD 2).
        id: names the question; None where the file has none.
        place: where it stands in the file, for messages.
    """

    article: str
    passage: str
    question: str
    answers: Tuple[Answer, ...]
    impossible: bool
    id: Optional[str]
    place: str


def read_questions(path: PathLike, option: str = "--inputs") -> Iterator[Question]:
    """Yield the questions of a file in SQuAD's layout.

    Raises:
        InputError: no UTF-8, no JSON, or another layout; names the file and the line, or the place inside the JSON.
    """
    with open_input(path, option) as file:
        raw = file.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{option} {path}, line {line}: not UTF-8; valid: a JSON file in UTF-8") from None
    if text.startswith(BYTE_ORDER_MARK):
        text = text[1:]
    articles = _items(read_json_text(text, f"{option} {path}"), "data", f"{option} {path}")
    for i, article in enumerate(articles):
        where = f"{option} {path}, data[{i}]"
        for j, paragraph in enumerate(_items(article, "paragraphs", where)):
            passage = text_of(paragraph, "context", f"{where}.paragraphs[{j}]")
            title = article.get("title") or article["paragraphs"][0]["context"]
            for k, item in enumerate(_items(paragraph, "qas", f"{where}.paragraphs[{j}]")):
                place = f"{where}.paragraphs[{j}].qas[{k}]"
                answers = tuple(
                    _answer(answer, f"{place}.answers[{n}]") for n, answer in enumerate(_items(item, "answers", place))
                )
                name = str(item["id"]) if isinstance(item.get("id"), (str, int)) else None
                impossible = bool(item.get("is_impossible", False))
                question = text_of(item, "question", place)
                yield Question(str(title), passage, question, answers, impossible, name, place)


def _items(record: Any, key: str, where: str) -> List[Any]:
    if not isinstance(record, dict) or not isinstance(record.get(key), list):
        keys = ", ".join(sorted(record)) if isinstance(record, dict) else type(record).__name__
        raise InputError(
            f"{where}: no list under {key!r} (found: {keys}); valid: SQuAD's layout, data > paragraphs > qas"
        )
    return record[key]


def _answer(record: Any, where: str) -> Answer:
    text = text_of(record, "text", where)
    start = record.get("answer_start")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        raise InputError(f"{where}: answer_start is {start!r}; valid: a whole number of characters")
    return Answer(text, start)
