"""Helpers of the learning tests: sentences of a word-for-word code, and a short training run."""

import torch


def words(count, seed, kinds):
    """Draw sentences of two to five different words, numbers below ``kinds``."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 6, (count,), generator=generator).tolist()
    return [torch.randperm(kinds, generator=generator)[:length] for length in lengths]


def unseen(train, test):
    """Return the pairs of ``test`` whose source is not in ``train``."""
    sources = {tuple(source.tolist()) for source, _ in train}
    return [pair for pair in test if tuple(pair[0].tolist()) not in sources]


def fit(model, loss_of, updates, rate):
    """Train the parameters with a gradient; ``loss_of(update)`` is the loss. Returns the losses."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=updates)
    losses = []
    model.train()
    for update in range(updates):
        loss = loss_of(update)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def fit_criterion(model, criterion, next_sample, updates, rate):
    """Train with the loss per unit of a criterion on ``next_sample(update)``."""

    def loss(update):
        total, size, _ = criterion(model, next_sample(update))
        return total / size

    return fit(model, loss, updates, rate)
