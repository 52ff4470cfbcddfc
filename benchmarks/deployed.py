"""What benchmarks of deployed models share: variants of an exported folder, and CTranslate2 made of a checkpoint."""

import json
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Tuple

from .systems import POSITIONS, Sizes


def variant(folder: Path, name: str, **search: Any) -> Path:
    """A folder of the same model, linked file by file, with other options of its search."""
    made = folder.with_name(f"{folder.name}-{name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for file in folder.iterdir():
        if file.name != "model.json":
            os.link(file, made / file.name)
    described = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    described["search"].update(search)
    (made / "model.json").write_text(json.dumps(described), encoding="utf-8")
    return made


def size(folder: Path) -> int:
    """Bytes of the files of a folder."""
    return sum(file.stat().st_size for file in folder.iterdir())


def ctranslate2_of(checkpoint: Path, data: Path, precision: str, threads: int, place: Path) -> Tuple[Any, int]:
    """CTranslate2's translator of a checkpoint, its weights stored in ``precision`` below ``place``, and its bytes on disk."""
    import ctranslate2

    import fairseq_plugins  # noqa: F401  (registers what the checkpoint's options may name)

    made = place / f"ctranslate2-{precision}"
    # Its loader asks for permission to read the configuration beside the tensors; the file is one's own.
    converter = ctranslate2.converters.FairseqConverter(str(checkpoint), str(data), unsafe_deserialization=True)
    if not made.exists():
        converter.convert(str(made), quantization=precision)
    opened = ctranslate2.Translator(
        str(made), device="cpu", compute_type=precision, intra_threads=threads, inter_threads=1
    )
    return opened, size(made)


def versions() -> Dict[str, str]:
    """What is compared, and what the processor has for 8-bit products."""
    found = {name: metadata.version(name) for name in ("onnxruntime", "ctranslate2")}
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    return {**found, "vnni": "yes" if "vnni" in flags else "no"}


def transformer_options(sizes: Sizes, decoder_layers: int) -> Dict[str, Any]:
    """Options of fairseq's transformer that :func:`systems.autoregressive` builds, as a checkpoint stores them."""
    found: Dict[str, Any] = {
        "share_all_embeddings": True,
        "share_decoder_input_output_embed": True,
        "activation_fn": "gelu",
    }
    for side, layers in (("encoder", sizes.layers), ("decoder", decoder_layers)):
        found.update(
            {
                f"{side}_layers": layers,
                f"{side}_embed_dim": sizes.width,
                f"{side}_ffn_embed_dim": 4 * sizes.width,
                f"{side}_attention_heads": sizes.heads,
                f"{side}_normalize_before": False,
                f"{side}_learned_pos": False,
            }
        )
    found.update({"max_source_positions": POSITIONS, "max_target_positions": POSITIONS, "left_pad_source": True})
    return found
