"""The commands of a study's runs: trainings of assets and stages, averages, outputs."""

import re
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .arms import Stage, make_stage
from .scored import choose_subsets
from .studies import Job, Study, slug
from .systems import RecipeError, System, command

EPOCHS = 1000
"""Largest number of epochs where the limits name none."""
VALIDATIONS = 12
"""Validations of a training of a given number of updates where the limits name no interval."""
INTERVAL = 250
"""Updates between validations where the limits name neither interval nor updates."""
UPDATES = ("$updates", "$warmup")
"""Values of options that follow from the number of updates."""
OWN_SIZE = "sizes-of"
"""Option of the recipes: path of a released model whose sizes the training takes."""
MASKED_LM = "tlm_pretraining"
"""Task of the assets that are exported as a folder."""

PROCESSOR = Path("/proc/cpuinfo")
BFLOAT16 = tuple(
    re.compile(pattern, re.DOTALL | re.MULTILINE)
    for pattern in (
        r"^flags\b[^\n]*\bamx_bf16\b",
        r"\bAuthenticAMD\b.*^flags\b[^\n]*\bavx512_bf16\b",
        r"^Features\b[^\n]*\bbf16\b",
    )
)
"""Patterns in ``/proc/cpuinfo`` of CPUs that multiply faster in bfloat16 than in float32.

Intel's AVX512_BF16 without AMX is slower: 76 GFLOP/s were measured, against 115 in float32.
"""


def has_bfloat16() -> bool:
    """Return True if this CPU multiplies faster in bfloat16 than in float32."""
    if not PROCESSOR.is_file():
        return False
    text = PROCESSOR.read_text(encoding="utf-8")
    return any(pattern.search(text) for pattern in BFLOAT16)


def options_of(device: str) -> Dict[str, Any]:
    """Return the options that every command needs on a device, ``cpu`` or ``cuda``."""
    if device != "cpu":
        return {}
    return {"cpu": True} if has_bfloat16() else {"cpu": True, "bf16": None}


class Runs:
    """Commands that run in the folder of a study.

    Args:
        study: what is run.
        root: the checkout.
        data: folder of the raw files.
        device_options: options of every training and decoding, see :func:`options_of`.

    Attributes:
        values: name -> what ``$NAME`` stands for in every command.
        word_lists: name -> words, of the values that are lists.
        scored: notes on which subsets are scored, for sets whose files decide it.
    """

    def __init__(self, study: Study, root: Path, data: str, device_options: Mapping[str, Any]):
        self.study, self.device_options = study, device_options
        languages, pairs = study.set["languages"], study.set.get("pairs", ())
        self.values: Dict[str, Any] = {
            "root": root,
            "data": data,
            "languages": ",".join(languages),
            "pairs": ",".join(pairs),
        }
        self.word_lists: Dict[str, List[str]] = {}
        for name, setting in study.values.items():
            items = setting if isinstance(setting, list) else [setting]
            words = [Template(str(item)).substitute(self.values) for item in items]
            if isinstance(setting, list):
                self.word_lists[name] = words
            self.values[name] = " ".join(words)
        self.scored: List[str] = []
        for name, entry in study.set.get("scored", {}).items():
            subsets = choose_subsets(name, Path(data), entry)
            self.values[f"{name}_subsets"] = subsets.names
            if self._is_used(f"{name}_subsets"):
                self.scored.append(subsets.note)
        for name in study.assets:
            if not study.each_seed(name):
                self.values[name] = self.asset(name)

    def fill(self, text: str, **more_values: Any) -> str:
        """Replace ``$NAME`` in a path by its entry in ``values`` or ``more_values``.

        Raises:
            RecipeError: a ``$NAME`` without a value.
        """
        return _substitute(text, {**self.values, **more_values})

    def _is_used(self, name: str) -> bool:
        """Return True if an output's options of decoding, in any direction, name a value."""
        for arm in self.study.arms:
            for pair in self.study.directions:
                if any(f"${name}" in str(arm.options(stem, pair)) for stem in arm.outputs):
                    return True
        return False

    def script(self, text: str, values: Optional[Mapping[str, Any]] = None) -> str:
        """Replace ``$NAME`` in commands for bash by one word, or for a list by one word per item.

        Args:
            text: the commands. A ``$NAME`` must not stand within quotation marks of their own.
            values: name -> value (default: ``self.values``).

        Raises:
            RecipeError: a ``$NAME`` without a value.
        """
        quoted = {name: quote(str(value)) for name, value in (values or self.values).items()}
        for name, words in self.word_lists.items():
            quoted[name] = " ".join(map(quote, words))
        return _substitute(text, quoted)

    # ---- Assets. ----

    def asset(self, name: str, seed: Optional[int] = None) -> str:
        """Return the path of an asset, whether it is given, made by commands, or trained.

        A trained asset is a checkpoint, or the folder of a masked LM.

        Args:
            name: of the asset.
            seed: of the run that uses it; ignored unless each seed has an asset of its own.
        """
        entry = self.study.assets[name]
        if "system" not in entry:
            seed_value = {"seed": seed} if self.study.each_seed(name) else {}
            return self.fill(entry.get("given", entry.get("makes", "")), **seed_value)
        folder = f"assets/{self.place(name, seed)}"
        return folder if self._is_masked_lm(name) else f"{folder}/model.pt"

    def place(self, name: str, seed: Optional[int] = None) -> str:
        """Return the subfolder of an asset: its name, and its seed if each seed has its own."""
        return f"{name}/seed{seed}" if self.study.each_seed(name) else name

    def trained(self) -> List[Tuple[str, Optional[int]]]:
        """List the trainings of assets: name, and seed where each has its own."""
        trainings: List[Tuple[str, Optional[int]]] = []
        for name, entry in self.study.assets.items():
            if "system" in entry:
                seeds = self.study.seeds if self.study.each_seed(name) else [None]
                trainings += [(name, seed) for seed in seeds]
        return trainings

    def marker(self, name: str, seed: Optional[int] = None) -> str:
        """Return the file that exists once an asset is finished."""
        path = self.asset(name, seed)
        return f"{path}/config.json" if self._is_masked_lm(name) else path

    def _is_masked_lm(self, name: str) -> bool:
        entry = self.study.assets[name]
        if "system" not in entry:
            return False
        stage = make_stage(entry, "", self.study.size)
        return bool(stage.system.train["task"] == MASKED_LM)

    def asset_training(self, name: str, seed: Optional[int] = None) -> str:
        """Build the command that trains an asset, in ``train/NAME`` or ``train/NAME/seedN``."""
        entry = self.study.assets[name]
        stage = make_stage(entry, entry.get("data", "bin"), self.study.size)
        source, _, target = self.study.directions[0].partition("-")
        values = {**self.values, "source": source, "target": target}
        values["seed"] = 1 if seed is None else seed
        if "start" in entry:
            values["start"] = self.asset(entry["start"], seed)
        folder = f"train/{self.place(name, seed)}"
        return training(stage, values, stage.limits or {}, folder, self.device_options)

    def asset_command(self, name: str, seed: Optional[int] = None) -> str:
        """Build the command that makes an asset of the checkpoint of its training.

        A masked LM is exported. Another model is averaged over its one checkpoint: the result
        has the same weights, without the training time that a checkpoint records.
        """
        entry, place = self.study.assets[name], self.place(name, seed)
        checkpoint = f"train/{place}/checkpoint_{entry.get('checkpoint', 'last')}.pt"
        if self._is_masked_lm(name):
            files = "--dict pieces/dict.txt --sentencepiece pieces/sentencepiece.bpe.model"
            export = f"python {quote(str(self.values['root']))}/examples/export_masked_lm.py"
            output = quote(f"assets/{place}")
            return f"{export} --checkpoint {quote(checkpoint)} {files} --output {output}"
        average = f"python -m fairseq_plugins average --inputs {quote(checkpoint)}"
        dictionaries = f"{quote(self.fill(entry.get('data', 'bin')))}/dict*.txt"
        folder = quote(f"assets/{place}")
        return f"cp {dictionaries} {folder}/\n{average} --output {folder}/model.pt"

    # ---- Runs. ----

    def of(self, job: Job) -> Dict[str, Any]:
        """Return name -> what ``$NAME`` stands for in the commands of a run, without ``$start``."""
        source, _, target = job.pair.partition("-")
        values = {**self.values, "source": source, "target": target, "seed": job.seed}
        for name in self.study.assets:
            if self.study.each_seed(name):
                values[name] = self.asset(name, job.seed)
        return values

    def training(self, job: Job, number: int) -> str:
        """Build the command of a stage of a run, counted from 1."""
        arm, stage, values = job.arm, job.arm.stage(number, job.pair), self.of(job)
        if number > 1:
            values["start"] = f"runs/{job.key}/start{number}.pt"
        elif arm.start:
            values["start"] = self.asset(arm.start, job.seed)
        options = {**arm.grid[job.point], **self.device_options}
        folder = self.folder(job, number)
        return training(stage, values, stage.limits or job.limits, folder, options)

    def folder(self, job: Job, number: int) -> str:
        """Return the folder of a stage's checkpoints; the last stage has the run's own."""
        return f"runs/{job.key}" + (f"/stage{number}" if number < len(job.arm.stages) else "")

    def model(self, job: Job) -> str:
        """Return the path of the model that is decoded."""
        return f"averages/{job.key}.pt"

    def average(self, job: Job) -> str:
        """Build the command that makes the model of a run's checkpoints."""
        folder = quote(f"runs/{job.key}")
        last_stage = job.arm.stage(len(job.arm.stages), job.pair)
        if last_stage.system.train.get("keep-best-checkpoints"):
            checkpoints = f"--directory {folder} --best {job.arm.best} --allow-fewer"
        elif job.arm.best > 1:
            checkpoints = f"--directory {folder} --last {job.arm.best} --by updates"
        else:
            checkpoints = f"--inputs {folder}/checkpoint_best.pt"
        average = "python -m fairseq_plugins average"
        return f"{average} {checkpoints} --output {quote(self.model(job))}"

    def output(self, job: Job, stem: str) -> str:
        """Build the command that writes an output of a run to stdout.

        It is fairseq-generate on the test set, fairseq-validate, or the output's own command.
        """
        if stem in job.arm.scoring:
            values = {**self.of(job), "model": self.model(job)}
            return f"{{ {self.script(job.arm.scoring[stem][1], values).strip()}; }}"
        stage = job.arm.stage(len(job.arm.stages), job.pair)
        data = quote(Template(stage.data).substitute(self.of(job)))
        options = {**job.arm.options(stem, job.pair), **self.device_options}
        task = {"path": self.model(job)}
        if not stage.system.translate:
            program, defaults = f"fairseq-validate {data}", stage.system.validate
        else:
            program, defaults = f"fairseq-generate {data}", stage.system.translate
            source, _, target = job.pair.partition("-")
            subset = self.study.set.get("test")
            task.update({"source-lang": source, "target-lang": target, "gen-subset": subset})
        values = {**self.of(job), "predictions": self.predictions(job)}
        return command(program, {**defaults, **task, **options}, values)

    def predictions(self, job: Job) -> str:
        """Return the folder of a run's predictions; those of an arm and seed lie side by side."""
        return f"predictions/{slug(job.arm.name)}-{job.point}/seed{job.seed}/{job.pair}"


def _substitute(text: str, values: Mapping[str, Any]) -> str:
    try:
        return Template(text).substitute(values)
    except (KeyError, ValueError) as error:
        valid = f"${', $'.join(values)}"
        raise RecipeError(f"{text.strip()}: {error} has no value; valid: {valid}") from error


def training(
    stage: Stage,
    values: Mapping[str, Any],
    limits: Mapping[str, Any],
    folder: str,
    more_options: Mapping[str, Any],
) -> str:
    """Build the command of a training.

    Args:
        stage: what is trained.
        values: what ``$NAME`` stands for: root, source, target, pairs, languages, seed, start …
        limits: ``minutes`` of wall time, ``updates`` or ``epochs``, ``interval`` of validations.
        folder: for checkpoints.
        more_options: options that come last, as the point of the grid.

    Raises:
        RecipeError: a schedule over ``$updates`` where the limits have no updates.
    """
    updates, system = limits.get("updates"), stage.system
    options = {**system.train, "save-dir": folder, **more_options}
    program = f"fairseq-train {quote(Template(stage.data).substitute(values))}"
    pretrained = options.pop(OWN_SIZE, None)
    is_scheduled = any(
        option in UPDATES for name, option in options.items() if name != "max-update"
    )
    if updates is None and "epochs" in limits and is_scheduled:
        program = f"python -m recipes.epochs {system.warmup} {program}"
    if pretrained:
        program = f"python -m recipes.own_size {quote(_substitute(pretrained, values))} {program}"
    if updates is None and "epochs" in limits:
        unknown = UPDATES if "interval" in limits else (*UPDATES, "$interval")
        options = {name: None if value in unknown else value for name, value in options.items()}
    if updates is None and options.get("max-update") == "$updates":
        options["max-update"] = None
    if "minutes" in limits:
        options["stop-time-hours"] = f"{limits['minutes'] / 60:.4f}"
    return command(program, options, {**values, **_count_updates(system, limits)})


def _count_updates(system: System, limits: Mapping[str, Any]) -> Dict[str, Any]:
    """Return name -> value of ``$updates``, ``$warmup``, ``$epochs`` and ``$interval``."""
    updates = limits.get("updates")
    warmup = system.warmup_updates(updates) if updates else system.warmup_most
    interval = max(1, updates // VALIDATIONS) if updates else INTERVAL
    counts = {"updates": updates, "warmup": warmup, "epochs": limits.get("epochs", EPOCHS)}
    counts["interval"] = limits.get("interval", interval)
    return {name: count for name, count in counts.items() if count is not None}
