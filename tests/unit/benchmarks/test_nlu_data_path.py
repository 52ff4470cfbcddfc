"""The benchmark of the understanding data paths times the same texts in every case. No time is asserted."""

from pathlib import Path

from benchmarks.nlu_data_path import CASES, random_sentences, write_data


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
