"""Opening a model folder of any kind."""

from pathlib import Path
from typing import Optional, Union

from .encoder import Encoder
from .folder import Folder
from .translator import Translator


def load(path: Union[str, Path], threads: Optional[int] = None) -> Union[Translator, Encoder]:
    """Open the model folder that ``fairseq-plugins export --format onnx`` wrote.

    Args:
        threads: of each pass; None: as many as the machine has cores.

    Returns a Translator, or an Encoder for a folder of kind ``encoder``. Raises ModelError: anything about the folder is wrong; the
    message names it.
    """
    folder = Folder(path, threads)
    return Encoder(folder) if folder.kind == "encoder" else Translator(folder)
