"""DeltaLM: the release, with embeddings beside the sides, and this package's checkpoints."""

from ..opening import Checkpoint, open_checkpoint
from ..pretrained import PretrainedFile, convert_tensors
from ..reading import PathLike
from ..renaming import NameTable, stack_buffers, stack_renames
from ..vocabulary import DICTIONARY_NAME, entries_beside
from .bart import SIZE_OPTIONS, find_wiring

EXPECTED = (
    "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*; "
    "or a fairseq checkpoint"
)
_ENCODER, _DECODER = r"(?:encoder|src_embedding)\.", r"(?:decoder|tgt_embedding)\."
_LAYER = r"\.layers\.(\d+)\."
NAMES = NameTable(
    renames={
        **stack_renames(_ENCODER, "encoder."),
        **stack_renames(_DECODER, "decoder."),
        rf"(encoder|decoder){_LAYER}(ffn_layer_norm\.(?:weight|bias))": r"\1.layers.\2.\3",
        rf"encoder{_LAYER}ffn\.(fc1|fc2)\.(weight|bias)": r"encoder.layers.\1.\2.\3",
        # The bottom network of an interleaved decoder block is fc3, fc4, the top one fc1, fc2.
        rf"decoder{_LAYER}(?:ffn_1\.fc1|fc3)\.(weight|bias)": r"decoder.layers.\1.fc3.\2",
        rf"decoder{_LAYER}(?:ffn_1\.fc2|fc4)\.(weight|bias)": r"decoder.layers.\1.fc4.\2",
        rf"decoder{_LAYER}ffn_2\.(fc1|fc2)\.(weight|bias)": r"decoder.layers.\1.\2.\3",
        r"decoder\.output_projection\.weight": "decoder.output_projection.weight",
    },
    dropped={**stack_buffers(_ENCODER), **stack_buffers(_DECODER)},
)


def convert_encoder(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a DeltaLM whose encoder alone is needed."""
    model = convert_tensors(checkpoint, NAMES, SIZE_OPTIONS, EXPECTED, family="deltalm")
    find_wiring(model)
    return model


def read_deltalm(path: PathLike) -> PretrainedFile:
    """Read a whole DeltaLM, in the names of this package's model.

    Returns:
        the file; ``sizes`` are not filled in, for a released file does not tell its heads.

    Raises:
        CheckpointError: unreadable, or with tensors that are not accounted for.
    """
    model = convert_tensors(open_checkpoint(path, EXPECTED), NAMES, SIZE_OPTIONS, EXPECTED)
    model.name_rows(entries_beside(model.checkpoint.file), DICTIONARY_NAME)
    model.take({"encoder.": "encoder.", "decoder.": "decoder."}, "a DeltaLM")
    return model
