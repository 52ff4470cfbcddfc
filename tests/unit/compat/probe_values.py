"""Probes of wrong values in silence and of late errors: beams, validation BLEU, shards, NaN, options. Used by ``probes.py``."""

from typing import Any, List

import fairseq_cli.generate
import fairseq_cli.preprocess
from probe_base import USER_DIR, at, attempt, command, is_off, load_user_dir, train

MBART = ("--arch", "mbart_base", "--dropout", 0, "--max-source-positions", 64, "--max-target-positions", 64)
BLEU = ("--eval-bleu", "--eval-bleu-args")


def mbart(name: str, *arguments: Any) -> dict:
    """The checkpoint of a tiny mBART with one dictionary for both sides."""
    if not at("joined").exists():
        texts = ("--trainpref", at("../train"), "--validpref", at("../valid"), "--joined-dictionary")
        command(fairseq_cli.preprocess.cli_main, "-s", "de", "-t", "en", *texts, "--destdir", at("joined"))
    return train(at(name), *MBART, *arguments, data="joined")


def beam_size() -> dict:
    """Greatest difference that BLEU of a beam search in validation makes to what a tiny mBART learns in one epoch."""
    plain = mbart("plain", "--max-epoch", 1)["model"]
    scored = mbart("scored", "--max-epoch", 1, *BLEU, '{"beam": 2, "max_len_b": 3}')["model"]
    return {"difference": max(float((plain[name] - scored[name]).abs().max()) for name in plain)}


def validation_text() -> dict:
    """BLEU of a tiny mBART that has learned nothing, by the task that ends every row with its language."""
    task = ("--task", "translation_from_pretrained_bart", "--langs", "de,en", "--best-checkpoint-metric", "bleu")
    state = mbart("mbart", "--max-update", 1, *task, *BLEU, '{"beam": 1, "max_len_b": 3}')
    return {"bleu": state["extra_state"]["val_loss"]}


def generation_shards() -> dict:
    """Sentences that each of two parts decodes, of 20 in 5 batches."""

    def decoded(shard: int) -> List[int]:
        output = command(
            fairseq_cli.generate.cli_main,
            *(
                at("bin"),
                "--user-dir",
                USER_DIR,
                "--path",
                at("model") / "checkpoint_last.pt",
                "--cpu",
                "--batch-size",
                4,
            ),
            *("--gen-subset", "valid", "--max-len-b", 3, "--beam", 1, "--num-shards", 2, "--shard-id", shard),
        )
        return [int(line.split("\t")[0][2:]) for line in output.splitlines() if line.startswith("H-")]

    return {"parts": [decoded(shard) for shard in range(1 if is_off("generation_shards") else 2)]}


def empty_batches() -> dict:
    """What a task that validates with a checkpoint makes of the empty batch that one of several processes gets."""
    from fairseq import checkpoint_utils

    load_user_dir()
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(at("model") / "checkpoint_last.pt")])
    criterion = task.build_criterion(cfg.criterion)
    return {"found": attempt(lambda: task.valid_step({}, models[0], criterion))}


def nan_gradients() -> dict:
    """How a training ends whose parameters are no numbers any more."""

    def ending() -> str:
        try:
            train(at("nan"), "--max-epoch", 1, "--lr", 1e30)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    return {"ending": ending()}


def early_errors() -> dict:
    """What is said about a criterion of another task, a GPU's precision on CPU, missing data, and joining pieces twice."""

    def generated(*more: Any) -> str:
        output = ("--path", at("model") / "checkpoint_last.pt", "--cpu", "--gen-subset", "valid", "--max-len-b", 3)
        return command(fairseq_cli.generate.cli_main, "bin", "--user-dir", USER_DIR, *output, *more)[:9]

    def from_pretrained(data: str) -> str:
        from fairseq.models.transformer import TransformerModel

        return str(type(TransformerModel.from_pretrained(str(at("model")), "checkpoint_last.pt", data)))

    save = at("early")
    bpe = ("--bpe", "sentencepiece", "--remove-bpe")
    return {
        "criterion": attempt(lambda: bool(train(save, "--max-update", 1, "--criterion", "sga_ctc"))),
        "fp16": attempt(lambda: bool(train(save, "--max-update", 1, "--fp16"))),
        "data": attempt(lambda: bool(train(save, "--max-update", 1, data="absent"))),
        "bpe": attempt(lambda: generated(*bpe)),
        "pretrained": attempt(lambda: from_pretrained("absent")),
    }
