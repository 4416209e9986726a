"""Reinforcement learning: a replay buffer of CPU tensors, indices, a target network, sampled actions."""

from __future__ import annotations

import random
from collections import deque, namedtuple

import numpy as np
import torch
from _everyday import data, settled
from torch import nn
from torch.distributions import Categorical, Normal

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class Buffer:
    def __init__(self, size: int) -> None:
        self.states = torch.zeros(size, 4)
        self.actions = torch.zeros(size, dtype=torch.int64)
        self.rewards = torch.zeros(size)
        self.done = torch.zeros(size, dtype=torch.bool)
        self.filled = 0

    def push(self, state: np.ndarray, action: int, reward: float, done: bool) -> None:
        self.states[self.filled] = torch.from_numpy(state)
        self.actions[self.filled] = action
        self.rewards[self.filled] = reward
        self.done[self.filled] = done
        self.filled += 1

    def sample(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(t[rows].to(device) for t in (self.states, self.actions, self.rewards, self.done))


def main() -> dict[str, object]:
    random.seed(0)
    rng = np.random.RandomState(0)
    policy = settled(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))).to(device)
    target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-2)
    buffer, memory, losses, chosen = Buffer(64), deque(maxlen=32), [], []
    for step, state in enumerate(data(48, 4)):
        with torch.no_grad():
            scores = policy(torch.from_numpy(state).unsqueeze(0).to(device))
            action = (
                scores.max(1)[1].view(1, 1) if rng.rand() > 0.3 else torch.tensor([[rng.randint(3)]], device=device)
            )
        chosen.append(action.item())
        reward = torch.tensor([float(state.sum())], device=device)
        following = None if step % 7 == 0 else torch.tensor([state], device=device) + 0.1
        memory.append(Transition(torch.tensor([state], device=device), action, following, reward))
        buffer.push(state, action.item(), reward.item(), following is None)
        if len(memory) < 16:
            continue
        batch = Transition(*zip(*random.sample(memory, 8), strict=True))
        alive = torch.tensor(tuple(s is not None for s in batch.next_state), device=device, dtype=torch.bool)
        states, actions = torch.cat(batch.state), torch.cat(batch.action)
        value = torch.zeros(8, device=device)
        with torch.no_grad():
            value[alive] = target(torch.cat([s for s in batch.next_state if s is not None])).max(1)[0]
        expected = value * 0.9 + torch.cat(batch.reward)
        loss = nn.SmoothL1Loss()(policy(states).gather(1, actions), expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        for ours, theirs in zip(target.parameters(), policy.parameters(), strict=True):
            ours.data.copy_(0.9 * ours.data + 0.1 * theirs.data)
    rows = torch.from_numpy(rng.permutation(48)[:6])
    states, actions, rewards, done = buffer.sample(rows)
    kept = buffer.states[torch.from_numpy(rng.rand(64) > 0.5)]
    shuffled = buffer.rewards[torch.randperm(48)].sum().item()  # indices of the CPU in a tensor of the CPU

    logits = policy(states)
    spread = Categorical(logits=logits)
    action = spread.sample()
    surrogate = -(spread.log_prob(action) * rewards).mean() - 0.01 * spread.entropy().mean()
    surrogate.backward()
    normal = Normal(torch.zeros(3).to(device), torch.ones(3, device=device))
    drawn = normal.rsample()
    picked = torch.multinomial(torch.softmax(logits, -1), 1)
    counts = torch.bincount(torch.multinomial(torch.ones(3).to(device), 3000, replacement=True), minlength=3)
    advantage = torch.zeros(6)
    for t in reversed(range(6)):
        advantage[t] = rewards[t] + (advantage[t + 1] if t < 5 else 0.0) * 0.5
    return {
        "losses": losses,
        "chosen": chosen,
        "states": states.tolist(),
        "actions": actions.tolist(),
        "done": done.tolist(),
        "kept": kept.sum().item(),
        "shuffled": round(shuffled, 3),
        "entropy": spread.entropy().tolist(),
        "log_prob of 1": spread.log_prob(torch.ones(6).to(device)).tolist(),
        "shapes": [list(action.shape), list(picked.shape), list(drawn.shape)],
        "total": counts.sum().item(),
        "even": bool((counts > 800).all()),
        "advantage": advantage.tolist(),
        "cdf": normal.cdf(torch.tensor(0.5).to(device)).tolist(),
    }
