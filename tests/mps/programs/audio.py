"""Audio: spectrograms and back, complex numbers, filters."""

from __future__ import annotations

import torch
from _everyday import data, settled
from torch import nn


def main() -> dict[str, object]:
    wave = torch.from_numpy(data(2, 400)).cuda()
    window = torch.hann_window(64).cuda()
    spectrum = torch.stft(wave, n_fft=64, hop_length=16, window=window, return_complex=True)
    magnitude, phase = spectrum.abs(), torch.angle(spectrum)
    back = torch.istft(torch.polar(magnitude, phase), n_fft=64, hop_length=16, window=window, length=400)
    denoiser = settled(nn.Sequential(nn.Conv1d(33, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 33, 3, padding=1)))
    denoiser = denoiser.cuda()
    optimizer = torch.optim.Adam(denoiser.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        mask = torch.sigmoid(denoiser(magnitude.log1p()))
        made = torch.istft(spectrum * mask, n_fft=64, hop_length=16, window=window, length=400)
        loss = nn.functional.l1_loss(made, wave * 0.5) + (torch.view_as_real(spectrum * mask) ** 2).mean() * 1e-3
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    transformed = torch.fft.rfft(wave)
    filtered = torch.fft.irfft(transformed * (torch.fft.rfftfreq(400).cuda() < 0.1), n=400)
    return {
        "magnitude": magnitude.mean().item(),
        "round trip": (back - wave).abs().max().item() < 1e-4,
        "losses": losses,
        "filtered": filtered.std().item(),
        "fft2": torch.fft.fft2(wave.reshape(2, 20, 20)).abs().mean().item(),
        "complex": (transformed.conj() * transformed).real.sum().item(),
        "convolved": nn.functional.conv1d(wave[:, None], wave[:1, None, :5]).sum().item(),
        "shift": torch.fft.fftshift(wave).sum().item(),
        "array": transformed.cpu().numpy().real.sum().item(),
    }
