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
from data_prep.spm_train import TrainOptions, train

from .commands import last_line, records, transformer


@pytest.fixture(scope="module")
def pairs(world, tmp_path_factory):
    """Data-bin of en-de under three names: en-de and tr-de are trained, fr-de is not."""
    folder = tmp_path_factory.mktemp("pairs")
    for file in world.data.iterdir():
        for language in ("en", "tr", "fr"):
            name = file.name.replace(".en-de.", f".{language}-de.").replace(".en.", f".{language}.")
            (folder / name).write_bytes(file.read_bytes())
    return folder


def lists_of(done):
    """Score and text of every hypothesis of a sentence, in the order they are printed."""
    found = {}
    for number, score, text in re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", done.stdout, re.MULTILINE):
        found.setdefault(int(number), []).append((float(score), text))
    return found


@pytest.mark.slow
def test_one_model_for_many_pairs_from_training_to_n_best_lists(pairs, world, run_cli, user_dir, tmp_path):
    shared = f"--user-dir {user_dir} --num-workers 0 --seed 5 --cpu"
    training = f"{shared} --max-sentences 8 --optimizer adam --lr 0.01 --max-epoch 1 --log-format json"
    line = f"""{pairs} {training} --task sga_translation_multi --lang-pairs en-de,tr-de --arch sga_tiny --criterion sga_ctc
        --pretrained-mlm {world.masked_lm} --prompt-length 4 --save-dir {tmp_path / "sga"} --eval-bleu --sampling-temperature 5
        --eval-bleu-args {{"iter_decode_max_iter":1}} --best-checkpoint-metric bleu --maximize-best-checkpoint-metric"""
    (valid,) = [record for record in records(run_cli("train", *line.split())) if "valid_loss" in record]
    scores = [float(valid[f"valid_bleu_{pair}"]) for pair in ("en-de", "tr-de")]
    assert float(valid["valid_bleu"]) == pytest.approx(sum(scores) / 2, abs=0.02)
    moved = shutil.copytree(pairs, tmp_path / "moved")  # the reranker's data-bin is gone when it decodes
    line = f"""{moved} {training} --task translation -s en -t de --arch transformer --share-all-embeddings
        --criterion cross_entropy --save-dir {tmp_path / "at"} --disable-validation"""
    run_cli("train", *line.split(), *transformer())
    shutil.rmtree(moved)

    def generate(*more, check=True, task="sga_translation"):
        line = f"""{pairs} {shared} --task {task} -s fr -t de --path {tmp_path / "sga" / "checkpoint_best.pt"}
            --max-sentences 5 --iter-decode-max-iter 2"""
        return run_cli("generate", *line.split(), *more, check=check)

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

    wider = generate("--model-overrides", "{'ctc_upsample': 3}")
    assert lists_of(wider) != lists_of(plain)
    longest = generate("--model-overrides", "{'ctc_upsample': 30}", check=False)  # 96 positions: 3 source tokens
    assert last_line(longest) and "max_positions=(3, " in longest.stderr


GENERATE = '''#!{python}
"""Stands for fairseq-generate: target number n is "a b n", number 4 is empty; one part is cut short, then another is killed."""
import os, pathlib, sys
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
    text, rows = tmp_path / "text", {"train": 11, "valid": 3}
    text.mkdir()
    for split, count in rows.items():
        for language in ("en", "de"):
            lines = "".join(f"a b {language} {number}\n" for number in range(count))
            (text / f"{split}.{language}").write_text(lines, encoding="utf-8")
    model, dictionary = tmp_path / "m.model", tmp_path / "dict.txt"
    options = TrainOptions(vocab_size=20, character_coverage=1.0)
    train([text / "train.en", text / "train.de"], model, dictionary, options)
    (tmp_path / "programs").mkdir()
    fake, calls = tmp_path / "programs" / "fairseq-generate", tmp_path / "calls"
    fake.write_text(GENERATE.format(python=sys.executable, calls=calls, lines=rows["train"]), encoding="utf-8")
    fake.chmod(0o755)
    path = os.pathsep.join([str(fake.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHON": sys.executable, "PAIR": "en-de", "SHARDS": "3"}

    def run(line, check=True):
        return subprocess.run(
            ["bash", *line.split()], env=env, capture_output=True, text=True, cwd=repo_root, check=check
        )

    line = (
        f"--text {text} --model {model} --dict {dictionary} --pairs de-en --splits train,valid --out {tmp_path / 'bin'}"
    )
    run(f"data_prep/preprocess.sh {line}")
    (tmp_path / "at.pt").write_text("weights", encoding="utf-8")
    script = f"examples/sga/distill.sh {tmp_path / 'bin'} {tmp_path / 'at.pt'}"
    result = tmp_path / "out" / "train.de"

    first, second = (run(f"{script} {tmp_path / 'out'} --beam 5", check=False) for _ in range(2))
    assert first.returncode == second.returncode == 2
    assert "part 2 of 3 is not whole" in first.stderr
    assert "fairseq-generate failed on part 2" in second.stderr
    assert not result.exists()
    other = run(f"{script} {tmp_path / 'out'} --beam 4", check=False)
    assert "made with another checkpoint, text, SHARDS or options" in other.stderr
    last = run(f"{script} {tmp_path / 'out'} --beam 5")
    assert calls.read_text(encoding="utf-8").split() == ["0", "1", "1", "1", "2"]
    expected = ["" if number == 4 else f"a b {number}" for number in range(rows["train"])]
    assert list(read_lines(result, "--input")) == expected
    out, before = tmp_path / "out" / "bin", tmp_path / "bin"
    assert "1 of 11 translations are empty and left out" in last.stderr
    for language in ("en", "de"):  # pair 4 is gone, the others still belong together
        kept = list(read_lines(tmp_path / "out" / "pieces" / f"train.{language}", "--input"))
        assert [line.split()[-1][-1] for line in kept] == [str(number)[-1] for number in range(11) if number != 4]
        assert len(load_indexed_dataset(str(out / f"train.en-de.{language}"))) == 10
    # Named in the other order, as fairseq finds it too.
    for name in ("valid.de-en.en.bin", "valid.de-en.de.bin", "dict.de.txt"):
        assert (out / name).read_bytes() == (before / name).read_bytes()
    assert (out / "train.en-de.de.bin").read_bytes() != (before / "train.de-en.de.bin").read_bytes()
    for file in before.glob("*.de-en.*"):
        file.rename(before / file.name.replace("de-en", "en-de"))
    run(f"{script} {tmp_path / 'again'}")
    assert (tmp_path / "again" / "bin" / "valid.en-de.en.bin").is_file()
