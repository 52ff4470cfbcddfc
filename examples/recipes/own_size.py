"""Train at the size of a released model: read its sizes, then become the training.

python -m recipes.own_size FILE fairseq-train DATA …

The file is a DeltaLM, an mBART or a VECO in fairseq's layout, whose sizes replace those of the
options. Shapes do not show the heads: they are those that the file states, else as many as give 64
values per head, as in every released model of these papers.
"""

import os
import sys
from typing import Any, Dict, List, Mapping

HEAD_WIDTH = 64
"""Values per head of XLM-R, mBART, DeltaLM and VECO, base and large."""
POSITIONS = "embed_positions.weight"
PADDING_ROWS = 2
"""Rows of positions up to that of ``<pad>``, which no token has."""
MAX_POSITIONS = {"encoder": "--max-source-positions", "decoder": "--max-target-positions"}
STACK = "--keep-decoder-layers"
"""Option of a translator whose decoder is chosen from the encoder's layers: a VECO."""


def read_sizes(path: str) -> Dict[str, Dict[str, int]]:
    """Return side -> size -> value of a model in fairseq's layout.

    The sizes are layers, embed_dim, ffn_embed_dim, attention_heads and max_positions.

    Raises:
        ValueError: the file is unreadable, or has no encoder or decoder.
    """
    from fairseq_plugins.checkpoints.bart import read_deltalm
    from fairseq_plugins.checkpoints.opening import open_checkpoint

    checkpoint = open_checkpoint(path, "a DeltaLM, an mBART or a VECO in fairseq's layout")
    is_release = "weights" in checkpoint.entries  # embeddings have other names there
    tensors = read_deltalm(path).tensors if is_release else checkpoint.tensors
    return {side: _read_side(side, tensors, checkpoint) for side in ("encoder", "decoder")}


def _read_side(side: str, tensors: Mapping[str, Any], checkpoint: Any) -> Dict[str, int]:
    """Read the sizes of one side by the shapes of its first layer."""
    start = f"{side}.layers."
    numbers = {int(name[len(start) :].split(".")[0]) for name in tensors if name.startswith(start)}
    first = tensors.get(f"{start}{min(numbers, default=0)}.fc1.weight")
    if first is None:
        raise ValueError(f"{checkpoint.origin}: has no {start}N.fc1.weight; valid: a whole model")
    inner, width = first.shape
    positions = tensors.get(f"{side}.{POSITIONS}")
    if positions is None:
        raise ValueError(f"{checkpoint.origin}: has no {side}.{POSITIONS}; valid: learned ones")
    heads = checkpoint.options.get(f"{side}_attention_heads") or max(1, width // HEAD_WIDTH)
    return {
        "layers": len(numbers),
        "embed_dim": width,
        "ffn_embed_dim": inner,
        "attention_heads": int(heads),
        "max_positions": positions.size(0) - PADDING_ROWS,
    }


def size_options(sizes: Mapping[str, Mapping[str, int]], words: List[str]) -> List[str]:
    """Return the sizes as words of a command line.

    Args:
        sizes: side -> size -> value.
        words: the training. Layers of a decoder that is chosen from the stack are left out.
    """
    options = []
    for side, values in sizes.items():
        for size, value in values.items():
            if side == "decoder" and size == "layers" and STACK in words:
                continue
            name = f"--{side}-{size.replace('_', '-')}"
            options += [MAX_POSITIONS[side] if size == "max_positions" else name, str(value)]
    return options


def main() -> None:
    """Run the command."""
    path, words = sys.argv[1], sys.argv[2:]
    try:
        options = size_options(read_sizes(path), words)
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(f"own_size: {path}: {' '.join(options)}", file=sys.stderr, flush=True)
    os.execvp(words[0], [*words, *options])


if __name__ == "__main__":
    main()
