"""Small trainings on images, shared by tests and the processes that they start."""

import os
import signal

import numpy as np
import torch
from torch import nn

from recuse import RcRImageRegressor


def noisy_images(n_rows, seed=0):
    """The target is the brightness of the first channel, with much noise where the second channel is bright."""
    random = np.random.default_rng(seed)
    level, doubt = random.uniform(size=(2, n_rows))
    noise = random.normal(scale=8, size=(n_rows, 2, 8, 8))
    images = (40 + 175 * np.stack([level, doubt], axis=1)[:, :, None, None] + noise).clip(0, 255).astype(np.uint8)
    return images, 10 * level + np.where(doubt > 0.5, 3.0, 0.1) * random.normal(size=n_rows)


IMAGES, Y = noisy_images(60)
NEW, NEW_Y = noisy_images(40, seed=1)
COST = np.random.default_rng(2).uniform(0.2, 5, size=len(Y))


def tiny(channels):
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 16), nn.ReLU()), 16


def random_layers(channels):
    """A backbone whose training draws random numbers, and that has running statistics."""
    body, width = tiny(channels)
    return nn.Sequential(*body, nn.BatchNorm1d(width), nn.Dropout(0.3)), width


def make(**parameters):
    quick = {"backbone": tiny, "epochs": 3, "slow_start": 1, "batch_size": 16, "learning_rate": 1e-2}
    return RcRImageRegressor(**{"trainer": {"accelerator": "cpu"}, "random_state": 0, **quick, **parameters})


class NoisyRows(torch.utils.data.Dataset):
    """Rows with noise from torch's generator; reading one in a certain epoch may kill the process."""

    def __init__(self, dies_in_epoch=None):
        self.y, self.dies_in_epoch, self.epoch, self.read = Y, dies_in_epoch, 0, 0

    def __len__(self):
        return len(Y)

    def set_epoch(self, epoch):
        self.read = self.read if epoch == self.epoch else 0
        self.epoch = epoch

    def __getitem__(self, row):
        self.read += 1
        if self.epoch == self.dies_in_epoch and self.read == len(self) // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.from_numpy(IMAGES[row]) / 127.5 - 1 + 0.1 * torch.randn(2, 8, 8), Y[row]


def killed(folder, dies_in_epoch=None):
    """Fit for five epochs with random layers and rows, so that every random generator matters."""
    model = make(backbone=random_layers, epochs=5, checkpoint_dir=folder)
    return model.fit(NoisyRows(dies_in_epoch), validation=(NEW, NEW_Y))
