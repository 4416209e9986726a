"""tensordict: policy, advantages and update of a PPO-like loop as graphs, as LeanRL's --cudagraphs has them."""

from __future__ import annotations

import torch
from _client import (
    DEVICE,
    ON_CUDA,
    expect_falling,
    expect_memory_figures,
    expect_on_device,
    report,
    seed,
)
from tensordict import TensorDict, from_module
from tensordict.nn import CudaGraphModule, TensorDictModule
from torch import nn

ENVIRONMENTS, STEPS, OBSERVED, ACTIONS, ROUNDS = 8, 6, 5, 3, 12
GAMMA, LAMBDA, CLIP = 0.95, 0.9, 0.2


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(OBSERVED, 16), nn.Tanh(), nn.Linear(16, ACTIONS))
        self.critic = nn.Sequential(nn.Linear(OBSERVED, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, observed: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = self.actor(observed).log_softmax(-1)
        chosen = logits.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return chosen, -(logits.exp() * logits).sum(-1), self.critic(observed).squeeze(-1)


def advantages(rewards: torch.Tensor, values: torch.Tensor, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    following, gathered, made = last, torch.zeros_like(last), []
    for step in reversed(range(STEPS)):
        delta = rewards[step] + GAMMA * following - values[step]
        gathered = delta + GAMMA * LAMBDA * gathered
        made.append(gathered)
        following = values[step]
    found = torch.stack(made[::-1])
    return found, found + values


def train(graphs: bool) -> dict[str, list[float]]:
    seed()
    agent, acting = Agent(), Agent()
    agent, acting = agent.to(DEVICE), acting.to(DEVICE)
    from_module(agent).data.to_module(acting)  # the same memory: acting follows what is learned
    rate = torch.tensor(3e-2, device=DEVICE)
    optimizer = torch.optim.Adam(agent.parameters(), lr=rate, eps=1e-5, capturable=ON_CUDA)

    def learn(observed, action, before, advantage, wanted):  # noqa: ANN001, ANN202 (as users write it)
        optimizer.zero_grad()
        chosen, entropy, value = agent(observed, action)
        ratio = (chosen - before).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        error = (value - wanted).square().mean()
        (error * 0.5 - gain - 0.01 * entropy.mean()).backward()
        norm = nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
        return error.detach(), entropy.mean().detach(), norm

    keys = ["observed", "action", "before", "advantage", "wanted"]
    update = TensorDictModule(learn, in_keys=keys, out_keys=["error", "entropy", "norm"])
    policy = TensorDictModule(acting, in_keys=["observed", "action"], out_keys=["before", "entropy", "value"])
    gae = advantages
    if graphs:
        update, policy, gae = CudaGraphModule(update), CudaGraphModule(policy), CudaGraphModule(gae)
    history: dict[str, list[float]] = {"error": [], "entropy": [], "norm": []}
    observed = torch.randn(STEPS + 1, ENVIRONMENTS, OBSERVED).to(DEVICE)
    actions = torch.randint(ACTIONS, (STEPS, ENVIRONMENTS)).to(DEVICE)
    rewards = (actions == observed[:-1, :, :ACTIONS].argmax(-1)).float()
    for _ in range(ROUNDS):
        taken = []
        with torch.no_grad():
            for step in range(STEPS):
                given = TensorDict(
                    {"observed": observed[step], "action": actions[step]}, batch_size=[ENVIRONMENTS], device=DEVICE
                )
                taken.append(policy(given).select("before", "value").clone())
            kept = torch.stack(taken)
            last = acting.critic(observed[-1]).squeeze(-1)
            advantage, wanted = gae(rewards, kept["value"], last)
        batch = TensorDict(
            {
                "observed": observed[:-1],
                "action": actions,
                "before": kept["before"],
                "advantage": advantage,
                "wanted": wanted,
            },
            batch_size=[STEPS, ENVIRONMENTS],
        ).view(-1)
        for part in batch.split(STEPS * ENVIRONMENTS // 2):
            told = update(part, tensordict_out=TensorDict())
            expect_on_device(told["error"])
        for name in history:
            history[name].append(told[name].item())
    expect_falling(history["error"])
    return history


def main() -> None:
    plain = train(graphs=False)
    if ON_CUDA:
        graphed = train(graphs=True)
        assert graphed == plain, (graphed, plain)
    expect_memory_figures()
    report(float32=plain)


if __name__ == "__main__":
    main()
