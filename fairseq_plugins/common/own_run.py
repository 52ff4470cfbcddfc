"""Base class of tasks: which checkpoint a run continues, which criterions train the task."""

from typing import Any, Tuple

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.tasks import TASK_REGISTRY, FairseqTask


class OwnRun(FairseqTask):
    """Task whose runs may start from the checkpoint of another run.

    A subclass names this class before the stock task. ``fairseq_plugins.compat.own_runs`` reads
    the first two attributes.

    Attributes:
        counts_its_own_hours: ``--stop-time-hours`` counts the hours of this run alone. Stock
            fairseq adds the hours of the checkpoint that the run starts from.
        continues_its_own_run: a restarted run continues from its own ``checkpoint_last.pt``.
            Stock fairseq reads ``--restore-file`` again and trains from there.
        criterions: registered names of the criterions that train the task; empty means any.
    """

    counts_its_own_hours = True
    continues_its_own_run = False
    criterions: Tuple[str, ...] = ()

    def build_criterion(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the criterion.

        Raises:
            ValueError: a criterion of fairseq or of this package is not one of ``criterions``.
                Criterions of the user's own plugins are never refused.
        """
        name = getattr(cfg, "_name", None) or getattr(cfg, "criterion", None)
        criterion = CRITERION_REGISTRY.get(name)
        trainable = tuple(CRITERION_REGISTRY[criterion_name] for criterion_name in self.criterions)
        packages = ("fairseq", __name__.split(".")[0])
        is_known = criterion is not None and criterion.__module__.split(".")[0] in packages
        if trainable and is_known and not issubclass(criterion, trainable):
            raise ValueError(
                f"--criterion {name} with --task {registered_name(self)}: the task is trained with "
                f"--criterion {' or '.join(self.criterions)}"
            )
        return super().build_criterion(cfg, *args, **kwargs)


def registered_name(task: FairseqTask) -> str:
    """Return the registered name of a task's class; the name of the class if it has none."""
    names = (name for name, task_class in TASK_REGISTRY.items() if task_class is type(task))
    return next(names, type(task).__name__)
