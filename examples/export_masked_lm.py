"""Write a trained masked LM as a Hugging Face folder, with its dictionary and pieces.

The folder holds an XLM-RoBERTa in half precision.
"""

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from fairseq_plugins import checkpoints


def export(checkpoint: Path, dictionary: Path, sentencepiece: Path, output: Path) -> str:
    """Write the folder, and return the fingerprint of its rounded weights.

    SGA checkpoints that are trained with this folder store the same fingerprint.

    Raises:
        ValueError: the checkpoint is not a masked LM of XLM-R's shape.
    """
    model = checkpoints.read_masked_lm(checkpoint)
    output.mkdir(parents=True, exist_ok=True)
    fingerprint = checkpoints.write_masked_lm(output, model.sizes, model.tensors, torch.float16)
    shutil.copyfile(dictionary, output / "dict.txt")
    shutil.copyfile(sentencepiece, output / "sentencepiece.bpe.model")
    return fingerprint


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--checkpoint", required=True, type=Path, help="fairseq checkpoint of an xlmr_mlm model"
    )
    parser.add_argument("--dict", required=True, type=Path, help="its dict.txt")
    parser.add_argument("--sentencepiece", required=True, type=Path, help="its sentencepiece model")
    parser.add_argument("--output", required=True, type=Path, help="folder to write")
    args = parser.parse_args()
    fingerprint = export(args.checkpoint, args.dict, args.sentencepiece, args.output)
    size = sum(path.stat().st_size for path in args.output.iterdir())
    print(f"{args.output}: fingerprint {fingerprint}, {size / 1e6:.1f} MB in all")


if __name__ == "__main__":
    main()
