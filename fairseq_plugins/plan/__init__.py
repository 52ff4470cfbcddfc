"""``python -m fairseq_plugins plan``: what a training needs of memory, before it runs.

The training step itself is run, fairseq's trainer with model, criterion and optimizer, but its weights have no values and take no
memory (:mod:`.valueless`); what would be held is counted, storage by storage (:mod:`.live`).
"""
