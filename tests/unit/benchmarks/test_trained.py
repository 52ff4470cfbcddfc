"""The benchmark of trained systems: each task decodes its own way and gives the same texts in any batch; ratios and plots by hand.

No time is asserted.
"""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from benchmarks import results, trained
from benchmarks.trained import Run, Source, System
from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.modules.prefix_masked_lm import MaskedLM, MaskedLMSizes
from tests import builders, nlu_builders

CPU = torch.device("cpu")
TAGGED = ("--task", "translation_multi_simple_epoch", "--lang-pairs", "de-en,en-de", "--langs", "de,en", "--encoder-langtok", "src",
          "--decoder-langtok")  # fmt: skip
PAIR = ("-s", "de", "-t", "en")
POSITIONS = ("--max-source-positions", "60", "--max-target-positions", "60")
LINES = ["abc defg", "kl ahgd lbe fij", "c", "dd ee fff gabk", "hij"]
REFERENCE = ["a b", "abc ihg", "kl", "fff gab k", "de f"]


class World(NamedTuple):
    """Checkpoints, and what they are decoded with."""

    root: Path
    systems: List[str]

    @property
    def line(self) -> List[str]:
        """Arguments of the benchmark, but for the systems."""
        root = str(self.root)
        return [
            "--device", "cpu", "--data", f"{root}/bin", "--sentencepiece", f"{root}/bin/spm", "--pair", "de-en", "--source",
            f"{root}/source", "--reference", f"{root}/reference", "--sentences", "5", "--batch", "3", "--rounds", "1",
        ]  # fmt: skip


def write_bin(folder: Path, pieces: int) -> None:
    """Dictionaries and sentencepiece model of a data-bin; no data."""
    symbols = nlu_builders.write_sentencepiece(folder, pieces, "spm")
    for language in ("de", "en"):
        text = "".join(f"{symbol} 1\n" for symbol in symbols if symbol not in ("<unk>", "<s>", "</s>"))
        (folder / f"dict.{language}.txt").write_text(text, encoding="utf-8")


def write_checkpoint(path: Path, data: Path, *line: str) -> str:
    """A random model as its training would save it."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(data), "--optimizer", "adam", *line])
    cfg = convert_namespace_to_omegaconf(args)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    builders.randomise(model, seed=3)
    history = [{"criterion_name": "CrossEntropyCriterion", "best_loss": 0.0}]
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
    }
    torch.save({**state, "optimizer_history": history, "extra_state": {}}, path)
    return str(path)


def sizes() -> List[str]:
    """A transformer of one layer."""
    found = ["--share-all-embeddings", *POSITIONS]
    for side in ("encoder", "decoder"):
        shape = {"layers": 1, "embed-dim": 16, "ffn-embed-dim": 24, "attention-heads": 2}
        found += [part for name, value in shape.items() for part in (f"--{side}-{name}", str(value))]
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A checkpoint of every task of the comparison; mBART has a data-bin and pieces of its own."""
    root = tmp_path_factory.mktemp("trained")
    write_bin(root / "bin", 30)
    write_bin(root / "own", 40)
    for name, lines in (("source", LINES), ("reference", REFERENCE)):
        (root / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = len((root / "bin" / "dict.de.txt").read_text(encoding="utf-8").splitlines()) + 5
    lm_sizes = MaskedLMSizes(rows, 1, 16, 24, 2, max_positions=60)
    lm = MaskedLM(lm_sizes)
    builders.randomise(lm, seed=5)
    tensors = {key: value for key, value in lm.state_dict().items() if key != "lm_head.weight"}
    write_masked_lm(root / "masked_lm", vars(lm_sizes), tensors, dtype=torch.float32)
    (root / "masked_lm" / "dict.txt").write_bytes((root / "bin" / "dict.de.txt").read_bytes())
    sga = ("--task", "sga_translation", "--criterion", "sga_ctc")
    frozen = (*sga, *PAIR, "--pretrained-mlm", str(root / "masked_lm"), "--prompt-length", "3")
    lines = {
        "AT": ("bin", "--task", "translation", "--arch", "transformer", *PAIR, *sizes()),
        "tags": ("bin", "--arch", "transformer", *TAGGED, *sizes()),
        "mBART": ("own", "--task", "translation_from_pretrained_bart", "--arch", "mbart_base", "--langs", "de,en", *PAIR, *sizes()),
        "SGA": ("bin", "--arch", "sga_tiny", *frozen),
        "SGA, aligned": ("bin", "--arch", "sga_tiny", "--no-denoising", *frozen),
        "free": ("bin", "--arch", "sga_tiny", "--alignment", "mask_predict", *frozen),
        "free, aligned": ("bin", "--arch", "sga_tiny", "--alignment", "mask_predict", "--no-denoising", *frozen),
    }  # fmt: skip
    systems = []
    for name, (data, *line) in lines.items():
        path = write_checkpoint(root / f"{len(systems)}.pt", root / data, *line)
        own = f",{root}/own,{root}/own/spm" if data == "own" else ""
        systems.append(f"{name}={path}{own}")
    return World(root, systems)


@pytest.fixture(scope="module")
def loaded(world: World) -> Dict[str, System]:
    """Every decoding of every system."""
    defaults = world.root / "bin", world.root / "bin" / "spm"
    found = [system for text in world.systems for system in trained.load(Source.parse(text, *defaults), "de-en", CPU)]
    return {system.name: system for system in found}


PASSES = ["at most 0 passes", "1 forced pass", "at most 8 passes", "at most 10 passes"]
NAMES = [
    *(f"{name}, beam {beam}" for name in ("AT", "tags", "mBART") for beam in (5, 1)),
    *(f"SGA, {passes}" for passes in PASSES),
    "SGA, aligned, at most 0 passes",
    *(f"free, {denoiser}{count} iterations" for denoiser in ("", "denoiser, ") for count in (2, 4, 8)),
    *(f"free, aligned, {count} iterations" for count in (2, 4, 8)),
]


def test_every_task_has_its_decodings(loaded: Dict[str, System]) -> None:
    assert list(loaded) == NAMES
    pieces = {name: system.pieces.get_piece_size() for name, system in loaded.items()}
    assert pieces["mBART, beam 5"] > pieces["AT, beam 5"] == pieces["SGA, 1 forced pass"]
    beams = [loaded[f"{name}, beam {beam}"].generator.beam_size for name in ("AT", "tags", "mBART") for beam in (5, 1)]
    assert beams == [5, 1] * 3
    free = [loaded[name].generator for name in NAMES if name.startswith("free")]
    assert [one.mask_predict.iterations for one in free] == [2, 4, 8] * 3
    assert [one.options.max_iter for one in free] == [0] * 3 + [10] * 3 + [0] * 3


@pytest.mark.parametrize("name", NAMES, ids=[name.replace(", ", "-").replace(" ", "_") for name in NAMES])
@torch.no_grad()
def test_texts_do_not_depend_on_the_batch(
    loaded: Dict[str, System], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are sorted by length inside; and language tags, which these tasks write, are no text."""
    monkeypatch.setattr(
        loaded[name].generator, "max_len_a", 0, raising=False
    )  # else the longest source of a batch counts
    single, batched = (trained.translate(loaded[name], LINES, size, CPU) for size in (1, 3))
    assert single.texts == batched.texts and len(single.texts) == len(LINES) == len(single.total)
    assert len(batched.total) == len(batched.model) == 2
    assert len(set(single.texts)) > 1, "other sources give other texts"
    assert not any(text.startswith("__en__") or text.endswith("[en]") for text in single.texts)
    if name.startswith("SGA"):
        most = 8 if name.endswith("8 passes") else 10
        wanted = {PASSES[0]: {0}, PASSES[1]: {1}}.get(name.rpartition(", ")[2], set(range(1, most + 1)))
        assert set(single.steps) <= wanted and len(single.steps) == len(LINES)


def test_trained_and_other_parameters(loaded: Dict[str, System]) -> None:
    at, ours = (loaded[name].model for name in ("AT, beam 1", "SGA, at most 0 passes"))
    assert trained.parameters(at) == dict.fromkeys(
        ("parameters", "trained_parameters"), sum(p.numel() for p in at.parameters())
    )
    found = trained.parameters(ours)
    assert found["trained_parameters"] == 3 * 2 * 1 * 3 * 16 + 2 * (16 * 16 + 16)
    assert found["parameters"] - found["trained_parameters"] == sum(p.numel() for p in ours.frozen.parameters())


def test_what_passes_cost_by_hand() -> None:
    def run(*seconds: float) -> Run:
        return Run([7.0], list(seconds), [], [])

    allowed, forced = [run(1, 5), run(2, 2), run(9)], [run(2, 1), run(1, 1), run(3)]
    assert trained.to_one_pass(allowed, forced) == [2.0, 2.0, 3.0]
    (bar,) = results.BARS["trained"]
    rows: List[Dict[str, Any]] = [{}, {"to_one_pass": {"1": [2.4, 1.0, 9.0], "32": [2.6, 1.0, 1.0]}}]
    assert "**missed** (2.400, 2.600)" in results.verdict({"results": rows}, bar)
    rows[1]["to_one_pass"]["32"][0] = 2.5
    assert "holds" in results.verdict({"results": rows}, bar)
    assert "not measured" in results.verdict({"results": rows[:1]}, bar)


def test_passes_alone_by_hand() -> None:
    """2, 3 and 5 seconds a sentence: three against one; in batches 1, 3 and 2: a half."""
    names = [f"SGA, {trained.described(options)}" for options in trained.PASSES[:3]]
    seconds = zip(names, (2, 3, 5), (1, 3, 2))
    rows = [{"system": one, "sentences_per_s": 1 / a, "batch_sentences_per_s": 1 / b} for one, a, b in seconds]
    assert trained.passes_alone(names[2], {"results": rows}, "") == pytest.approx(3.0)
    assert trained.passes_alone(names[2], {"results": rows}, "batch_") == pytest.approx(0.5)


def test_a_row_by_hand() -> None:
    texts = ["a b c d e", "f g h i j"]

    def run(total: List[float], model: List[float], steps: List[int]) -> Run:
        return Run(total, model, texts, steps)

    runs = {
        ("AT, beam 1", 1): [run([2.0, 6.0], [2.0, 2.0], []), run([4.0, 4.0], [1.0, 1.0], []), run([9.0, 9.0], [9.0, 9.0], [])],
        ("AT, beam 1", 2): [run([3.0], [2.0], []), run([1.0], [2.0], []), run([8.0], [2.0], [])],
        ("SGA, x", 1): [run([1.0, 1.0], [1.0, 1.0], [1, 2]), run([2.0, 2.0], [1.0, 1.0], []), run([2.0, 1.0], [1.0, 2.0], [])],
        ("SGA, x", 2): [run([1.0], [1.0], []), run([1.0], [1.0], []), run([4.0], [1.0], [])],
    }  # fmt: skip
    trained.row("SGA, x", runs, "AT, beam 1", [["", texts[1]]], 2)  # an empty line of the first reference is one
    found = trained.row("SGA, x", runs, "AT, beam 1", [texts], 2)
    assert (found["sentences_per_s"], found["batch_sentences_per_s"]) == (2 / 3, 2.0)
    assert (found["speedup"], found["model_only_speedup"], found["batch_speedup"]) == (4.0, 2.0, 2.0)
    assert (found["p50"], found["p95"], found["bleu"], found["length_ratio"]) == (2.0, 2.0, 100.0, 1.0)
    assert (found["passes"], found["mean_passes"]) == ({"1": 1, "2": 1}, 1.5)


# ---- The plot. ----
