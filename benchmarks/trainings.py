"""Trainings of each method from nothing but the checkout: the toy corpus, random or shipped weights, and a command line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

import torch

from fairseq_plugins.checkpoints import write_masked_lm
from fairseq_plugins.masked_lm.model import MaskedLM, MaskedLMSizes

from .measure import say

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "examples" / "quickstart" / "masked_lm"
PRECISIONS: Dict[str, List[str]] = {"float32": [], "fp16": ["--fp16"], "bf16": ["--bf16"]}


class Size(NamedTuple):
    """How large the models and their data are.

    Attributes:
        vocab: symbols of the dictionary and ``<mask>``; those that the shipped one has not never occur. 0: the shipped one.
        sentences: of the corpus.
        text: longest corrupted text, in tokens.
        batch: options that set it.
        lr: highest learning rate.
        architectures: of each method.
    """

    vocab: int
    sentences: int
    text: int
    batch: str
    lr: float
    architectures: Dict[str, str]


SIZES = {
    "tiny": Size(
        vocab=0,
        sentences=2000,
        text=64,
        batch="--max-sentences 16",
        lr=1e-3,
        architectures=dict(sga="sga_tiny", deltalm="deltalm_tiny", veco="veco_tiny", transformer="transformer_tiny"),
    ),
    "base": Size(
        vocab=250002,
        sentences=20000,
        text=256,
        batch="--max-tokens 4096",
        lr=1e-4,
        architectures=dict(sga="sga_xlmr_base", deltalm="deltalm_base", veco="veco_base", transformer="mbart_base"),
    ),
}
STOCK = "--share-all-embeddings --dropout 0 --attention-dropout 0 --activation-dropout 0"
"""No dropout: its masks would differ from precision to precision. SGA has none by itself."""
LINES = {
    "sga": "--task sga_translation -s en -t de --criterion sga_ctc --pretrained-mlm {masked_lm}",
    "deltalm": f"""{STOCK} --task span_corruption --pairs en-de --monolingual en,de --add-sentinels 100 --tokens-per-sample {{text}}
        --criterion label_smoothed_linear_cross_entropy""",
    "veco": f"{STOCK} --task veco_pretraining --pairs en-de --criterion cross_sequence_mlm",
    "transformer": f"""{STOCK} --task translation -s en -t de --criterion label_smoothed_linear_cross_entropy
        --label-smoothing 0.1""",
}
"""By method: options of ``fairseq-train`` beside those that all have."""
COMMON = """--optimizer adam --adam-betas (0.9,0.98) --clip-norm 1.0 --lr-scheduler inverse_sqrt --seed 1 --num-workers 0
    --distributed-world-size 1 --disable-validation --no-save --log-format json --log-interval 1"""


def prepare(folder: Path, size: Size) -> None:
    """Make the data-bin, and the masked LM where the shipped one is too small. Made once."""
    marker = folder / "bin" / "manifest.json"
    if marker.is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    dictionary, masked_lm = SHIPPED / "dict.txt", _masked_lm(folder, size)
    if size.vocab:
        say(f"random masked LM, {size.vocab} symbols")
        dictionary = folder / "dict.txt"
        text = (SHIPPED / "dict.txt").read_text(encoding="utf-8")
        missing = size.vocab - 5 - text.count("\n")  # <s> <pad> </s> <unk> <mask>
        dictionary.write_text(text + "".join(f"<filler{number}> 1\n" for number in range(missing)), encoding="utf-8")
        torch.manual_seed(1)
        sizes = MaskedLMSizes(size.vocab, 12, 768, 3072, 12, 512)
        model = MaskedLM(sizes)
        model.reset_parameters()
        tensors = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
        masked_lm.mkdir(exist_ok=True)
        write_masked_lm(masked_lm, vars(sizes), tensors, dtype=torch.float16)
        (masked_lm / "dict.txt").write_bytes(dictionary.read_bytes())
    toy = f"-m data_prep.toy --out {folder}/text --train {size.sentences} --valid 10 --test 10 --langs en,de"
    pieces = f"--model {SHIPPED}/sentencepiece.bpe.model --dict {dictionary} --splits train --pairs en-de"
    preprocess = f"data_prep/preprocess.sh --text {folder}/text {pieces} --out {folder}/bin"
    for command in ([sys.executable, *toy.split()], ["bash", *preprocess.split()]):
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHON": sys.executable})


def _masked_lm(folder: Path, size: Size) -> Path:
    return folder / "masked_lm" if size.vocab else SHIPPED


def options(method: str, precision: str, size: Size, folder: Path, updates: int) -> List[str]:
    """What stands behind ``fairseq-train``; the first quarter of the updates is the warm-up. ``folder``: see :func:`prepare`."""
    line = LINES[method].format(masked_lm=_masked_lm(folder, size), text=size.text)
    rate = f"--lr {size.lr} --warmup-updates {warmup(updates)} --max-update {updates}"
    rate += f" --max-epoch {2 + updates // 50}"  # where no batch fits, fairseq-train skips all of them
    line = f"{folder}/bin {line} --arch {size.architectures[method]} {size.batch} {COMMON} {rate}"
    return [*line.split(), *PRECISIONS[precision]]


def warmup(updates: int) -> int:
    """Updates in which the learning rate rises."""
    return updates // 4
