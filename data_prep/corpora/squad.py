"""Questions on passages, as SQuAD, XQuAD, MLQA and TyDiQA-GoldP write them: a file a language."""

from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from ..io import (
    BYTE_ORDER_MARK,
    InputError,
    PathLike,
    describe_json,
    get_text,
    open_input,
    parse_json,
)


class Answer(NamedTuple):
    """An answer.

    Attributes:
        text: as it stands in the passage.
        start: its first character in the passage, from 0; None if the file does not say.
    """

    text: str
    start: Optional[int]


class Question(NamedTuple):
    """A question on a passage.

    Attributes:
        article: title, the same in all languages of XQuAD; without one, the first passage.
        passage: the paragraph.
        question: the question.
        answers: equally good ones; none if the passage has none (SQuAD 2) or the file is silent.
        impossible: True if the file says that the passage has no answer (SQuAD 2).
        id: name of the question; None if the file has none.
        place: place in the file, for messages.
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
        InputError: no UTF-8, no JSON, or another layout; names the file and the line, or the place
            inside the JSON.
    """
    place = f"{option} {path}"
    content = parse_json(_read_text(path, option), place)
    for i, article in enumerate(_get_list(content, "data", place)):
        place = f"{place}, data[{i}]"
        paragraphs = _get_list(article, "paragraphs", place)
        for j, paragraph in enumerate(paragraphs):
            passage_place = f"{place}.paragraphs[{j}]"
            passage = get_text(paragraph, "context", passage_place)
            title = str(article.get("title") or paragraphs[0]["context"])
            for k, record in enumerate(_get_list(paragraph, "qas", passage_place)):
                yield _parse_question(record, title, passage, f"{passage_place}.qas[{k}]")


def _read_text(path: PathLike, option: str) -> str:
    with open_input(path, option) as file:
        content = file.read()
    try:
        return content.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        valid = "a JSON file in UTF-8"
        raise InputError(f"{option} {path}, line {line}: not UTF-8; valid: {valid}") from None


def _parse_question(record: Any, title: str, passage: str, place: str) -> Question:
    answers = tuple(
        _parse_answer(answer, f"{place}.answers[{number}]")
        for number, answer in enumerate(_get_list(record, "answers", place))
    )
    name = str(record["id"]) if isinstance(record.get("id"), (str, int)) else None
    is_impossible = bool(record.get("is_impossible", False))
    question = get_text(record, "question", place)
    return Question(title, passage, question, answers, is_impossible, name, place)


def _get_list(record: Any, key: str, place: str) -> List[Any]:
    if isinstance(record, dict) and isinstance(record.get(key), list):
        return record[key]
    problem = f"no list under {key!r} (found: {describe_json(record)})"
    raise InputError(f"{place}: {problem}; valid: SQuAD's layout, data > paragraphs > qas")


def _parse_answer(record: Any, place: str) -> Answer:
    text = get_text(record, "text", place)
    start = record.get("answer_start")
    if start is not None and (not isinstance(start, int) or isinstance(start, bool)):
        valid = "a whole number of characters"
        raise InputError(f"{place}: answer_start is {start!r}; valid: {valid}")
    return Answer(text, start)
