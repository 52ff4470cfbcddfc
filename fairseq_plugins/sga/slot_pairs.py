"""Language pairs for models that fill slots: a batch has its lengths on the host as well."""

from typing import Any, Dict, List

import numpy as np
from fairseq.data import LanguagePairDataset

from ..ops.places import SOURCE_LENGTHS, TARGET_LENGTHS, source_lengths, target_lengths


class SlotPairs(LanguagePairDataset):
    """Stock pairs, with ``host_src_lengths`` and ``host_tgt_lengths``: a device tells its own only when it has done its work."""

    @classmethod
    def of(cls, dataset: LanguagePairDataset) -> "SlotPairs":
        """The same dataset with this collater."""
        made = cls.__new__(cls)
        made.__dict__.update(vars(dataset))
        return made

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        batch: Dict[str, Any] = super().collater(samples, **options)
        if batch:
            # Copied: a worker that sends the batch moves the memory of its tensors.
            batch[SOURCE_LENGTHS] = np.array(source_lengths(batch))
        if batch.get("target") is not None:
            batch[TARGET_LENGTHS] = np.array(target_lengths(batch, self.tgt_dict.pad(), self.tgt_dict.eos()))
        return batch
