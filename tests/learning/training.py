"""What tests of learning share: sentences of a word-for-word code, and a short training run."""

import torch


def words(count, seed, kinds):
    """Sentences of two to five different words, numbers below ``kinds``."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 6, (count,), generator=generator).tolist()
    return [torch.randperm(kinds, generator=generator)[:length] for length in lengths]


def unseen(train, test):
    """The pairs of ``test`` whose source ``train`` lacks."""
    known = {tuple(source.tolist()) for source, _ in train}
    return [pair for pair in test if tuple(pair[0].tolist()) not in known]


def fit(model, loss_of, updates, rate):
    """Train what has a gradient; ``loss_of`` gets the number of the update. Returns the losses."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate, betas=(0.9, 0.98))
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
