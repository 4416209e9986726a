"""A GAN of the time of ``torch.cuda.FloatTensor`` and ``Variable``."""

from __future__ import annotations

import torch
from _everyday import data, settled
from torch import nn
from torch.autograd import Variable

cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if cuda else torch.LongTensor


def main() -> dict[str, object]:
    generator = settled(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 4)))
    discriminator = settled(nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid()))
    criterion = nn.BCELoss()
    if cuda:
        generator.cuda()
        discriminator.cuda()
        criterion.cuda()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-2, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-2, betas=(0.5, 0.999))
    losses = []
    for step in range(5):
        real = Variable(torch.from_numpy(data(16, 4, seed=step)).type(FloatTensor))
        valid = Variable(FloatTensor(real.size(0), 1).fill_(1.0), requires_grad=False)
        fake = Variable(FloatTensor(real.size(0), 1).fill_(0.0), requires_grad=False)
        noise = Variable(FloatTensor(data(16, 8, seed=100 + step)))
        optimizer_g.zero_grad()
        made = generator(noise)
        loss_g = criterion(discriminator(made), valid)
        loss_g.backward()
        optimizer_g.step()
        optimizer_d.zero_grad()
        loss_d = (criterion(discriminator(real), valid) + criterion(discriminator(made.detach()), fake)) / 2
        loss_d.backward()
        optimizer_d.step()
        losses.append([loss_g.item(), loss_d.data.cpu().numpy().item()])
    labels = LongTensor([0, 1, 2])
    assert labels.is_cuda == cuda
    assert labels.type() == ("torch.cuda.LongTensor" if cuda else "torch.LongTensor")
    assert isinstance(noise.data, FloatTensor)
    one_hot = FloatTensor(3, 3).zero_().scatter_(1, labels.view(-1, 1), 1)
    sample = generator(noise).view(-1, 2, 2).data.cpu()
    return {"losses": losses, "one hot": one_hot.tolist(), "sample": sample.numpy().transpose(0, 2, 1).tolist()}
