"""Probes that train: resuming, restarting, mBART, bf16, errors of loading, old option names. Used by ``probes.py``."""

import fcntl
import gc
import io
import multiprocessing
import re
import shutil
import sys
from typing import Any, List

import fairseq_cli.generate
import fairseq_cli.hydra_train
import fairseq_cli.interactive
import fairseq_cli.train
import torch
from fairseq import checkpoint_utils, options
from probe_base import RUN, USER_DIR, at, attempt, command, is_off, read, train


def epoch_resume() -> dict:
    """Greatest difference between the parameters of 2 epochs in one run, and of the second one resumed after the first.

    Also the difference that a data-loading worker makes to noise which depends on the epoch, how many workers are left
    after 3 epochs, and what the option is when left alone and when given, on the command line and in hydra runs.
    """
    whole = train(at("whole"), "--max-epoch", 2)
    (at("parts")).mkdir()
    shutil.copy(at("whole") / "checkpoint1.pt", at("parts") / "checkpoint_last.pt")
    checkpoint_utils.save_checkpoint.__dict__.pop("best", None)
    parts = train(at("parts"), "--max-epoch", 2)
    assert parts["extra_state"]["train_iterator"] == whole["extra_state"]["train_iterator"]
    gc.disable()
    arguments = [str(at("bin")), "--arch", "transformer", "--update-epoch-batch-itr", "False"]
    given = options.parse_args_and_arch(options.get_training_parser(), arguments)
    overrides = [] if is_off("epoch_resume") else [[], ["dataset.update_epoch_batch_itr=false"]]
    return {
        "difference": _difference(whole["model"], parts["model"]),
        "noise": _difference(_train_masked(workers=0), _train_masked(workers=1)),
        "workers": len(multiprocessing.active_children()),  # before any collection that might come by chance
        "option": [whole["cfg"]["dataset"]["update_epoch_batch_itr"], given.update_epoch_batch_itr],
        "hydra": [hydra_train(*some)["cfg"]["dataset"]["update_epoch_batch_itr"] for some in overrides],
    }


def _train_masked(workers: int) -> dict:
    """Three epochs of a tiny masked LM, whose masks depend on the epoch. Returns the parameters."""
    save_dir = at(f"masked{workers}")
    widths = [f"--encoder-{name}={value}" for name, value in (("layers", 1), ("embed-dim", 8), ("ffn-embed-dim", 8))]
    command(
        fairseq_cli.train.cli_main,
        *(at("mono"), "--user-dir", USER_DIR, "--save-dir", save_dir, *RUN, "--num-workers", workers),
        *("--task", "masked_lm", "--criterion", "masked_lm", "--mask-prob", 0.5, "--tokens-per-sample", 16),
        *("--sample-break-mode", "complete", "--max-epoch", 3, "--disable-validation"),
        *("--arch", "roberta_base", "--encoder-attention-heads", 1, *widths),
    )
    return read(save_dir / "checkpoint_last.pt")["model"]


def _difference(one: dict, other: dict) -> float:
    """Greatest difference between two models' tensors, but for 0.12.2's placeholders and second copies of weights."""
    unused = re.compile(r"_float_tensor$|layers\.\d+\.(in_proj|out_proj|fc\d)_(weight|bias)$")
    return max(float((one[name] - other[name]).abs().max()) for name in one if not unused.search(name))


def hydra_train(*overrides: str) -> dict:
    """``fairseq-hydra-train`` for one update of a tiny language model. Returns the checkpoint."""
    save_dir = at(f"hydra{len(overrides)}")
    widths = [f"model.decoder_{name}=8" for name in ("embed_dim", "input_dim", "output_dim", "ffn_embed_dim")]
    command(
        fairseq_cli.hydra_train.cli_main,
        *("task=language_modeling", f"task.data={at('mono')}", "criterion=cross_entropy", "lr_scheduler=fixed"),
        *("model=transformer_lm", "model.decoder_layers=1", "model.decoder_attention_heads=1", *widths),
        *("optimizer=adam", "optimization.lr=[0.01]", "optimization.max_update=1", "dataset.batch_size=4"),
        *("common.cpu=true", f"common.user_dir={USER_DIR}", "dataset.num_workers=0"),
        *(f"checkpoint.save_dir={save_dir}", f"hydra.run.dir={save_dir}", *overrides),
    )
    return read(save_dir / "checkpoint_last.pt")


def mbart_task() -> dict:
    """Fine-tune a tiny mBART and decode with it, from files and interactively."""
    task = ["--task", "translation_from_pretrained_bart", "--langs", "de,en"]
    train(at("mbart"), "--max-update", 1, *task, "--share-decoder-input-output-embed")
    model = [*task, "--user-dir", USER_DIR, "--path", at("mbart") / "checkpoint_last.pt", "--cpu", "--beam", 1]
    model += ["--source-lang", "de", "--target-lang", "en", "--max-len-b", 3]
    output = command(fairseq_cli.generate.cli_main, at("bin"), *model, "--gen-subset", "valid")
    sys.stdin = io.StringIO("a b\n")
    interactive = command(fairseq_cli.interactive.cli_main, at("bin"), *model)
    return {"decoded": output.count("\nH-"), "interactive": interactive.count("\nH-")}


def mbart_languages() -> dict:
    """Start from, go on with and decode a tiny mBART with the languages in another order."""
    task = ["--task", "translation_from_pretrained_bart", "--share-decoder-input-output-embed", "--langs"]
    train(at("order"), "--max-update", 1, *task, "de,en")
    tuned = ["--finetune-from-model", at("order") / "checkpoint_last.pt", *task]
    decode = [
        at("bin"),
        "--user-dir",
        USER_DIR,
        "--path",
        at("order") / "checkpoint_last.pt",
        "--cpu",
        "--beam",
        1,
        "--gen-subset",
    ]
    decode += ["valid", "--max-len-b", 3, "-s", "de", "-t", "en", task[0], task[1], "--langs"]
    return {
        "started": attempt(lambda: bool(train(at("tuned"), "--max-update", 1, *tuned, "en,de"))),
        "same": attempt(lambda: bool(train(at("same"), "--max-update", 1, *tuned, "de,en"))),
        "lacking": attempt(lambda: bool(train(at("lacking"), "--max-update", 1, *task, "de"))),
        "resumed": attempt(lambda: bool(train(at("order"), "--max-update", 2, *task, "en,de"))),
        "decoded": attempt(lambda: "\nH-" in command(fairseq_cli.generate.cli_main, *decode, "en,de")),
        "decoded_same": attempt(lambda: "\nH-" in command(fairseq_cli.generate.cli_main, *decode, "de,en")),
    }


def raw_sentences() -> dict:
    """What fairseq-interactive makes of an empty line and of one that is too long."""

    def answers(text: str, *arguments: Any) -> dict:
        sys.stdin = io.StringIO(text)
        common = [at("bin"), "--user-dir", USER_DIR, "--path", at("model") / "checkpoint_last.pt", "--cpu", "--beam", 1]
        common += ["-s", "de", "-t", "en", "--max-len-b", 3, "--max-source-positions", 4]
        lines = command(fairseq_cli.interactive.cli_main, *common, *arguments).splitlines()
        return {line.split("\t")[0]: line.split("\t")[-1] for line in lines if line[:2] in ("S-", "H-")}

    return {
        "empty": attempt(lambda: answers("\na b\n \n", "--buffer-size", 3, "--batch-size", 3)),
        "cut": attempt(lambda: answers("a b c d e\n", "--truncate-source")),
        "long": attempt(lambda: answers("a\nb\na b c d e\n")),
    }


def validation_progress() -> dict:
    """What is logged between the batches of a validation, when each takes longer than the time between two reports."""
    from fairseq_plugins.compat import validation_progress as patch

    patch.REPORT_SECONDS = 0.0
    found: List[str] = []
    patch.logger.info = lambda text, *values: found.append(text % values)  # type: ignore[method-assign,assignment]
    train(at("told"), "--max-epoch", 1, "--log-format", "json")
    return {"told": [line.split(" in ")[0] for line in found]}


def bf16() -> dict:
    """Whether parameters trained with --bf16 are bfloat16 numbers (fairseq saves them as float32)."""
    state = train(at("bf16"), "--max-epoch", 1, "--bf16")
    rounded = [bool(torch.equal(tensor, tensor.bfloat16().float())) for tensor in state["model"].values()]
    return {"bfloat16": all(rounded), "updates": state["optimizer_history"][-1]["num_updates"]}


def checkpoint_errors() -> dict:
    """What a user reads when the model's own load_state_dict refuses a checkpoint."""
    from fairseq.models.transformer import TransformerModel

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise ValueError("trained on another frozen model")

    TransformerModel.load_state_dict = refuse
    return {"shown": attempt(lambda: train(at("model"), "--max-epoch", 2))}


def own_run() -> dict:
    """Runs that start from a file with everything reset, stopped after 2 updates and started again unchanged, until 4.

    Each gives how many runs its history names, its updates, and where in the data it stopped: ``light`` saves no optimizer,
    ``whole`` does.
    """
    from fairseq.tasks.translation import TranslationTask

    resets = [f"--reset-{name}" for name in ("optimizer", "lr-scheduler", "meters", "dataloader")]
    start = ["--restore-file", at("model") / "checkpoint_last.pt", *resets]
    TranslationTask.continues_its_own_run = True
    found = {}
    for name in ["light"] if is_off("own_run") else ["light", "whole"]:
        more = ["--no-save-optimizer-state"] if name == "light" else []
        for updates in (2, 4):
            checkpoint_utils.save_checkpoint.__dict__.pop("best", None)
            state = train(at(name), "--max-update", updates, *start, *more)
        place = state["extra_state"]["train_iterator"]
        history = state["optimizer_history"]
        found[name] = [len(history), history[-1]["num_updates"], place["epoch"], place["iterations_in_epoch"]]
    return found


def training_time() -> dict:
    """Updates of a run of one hour at most that starts from a model which was trained for days, and its own hours."""
    path = at("model") / "long.pt"
    content = torch.load(at("model") / "checkpoint_last.pt", weights_only=False)
    content["extra_state"]["previous_training_time"] = 1e6
    torch.save(content, path)
    start = ["--finetune-from-model", path, "--stop-time-hours", 1]
    state = train(at("timed"), "--max-update", 2, *start)
    return {"updates": state["optimizer_history"][-1]["num_updates"]}


def missing_start() -> dict:
    """Start from files that are not there, and from a folder."""
    return {
        "--restore-file": attempt(
            lambda: len(train(at("one"), "--max-update", 1, "--restore-file", at("none.pt"))) > 0
        ),
        "--finetune-from-model": attempt(
            lambda: len(train(at("two"), "--max-update", 1, "--finetune-from-model", at("bin"))) > 0
        ),
    }


def finished_runs() -> dict:
    """Updates of runs that have ended, and after they were started again unchanged, by what ended them."""
    ends = {"update": ["--max-update", 2], "patience": ["--patience", 1, "--lr", 0, "--max-epoch", 9]}
    found = {}
    for name, given in ends.items():
        found[name] = []
        for _ in range(2):
            fairseq_cli.train.should_stop_early.__dict__.clear()  # as in a new process
            checkpoint_utils.save_checkpoint.__dict__.pop("best", None)
            state = train(at(name), *given)
            found[name].append(state["optimizer_history"][-1]["num_updates"])
    return found


def folder_lock() -> dict:
    """Train into a folder that another run holds; and what becomes of a file of the user's in a folder."""
    for name in ("held", "own"):
        at(name).mkdir()
    (at("own") / "dummy").touch()
    with open(at("held") / ".training.lock", "w") as file:  # a second descriptor: as of another process
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("process 17")
        file.flush()
        held = attempt(lambda: len(train(at("held"), "--max-update", 1)) > 0)
        unsaved = attempt(lambda: len(train(at("held"), "--max-update", 1, "--no-save")) > 0)
    state = train(at("held"), "--max-update", 2)
    train(at("own"), "--max-update", 1)
    return {
        "held": held,
        "unsaved": unsaved,
        "after": state["optimizer_history"][-1]["num_updates"],
        "dummy": (at("own") / "dummy").exists(),
    }


def renamed_options() -> dict:
    """What --min-lr sets, alone and where the schedule has such an option itself, and how --sacrebleu scores."""
    found = {}
    for scheduler in ("fixed", "cosine"):
        line = [str(at("bin")), "--user-dir", USER_DIR, "--arch", "transformer", "--lr-scheduler", scheduler]
        sys.argv = ["command", *line, "--min-lr=0.5"]
        try:
            parser = options.get_training_parser()  # imports the user dir
            args = options.parse_args_and_arch(parser, sys.argv[1:])
            found[scheduler] = [args.stop_min_lr, getattr(args, "min_lr", None)]
        except SystemExit:
            found[scheduler] = "refused"
    output = command(
        fairseq_cli.generate.cli_main,
        *(at("bin"), "--user-dir", USER_DIR, "--path", at("model") / "checkpoint_last.pt", "--cpu"),
        *("--gen-subset", "valid", "--max-len-b", 3, "--beam", 1, "--sacrebleu"),
    )
    return {**found, "score": re.findall(r"BLEU4? =", output)}
