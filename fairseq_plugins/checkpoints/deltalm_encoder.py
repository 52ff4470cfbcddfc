"""The encoder of a DeltaLM."""

import re
from dataclasses import replace

from .deltalm import LAYOUT, deltalm_sizes
from .encoder_decoder import stock_wiring
from .encoder_languages import stock_languages
from .pipeline import Content, PretrainedFile

_NAMES = re.compile(r"(?:src|tgt)_embedding\..*|decoder\.layers\.\d+\.(?:fc3|ffn_1\.fc1)\..*")


def _is_deltalm(content: Content) -> bool:
    named = content.arch.startswith("deltalm") or any(_NAMES.fullmatch(name) for name in content.tensors)
    return not content.is_folder and ("weights" in content.entries or named)


def _settle_encoder(content: Content, found: PretrainedFile) -> None:
    deltalm_sizes(found.renamed, content.origin)
    found.renamed.discard_all("decoder.", "decoder, unused by an encoder")
    found.renamed.move("encoder.", "")
    found.wiring = {"family": "deltalm", **stock_wiring(content, found.tensors, {})}
    found.stated_languages = stock_languages(content.entries, content.options, "__{}__")


ENCODERS = (replace(LAYOUT, recognised=_is_deltalm, settle=_settle_encoder),)
