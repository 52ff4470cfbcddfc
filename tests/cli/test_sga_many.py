"""Test one SGA model for several pairs, n-best lists, reranking and the distillation script."""

import os
import re
import shutil
import sys

import pytest
from fairseq.data.data_utils import load_indexed_dataset

from data_prep.io import read_lines
from data_prep.pieces.spm import TrainOptions
from data_prep.pieces.spm import train as train_sentencepiece

from .commands import finish, records, start, transformer, write_program


@pytest.fixture(scope="module")
def pairs(world, path):
    """Copy the data-bin of en-de to tr-de, for training, and fr-de, for zero-shot."""
    for file in world.data.iterdir():
        for language in ("en", "tr", "fr"):
            name = file.name.replace(".en-de.", f".{language}-de.").replace(".en.", f".{language}.")
            (path / name).write_bytes(file.read_bytes())
    return path


def read_nbest(process):
    """Read score and text of every hypothesis, by sentence, in the printed order."""
    lists = {}
    for number, score, text in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", process.stdout, re.MULTILINE):
        lists.setdefault(int(number), []).append((float(score), text))
    return lists


@pytest.mark.slow
def test_one_model_for_many_pairs_from_training_to_reranked_lists(
    pairs, world, train, decode, tmp_path
):
    line = f"""--task sga_translation_multi --lang-pairs en-de,tr-de --arch sga_tiny --max-epoch 1
        --criterion sga_ctc --pretrained-mlm {world.masked_lm} --prompt-length 4 --eval-bleu
        --sampling-temperature 5 --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
        --eval-bleu-args {{"iter_decode_max_iter":1}}"""
    log = records(train(pairs, tmp_path / "sga", line))
    (valid,) = [record for record in log if "valid_loss" in record]
    scores = [float(valid[f"valid_bleu_{pair}"]) for pair in ("en-de", "tr-de")]
    assert float(valid["valid_bleu"]) == pytest.approx(sum(scores) / 2, abs=0.02)

    # The data-bin of the reranker is deleted before decoding.
    reranker_data = shutil.copytree(pairs, tmp_path / "reranker_data")
    line = """--task translation -s en -t de --arch transformer --share-all-embeddings
        --disable-validation --max-epoch 1"""
    train(reranker_data, tmp_path / "at", line, *transformer())
    shutil.rmtree(reranker_data)

    def generate(more, task="sga_translation"):
        line = f"--task {task} -s fr -t de --max-sentences 5 --iter-decode-max-iter 2 {more}"
        return decode(pairs, tmp_path / "sga" / "checkpoint_best.pt", line)

    greedy = generate("")
    assert "zero-shot: fr-de " in greedy.stderr
    assert {len(hypotheses) for hypotheses in read_nbest(greedy).values()} == {1}
    beam = "--iter-decode-ctc-beam 4 --nbest 3 --lang-pairs tr-de,en-de"
    lists = read_nbest(generate(beam, task="sga_translation_multi"))
    assert len(lists) == 12
    for hypotheses in lists.values():
        assert len({text for _, text in hypotheses}) == len(hypotheses) == 3
        scores = [score for score, _ in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert sum(2.0**score for score in scores) < 1.0

    rerank = f"""--rerank-at {tmp_path / "at" / "checkpoint_last.pt"} --iter-decode-ctc-beam 4
        --nbest 4 --lenpen 0 --rerank-at-weight"""
    ctc_only, reranked = (read_nbest(generate(f"{rerank} {weight}")) for weight in (0, 1))
    assert ctc_only != reranked
    for number, hypotheses in ctc_only.items():
        texts = [text for _, text in hypotheses]
        assert texts[:3] == [text for _, text in lists[number]]
        assert set(texts) == {text for _, text in reranked[number]}


LINES = 11
GENERATE = '''#!{python}
"""Stand in for fairseq-generate: translate number n as "a b n", number 4 as an empty line.

The second call prints too few lines; the third one, too, and fails.
"""
import pathlib, sys
calls = pathlib.Path("{calls}")
count = len(calls.read_text().split()) if calls.exists() else 0
option = lambda name: int(sys.argv[sys.argv.index(name) + 1])
rank, parts = option("--distributed-rank"), option("--distributed-world-size")
with calls.open("a") as file:
    file.write(f"{{rank}} ")
numbers = list(range({lines}))[rank::parts][::-1]
if count in (1, 2):
    numbers = numbers[1:]
for number in numbers:
    text = "" if number == 4 else f"a b {{number}}"
    print(f"S-{{number}}\\tx\\nD-{{number}}\\t-0.1\\t{{text}}")
if count == 2:
    sys.exit(1)
if count != 1:
    print("Generate train with beam=5: BLEU4 = 0")
'''


@pytest.mark.slow
def test_distillation_refuses_incomplete_parts_and_keeps_the_order(repo_root, tmp_path):
    """The last word of a sentence is its number."""
    text, model, dictionary = tmp_path / "text", tmp_path / "m.model", tmp_path / "dict.txt"
    text.mkdir()
    for split, count in (("train", LINES), ("valid", 3)):
        for language in ("en", "de"):
            lines = "".join(f"a b {language} {number}\n" for number in range(count))
            (text / f"{split}.{language}").write_text(lines, encoding="utf-8")
    options = TrainOptions(vocab_size=20, character_coverage=1.0)
    train_sentencepiece([text / "train.en", text / "train.de"], model, dictionary, options)
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    stand_in = GENERATE.format(python=sys.executable, calls=calls, lines=LINES)
    write_program(programs / "fairseq-generate", stand_in)
    path = os.pathsep.join([str(programs), os.path.dirname(sys.executable), os.environ["PATH"]])

    def run(line, expected_status=0):
        process = start(["bash", *line.split()], repo_root, PATH=path, PYTHON=sys.executable)
        status, output = finish(process)
        assert status == expected_status, output
        return output

    data, out, weights = tmp_path / "bin", tmp_path / "out", tmp_path / "at.pt"
    run(
        f"""data_prep/preprocess.sh --text {text} --model {model} --dict {dictionary}
        --pairs de-en --splits train,valid --out {data}"""
    )
    weights.write_text("weights", encoding="utf-8")
    script = f"""data_prep/distill.sh --data {data} --pair en-de --checkpoint {weights}
        --out {out} --shards 3 -- --beam"""
    assert "part 2 of 3 is not whole" in run(f"{script} 5", expected_status=2)
    assert "fairseq-generate failed on part 2" in run(f"{script} 5", expected_status=2)
    assert not (out / "train.de").exists()
    assert "--shards or options" in run(f"{script} 4", expected_status=2)
    assert "1 of 11 translations are empty" in run(f"{script} 5")
    assert calls.read_text(encoding="utf-8").split() == ["0", "1", "1", "1", "2"]

    numbers = [number for number in range(LINES) if number != 4]
    translations = ["" if number == 4 else f"a b {number}" for number in range(LINES)]
    assert list(read_lines(out / "train.de", "--input")) == translations
    for language in ("en", "de"):  # pair 4 is left out on both sides
        pieces = list(read_lines(out / "pieces" / f"train.{language}", "--input"))
        last_digits = [line.split()[-1][-1] for line in pieces]
        assert last_digits == [str(number)[-1] for number in numbers]
        rows = load_indexed_dataset(str(out / "bin" / f"train.en-de.{language}"))
        assert len(rows) == len(numbers)
    for name in ("valid.de-en.en.bin", "valid.de-en.de.bin", "dict.de.txt"):
        assert (out / "bin" / name).read_bytes() == (data / name).read_bytes()
