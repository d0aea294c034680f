"""A training that can kill its own process, shared by a test and the process that the test starts."""

import os
import signal
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset

from recuse.deep.two_heads import TwoHeads


class NoisyRows(Dataset):
    """Rows with random noise; reading one in a certain epoch may kill the process."""

    def __init__(self, dies_in_epoch=None):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(40, 6, generator=generator)
        self.y = 2 * self.x[:, 0] + self.x[:, 1].exp() * torch.randn(40, generator=generator)
        self.dies_in_epoch, self.epoch, self.read = dies_in_epoch, 0, 0

    def __len__(self):
        return len(self.y)

    def set_epoch(self, epoch):
        self.read = self.read if epoch == self.epoch else 0
        self.epoch = epoch

    def __getitem__(self, row):
        self.read += 1
        if self.epoch == self.dies_in_epoch and self.read == len(self) // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.x[row] + 0.1 * torch.randn(6), self.y[row]


def run(folder, dies_in_epoch=None):
    """Train for six epochs, with dropout, so that every random generator matters."""
    from recuse.deep.lightning import RejectionData, RejectionModule, Run, train

    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
    module = RejectionModule(TwoHeads(body, 8), cost=0.5, slow_start=2, learning_rate=1e-2)
    rows = RejectionData(NoisyRows(dies_in_epoch), NoisyRows(), batch_size=8, seed=1)
    place = None if folder is None else Path(folder)
    return module, train(module, rows, Run(6, seed=1, folder=place, trainer={"accelerator": "cpu"}))
