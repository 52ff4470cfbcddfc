"""Tell a model which file its next state comes from."""

from typing import Any

from .patch import Harm, Patch

STATE_FILES = Patch(
    name="state_files",
    harm=Harm.PAPER_BLOCKED,
    defect="a model is not told which file a state comes from, and tensors alone do not say "
    "whether VECO's layers and rows are still to be chosen",
)


@STATE_FILES.replace("fairseq.trainer:Trainer.load_checkpoint")
def load_checkpoint(stock: Any, trainer: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Write the path into a model that has an attribute ``state_file``."""
    model = trainer.get_model()
    if hasattr(model, "state_file"):
        model.state_file = filename
    return stock(trainer, filename, *args, **kwargs)
