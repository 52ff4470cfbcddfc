"""One SGA model for several pairs, n-best lists and reranking under the stock commands; the distillation script."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq.data.data_utils import load_indexed_dataset

from data_prep.io import read_lines
from data_prep.pieces.spm import TrainOptions
from data_prep.pieces.spm import train as train_sentencepiece

from .commands import records, transformer


@pytest.fixture(scope="module")
def pairs(world, path):
    """Data-bin of en-de under three names: en-de and tr-de are trained, fr-de is not."""
    for file in world.data.iterdir():
        for language in ("en", "tr", "fr"):
            name = file.name.replace(".en-de.", f".{language}-de.").replace(".en.", f".{language}.")
            (path / name).write_bytes(file.read_bytes())
    return path


def lists_of(done):
    """Score and text of every hypothesis of a sentence, in the order they are printed."""
    found = {}
    for number, score, text in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", done.stdout, re.MULTILINE):
        found.setdefault(int(number), []).append((float(score), text))
    return found


@pytest.mark.slow
def test_one_model_for_many_pairs_from_training_to_n_best_lists(pairs, world, train, decode, tmp_path):
    line = f"""--task sga_translation_multi --lang-pairs en-de,tr-de --arch sga_tiny --criterion sga_ctc --max-epoch 1 --eval-bleu
        --pretrained-mlm {world.masked_lm} --prompt-length 4 --sampling-temperature 5 --best-checkpoint-metric bleu
        --eval-bleu-args {{"iter_decode_max_iter":1}} --maximize-best-checkpoint-metric"""
    (valid,) = [record for record in records(train(pairs, tmp_path / "sga", line)) if "valid_loss" in record]
    scores = [float(valid[f"valid_bleu_{pair}"]) for pair in ("en-de", "tr-de")]
    assert float(valid["valid_bleu"]) == pytest.approx(sum(scores) / 2, abs=0.02)
    moved = shutil.copytree(pairs, tmp_path / "moved")  # the reranker's data-bin is gone when it decodes
    line = "--task translation -s en -t de --arch transformer --share-all-embeddings --disable-validation --max-epoch 1"
    train(moved, tmp_path / "at", line, *transformer())
    shutil.rmtree(moved)

    def generate(*more, task="sga_translation"):
        line = f"--task {task} -s fr -t de --max-sentences 5 --iter-decode-max-iter 2"
        return decode(pairs, tmp_path / "sga" / "checkpoint_best.pt", line, *more)

    plain = generate()
    assert "zero-shot: fr-de is none of the pairs that the prompts were trained on: en-de, tr-de" in plain.stderr
    assert {len(found) for found in lists_of(plain).values()} == {1}
    beam = "--iter-decode-ctc-beam 4 --nbest 3 --lang-pairs tr-de,en-de".split()
    lists = lists_of(generate(*beam, task="sga_translation_multi"))
    assert len(lists) == 12
    for found in lists.values():
        assert len({text for _, text in found}) == len(found) == 3
        assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
        assert sum(2.0**score for score, _ in found) < 1.0

    at = f"--rerank-at {tmp_path / 'at' / 'checkpoint_last.pt'} --iter-decode-ctc-beam 4 --nbest 4 --lenpen 0".split()
    light, heavy = (lists_of(generate(*at, "--rerank-at-weight", weight)) for weight in (0, 1))
    for number, found in light.items():  # the order of CTC alone
        assert [text for _, text in found[:3]] == [text for _, text in lists[number]]
        assert {text for _, text in found} == {text for _, text in heavy[number]}
    assert light != heavy


LINES = 11
GENERATE = '''#!{python}
"""Stands for fairseq-generate: target number n is "a b n", number 4 is empty; one part is cut short, then another is killed."""
import pathlib, sys
calls = pathlib.Path("{calls}")
count = len(calls.read_text().split()) if calls.exists() else 0
rank, parts = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--distributed-rank", "--distributed-world-size"))
with calls.open("a") as file:
    file.write(f"{{rank}} ")
numbers = list(range({lines}))[rank::parts][::-1]
if count in (1, 2):
    numbers = numbers[1:]
for number in numbers:
    print(f"S-{{number}}\\tx\\nD-{{number}}\\t-0.1\\t{{'' if number == 4 else f'a b {{number}}'}}")
if count == 2:
    sys.exit(1)
if count != 1:
    print("Generate train with beam=5: BLEU4 = 0")
'''


@pytest.mark.slow
def test_distillation_takes_no_part_for_whole_and_keeps_the_order(repo_root, tmp_path):
    """A stop in the middle, twice; then it goes on with what is missing. The last word of a sentence is its number."""
    text, model, dictionary = tmp_path / "text", tmp_path / "m.model", tmp_path / "dict.txt"
    text.mkdir()
    for split, count in (("train", LINES), ("valid", 3)):
        for language in ("en", "de"):
            lines = "".join(f"a b {language} {number}\n" for number in range(count))
            (text / f"{split}.{language}").write_text(lines, encoding="utf-8")
    options = TrainOptions(vocab_size=20, character_coverage=1.0)
    train_sentencepiece([text / "train.en", text / "train.de"], model, dictionary, options)
    (tmp_path / "programs").mkdir()
    fake, calls = tmp_path / "programs" / "fairseq-generate", tmp_path / "calls"
    fake.write_text(GENERATE.format(python=sys.executable, calls=calls, lines=LINES), encoding="utf-8")
    fake.chmod(0o755)
    path = os.pathsep.join([str(fake.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHON": sys.executable}

    def run(line, status=0):
        done = subprocess.run(["bash", *line.split()], env=env, capture_output=True, text=True, cwd=repo_root)
        assert done.returncode == status, done.stderr
        return done.stderr

    before, out = tmp_path / "bin", tmp_path / "out"
    line = f"--text {text} --model {model} --dict {dictionary} --pairs de-en --splits train,valid --out {before}"
    run(f"data_prep/preprocess.sh {line}")
    (tmp_path / "at.pt").write_text("weights", encoding="utf-8")
    script = f"data_prep/distill.sh --data {before} --pair en-de --checkpoint {tmp_path / 'at.pt'} --out {out} --shards 3 -- --beam"
    assert "part 2 of 3 is not whole" in run(f"{script} 5", status=2)
    assert "fairseq-generate failed on part 2" in run(f"{script} 5", status=2)
    assert not (out / "train.de").exists()
    assert "another checkpoint, text, --shards or options" in run(f"{script} 4", status=2)
    assert "1 of 11 translations are empty and left out" in run(f"{script} 5")
    assert calls.read_text(encoding="utf-8").split() == ["0", "1", "1", "1", "2"]
    expected = ["" if number == 4 else f"a b {number}" for number in range(LINES)]
    assert list(read_lines(out / "train.de", "--input")) == expected
    for language in ("en", "de"):  # pair 4 is gone, the others still belong together
        kept = list(read_lines(out / "pieces" / f"train.{language}", "--input"))
        assert [line.split()[-1][-1] for line in kept] == [str(number)[-1] for number in range(LINES) if number != 4]
        assert len(load_indexed_dataset(str(out / "bin" / f"train.en-de.{language}"))) == LINES - 1
    for name in ("valid.de-en.en.bin", "valid.de-en.de.bin", "dict.de.txt"):
        assert (out / "bin" / name).read_bytes() == (before / name).read_bytes()
