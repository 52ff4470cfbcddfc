"""The commands of a study's runs: trainings of assets and stages, averages, outputs."""

import math
import re
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .arms import Stage
from .studies import Job, Study
from .systems import RecipeError, command, read_system

EPOCHS = 1000
"""At most, where the limits do not say it."""
VALIDATIONS = 12
"""In a training of so many updates, where the limits do not say it."""
UPDATES = ("$updates", "$warmup")
"""Values of options that follow from the number of updates."""
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
"""How Linux says that a CPU multiplies faster in bfloat16 than in float32.

Intel's AVX512_BF16 without AMX is slower: 76 GFLOP/s against 115 were measured.
"""


def has_bfloat16() -> bool:
    """Whether this CPU multiplies faster in bfloat16 than in float32."""
    if not PROCESSOR.is_file():
        return False
    text = PROCESSOR.read_text(encoding="utf-8")
    return any(pattern.search(text) for pattern in BFLOAT16)


def options_of(device: str) -> Dict[str, Any]:
    """Options of every training and decoding on a device: ``cpu``, or ``cuda``, which needs none."""
    if device != "cpu":
        return {}
    return {"cpu": True} if has_bfloat16() else {"cpu": True, "bf16": None}


class Runs:
    """Commands for one folder, in which they run.

    Args:
        study: what is run.
        root: the checkout.
        data: folder of the raw files.
        more: options of every training and decoding, see :func:`options_of`.
    """

    def __init__(self, study: Study, root: Path, data: str, more: Mapping[str, Any]):
        self.study, self.more = study, more
        languages = ",".join(study.set["languages"])
        pairs = ",".join(study.set.get("pairs", ()))
        self.values: Dict[str, Any] = {"root": root, "data": data, "languages": languages, "pairs": pairs}
        self.word_lists: Dict[str, List[str]] = {}
        for name, value in study.values.items():
            items = value if isinstance(value, list) else [value]
            words = [Template(str(item)).substitute(self.values) for item in items]
            if isinstance(value, list):
                self.word_lists[name] = words
            self.values[name] = " ".join(words)
        splits = {name: scored_split(Path(data) / file) for name, file in study.set.get("scored", {}).items()}
        self.values.update(splits)
        self.scored = [
            f"{study.set['scored'][name]}: scored on {split}" for name, split in splits.items() if self._is_used(name)
        ]
        self.values.update({name: self.asset(name) for name in study.assets if not study.each_seed(name)})

    def fill(self, text: str, **own: Any) -> str:
        """Fill a path in: ``$root``, ``$data``, names of values and assets, and ``own``.

        Raises RecipeError: a name without a value.
        """
        return _substitute(text, {**self.values, **own})

    def _is_used(self, name: str) -> bool:
        """Return whether options of decoding in a direction of the study name a value."""
        pairs = [(arm, pair) for arm in self.study.arms for pair in self.study.directions]
        return any(f"${name}" in str(arm.options(stem, pair)) for arm, pair in pairs for stem in arm.outputs)

    def script(self, text: str, values: Optional[Mapping[str, Any]] = None) -> str:
        """Fill commands for bash in: each value is quoted as one word, each list as one word per item.

        Args:
            text: the commands. A ``$NAME`` must not stand within quotation marks of their own.
            values: name -> value (default: ``self.values``).

        Raises RecipeError: a name without a value.
        """
        quoted = {name: quote(str(value)) for name, value in (values or self.values).items()}
        quoted.update({name: " ".join(map(quote, words)) for name, words in self.word_lists.items()})
        return _substitute(text, quoted)

    # ---- Assets. ----

    def asset(self, name: str, seed: Optional[int] = None) -> str:
        """Path of an asset: given, made by its own commands, or trained and then a checkpoint or the folder of a masked LM.

        The seed counts where each has an asset of its own.
        """
        entry, place = self.study.assets[name], self.place(name, seed)
        if "system" not in entry:
            own = {"seed": seed} if self.study.each_seed(name) else {}
            return self.fill(entry.get("given", entry.get("makes", "")), **own)
        return f"assets/{place}" if self._is_masked_lm(name) else f"assets/{place}/model.pt"

    def place(self, name: str, seed: Optional[int] = None) -> str:
        """An asset in the names of folders: its name, and the seed where each has its own."""
        return f"{name}/seed{seed}" if self.study.each_seed(name) else name

    def trained(self) -> List[Tuple[str, Optional[int]]]:
        """The trainings of assets: name, and seed where each has its own."""
        names = [name for name, entry in self.study.assets.items() if "system" in entry]
        return [(name, seed) for name in names for seed in (self.study.seeds if self.study.each_seed(name) else [None])]

    def marker(self, name: str, seed: Optional[int] = None) -> str:
        """The file that says that an asset is there."""
        path = self.asset(name, seed)
        return f"{path}/config.json" if self._is_masked_lm(name) else path

    def _is_masked_lm(self, name: str) -> bool:
        entry = self.study.assets[name]
        return "system" in entry and read_system(entry["system"]).train["task"] == MASKED_LM

    def asset_training(self, name: str, seed: Optional[int] = None) -> str:
        """The command that trains an asset, in ``train/NAME``, or that of a seed, in ``train/NAME/seedN``."""
        entry = self.study.assets[name]
        system = read_system(entry["system"])
        source, _, target = entry.get("pair", self.study.directions[0]).partition("-")
        stage = Stage(system._replace(train={**system.train, **entry.get("train", {})}), entry.get("data", "bin"), None)
        seed_of_it = entry.get("seed", 1) if seed is None else seed
        values = {**self.values, "source": source, "target": target, "seed": seed_of_it}
        if "start" in entry:
            values["start"] = self.asset(entry["start"], seed)
        return training(stage, values, entry["limits"], f"train/{self.place(name, seed)}", self.more)

    def asset_command(self, name: str, seed: Optional[int] = None) -> str:
        """The command that makes the asset of its training: the average of one checkpoint has no hours of training in it."""
        entry, place = self.study.assets[name], self.place(name, seed)
        checkpoint = f"train/{place}/checkpoint_{entry.get('checkpoint', 'last')}.pt"
        if self._is_masked_lm(name):
            files = "--dict pieces/dict.txt --sentencepiece pieces/sentencepiece.bpe.model"
            export = f"python {quote(str(self.values['root']))}/examples/export_masked_lm.py"
            return f"{export} --checkpoint {quote(checkpoint)} {files} --output {quote(f'assets/{place}')}"
        average = f"python -m fairseq_plugins average --inputs {quote(checkpoint)}"
        dictionaries = f"{quote(self.fill(entry.get('data', 'bin')))}/dict*.txt"
        folder = quote(f"assets/{place}")
        return f"cp {dictionaries} {folder}/\n{average} --output {folder}/model.pt"

    # ---- Runs. ----

    def of(self, job: Job, part: str = "") -> Dict[str, Any]:
        """What ``$NAME`` stands for in the commands of a run, or in those for one of its languages, but for ``$start``."""
        source, _, target = job.pair.partition("-")
        own = {name: self.asset(name, job.seed) for name in self.study.assets if self.study.each_seed(name)}
        values = {**self.values, **own, "source": source, "target": target, "seed": job.seed}
        if job.arm.languages:
            trained = (part,) if part else job.arm.languages.trained
            values["pairs"] = ",".join(f"{one}-{target}" for one in trained)
            values["source"] = trained[0] if len(trained) == 1 else source
        return values

    def training(self, job: Job, number: int) -> str:
        """The command of a stage of a run, counted from 1; the last one has the run's own folder."""
        arm, stage = job.arm, job.arm.stage(number, job.pair)
        values = self.of(job, arm.parts[number - 1] if arm.parts else "")
        if number > 1 and not arm.parts:
            values["start"] = f"runs/{job.key}/start{number}.pt"
        elif arm.start:
            values["start"] = self.asset(arm.start, job.seed)
        options, limits = {**arm.grid[job.point], **self.more}, dict(stage.limits or job.limits)
        if job.phase == "final" and self.study.milestones:
            options["keep-interval-updates-pattern"] = math.gcd(*self.study.milestones)
        if arm.parts and "minutes" in limits:
            limits["minutes"] /= len(arm.parts)
        if arm.parts and "updates" in limits:
            limits["updates"] //= len(arm.parts)
        return training(stage, values, limits, self.folder(job, number), options)

    def folder(self, job: Job, number: int) -> str:
        """Where the checkpoints of a stage go, or of a language's own model."""
        if job.arm.parts:
            return f"runs/{job.key}/{job.arm.parts[number - 1]}"
        return f"runs/{job.key}" + (f"/stage{number}" if number < len(job.arm.stages) else "")

    def models(self, job: Job) -> Dict[str, str]:
        """Language -> the model that is decoded in the end; of all languages under the empty name."""
        return {part: f"averages/{job.key}{f'-{part}' if part else ''}.pt" for part in job.arm.parts or ("",)}

    def model(self, job: Job, stem: str) -> str:
        """The model of an output: of a run's end, or with ``STEM@UPDATES`` after so many updates."""
        if "@" in stem:
            return f"averages/{job.key}@{stem.partition('@')[2]}.pt"
        (model,) = self.models(job).values()
        return model

    def average(self, job: Job, part: str) -> str:
        """The command that makes one of them: a language's, or with ``@UPDATES`` the checkpoint after so many updates alone."""
        command = "python -m fairseq_plugins average"
        if part.startswith("@"):
            model = f"averages/{job.key}{part}.pt"
            inputs = f"{quote(f'runs/{job.key}')}/checkpoint_*_{quote(part[1:])}.pt"
            return f"{command} --inputs {inputs} --output {quote(model)}"
        folder = quote(f"runs/{job.key}" + (f"/{part}" if part else ""))
        chosen = f"--directory {folder} --best {job.arm.best} --allow-fewer"
        last = job.arm.stage(len(job.arm.stages), job.pair)
        if not last.system.train.get("keep-best-checkpoints"):
            chosen = f"--inputs {folder}/checkpoint_best.pt"
        return f"{command} {chosen} --output {quote(self.models(job)[part])}"

    def output(self, job: Job, stem: str) -> str:
        """The command that makes an output of a run, to stdout: fairseq-generate on the test set, fairseq-validate, or its own."""
        if stem in job.arm.scoring:
            values = {**self.of(job), "model": self.model(job, stem)}
            return f"{{ {self.script(job.arm.scoring[stem][1], values).strip()}; }}"
        last, options = job.arm.stage(len(job.arm.stages), job.pair), {**job.arm.options(stem, job.pair), **self.more}
        return decoding(last, self.model(job, stem), self.study.set.get("test"), self.of(job), options)

    def languages(self, job: Job, test: str) -> str:
        """The commands that translate a test from every language, and score them."""
        arm, pair = job.arm, job.pair
        last = arm.stage(len(arm.stages), pair)._replace(data=arm.languages.data)
        options, models = {**arm.options(test, pair), **self.more}, self.models(job)
        folder, lines, systems = f"runs/{job.key}/{test}", [], ""
        for language in (*arm.languages.trained, *arm.languages.zero_shot):
            log, errors, output = (quote(f"{folder}/{language}.{ending}") for ending in ("log", "err", "txt"))
            model = models[language if arm.parts else ""]
            decode = decoding(last, model, self.study.tests[test], self.of(job, language), options)
            lines.append(f"{decode} \\\n  >{log} 2>{errors} || {{ tail -n 20 {errors} >&2; exit 1; }}")
            lines.append(f"python -m data_prep.hypotheses --input {log} --output {output}")
            systems += f" --system {quote(language)}={output}"
        reference = self.study.references({"data": Path(self.values["data"]), "out": Path()}, pair, job.seed, test)
        given = (
            f"--reference {quote(str(reference))} --trained {quote(','.join(arm.languages.trained))}"
            f" --json {quote(f'outputs/{job.key}/{test}.json')}"
        )
        return "\n".join([f"mkdir -p {quote(folder)}", *lines, f"python -m data_prep.score_languages{systems} {given}"])


def _substitute(text: str, values: Mapping[str, Any]) -> str:
    try:
        return Template(text).substitute(values)
    except (KeyError, ValueError) as error:
        raise RecipeError(f"{text.strip()}: {error} has no value; valid: ${', $'.join(values)}") from error


def scored_split(path: Path) -> str:
    """Return ``test`` where the first line of a test file has a second column, its labels, else ``valid``."""
    if not path.is_file():
        return "valid"
    with open(path, encoding="utf-8", errors="replace") as file:
        first = next((line for line in file if line.strip()), "")
    return "test" if len(first.split()) > 1 else "valid"


def training(
    stage: Stage, values: Mapping[str, Any], limits: Mapping[str, Any], folder: str, more: Mapping[str, Any]
) -> str:
    """The command of a training.

    Args:
        stage: what is trained.
        values: what ``$NAME`` stands for: root, source, target, pairs, languages, seed, start …
        limits: ``minutes`` of wall time, ``updates`` or ``epochs``, ``interval`` of validations.
        folder: for checkpoints.
        more: options that come last, as the point of the grid.

    Raises RecipeError: a schedule over ``$updates`` where the limits have no updates.
    """
    updates = limits.get("updates")
    interval = limits.get("interval", max(1, updates // VALIDATIONS) if updates else 250)
    warmup = stage.system.warmup_updates(updates) if updates else stage.system.warmup_most
    given = {name: value for name, value in (("updates", updates), ("warmup", warmup)) if value is not None}
    given["epochs"] = limits.get("epochs", EPOCHS)
    options = {**stage.system.train, "save-dir": folder, **more}
    program = f"fairseq-train {quote(Template(stage.data).substitute(values))}"
    if updates is None and "epochs" in limits:
        program = f"python -m recipes.epochs {stage.system.warmup} {program}"
        unknown = UPDATES if "interval" in limits else (*UPDATES, "$interval")
        options = {name: None if value in unknown else value for name, value in options.items()}
    if updates is None and options.get("max-update") == "$updates":
        options["max-update"] = None
    if "minutes" in limits:
        options["stop-time-hours"] = f"{limits['minutes'] / 60:.4f}"
    values = {**values, **given, "interval": interval}
    return command(program, options, values)


def decoding(
    stage: Stage, model: str, subset: Optional[str], values: Mapping[str, Any], more: Mapping[str, Any]
) -> str:
    """The command that makes an output: fairseq-generate on the subset, or fairseq-validate; ``more`` comes last."""
    data = quote(Template(stage.data).substitute(values))
    if not stage.system.translate:
        return command(f"fairseq-validate {data}", {**stage.system.validate, "path": model, **more}, values)
    languages = {"source-lang": values["source"], "target-lang": values["target"], "gen-subset": subset, "path": model}
    return command(f"fairseq-generate {data}", {**stage.system.translate, **languages, **more}, values)
