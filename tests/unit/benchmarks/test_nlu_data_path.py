"""The benchmark of the understanding data paths times the same texts in every case. No time is asserted."""

import argparse
from pathlib import Path

from benchmarks import nlu_data_path
from benchmarks.nlu_data_path import CASES, compare, file_sentences, random_sentences, render, write_data


def test_all_cases_have_the_same_texts(tmp_path: Path) -> None:
    sentences = list(random_sentences(20, 50))
    write_data(tmp_path, sentences, 50)
    stock, classes, tags, questions = (make(tmp_path) for make in CASES)
    wanted = [[0, *(4 + piece for ids, _ in words for piece in ids), 2] for words in sentences]
    assert [stock.dataset[row]["net_input.src_tokens"].tolist() for row in range(20)] == wanted
    for case in (classes, tags):
        assert [case.dataset[row]["tokens"].tolist() for row in range(20)] == wanted
    total = sum(len(row) for row in wanted)
    assert {case.run(batch) for case in (stock, classes, tags) for batch in (1, 7)} == {total}
    assert questions.dataset.passages[0].tolist() == [*(piece for row in wanted for piece in row[1:-1]), 2]
    assert questions.dataset[0]["rows"][0]["tokens"].tolist()[: len(wanted[0])] == wanted[0]
    assert questions.dataset.beyond == 0 and (questions.dataset.questions.gold >= 0).all()
    assert [len(tags.dataset[row]["target"]) for row in range(20)] == [len(words) for words in sentences]


def test_a_table_of_every_case() -> None:
    options = argparse.Namespace(rows=20, vocab=50, tagged=None, pieces=None, batch=4, rounds=1)
    table = render({"results": compare(options)})
    assert table.count("\n") == 1 + len(CASES) and "1.00 (1.00 to 1.00)" in table


def test_words_of_a_file_are_cut_one_by_one(tmp_path: Path) -> None:
    class Model:
        """A piece a letter; nothing for a dash."""

        def encode(self, words: list) -> list:
            return [[ord(letter) for letter in word if letter != "-"] for word in words]

        def unk_id(self) -> int:
            return 7

    path = tmp_path / "train.tsv"
    path.write_text("ab\tB-PER\n-\tO\n\n\nc\tO\n", encoding="utf-8")
    found = list(file_sentences(path, Model()))
    assert found == [[([97, 98], "B-PER"), ([7], "O")], [([99], "O")]]
    assert nlu_data_path.CASES[0] is nlu_data_path.stock
