"""Open a model folder of any kind."""

from pathlib import Path
from typing import Optional, Union

from .encoder import Encoder
from .folder import Folder
from .translator import Translator


def load(path: Union[str, Path], threads: Optional[int] = None) -> Union[Translator, Encoder]:
    """Open the model folder that ``fairseq-plugins export --format onnx`` wrote.

    Args:
        path: the folder.
        threads: threads of each pass; None = one per core.

    Returns:
        an Encoder for a folder of kind ``encoder``, else a Translator.

    Raises:
        ModelError: the folder cannot be used; the message names the reason.
    """
    folder = Folder(path, threads)
    return Encoder(folder) if folder.kind == "encoder" else Translator(folder)
