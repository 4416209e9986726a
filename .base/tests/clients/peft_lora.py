"""peft: LoRA on a tiny GPT-2; the adapter is saved, loaded and merged."""

from __future__ import annotations

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY, LENGTH = 64, 16


def tiny_model() -> GPT2LMHeadModel:
    seed()
    size = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 32, "n_layer": 2, "n_head": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**size, **dropout, bos_token_id=0, eos_token_id=0))


def train(half: bool) -> dict[str, object]:
    base = tiny_model().to(DEVICE)
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=16, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True
    )
    model = get_peft_model(base, config)
    expect_on_device(*model.parameters())
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(trained) < len(list(model.parameters()))
    optimizer = torch.optim.AdamW(trained, lr=5e-2)
    scaler = torch.amp.GradScaler(DEVICE, enabled=half)
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(VOCABULARY, (8, LENGTH), generator=generator)
    tokens = (tokens.pin_memory() if ON_CUDA else tokens).to(DEVICE, non_blocking=True)
    losses = []
    for _ in range(10):
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=half):
            loss = model(input_ids=tokens, labels=tokens).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())

    model.eval()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        expected = model(input_ids=tokens).logits
        model.save_pretrained(folder)
        loaded = PeftModel.from_pretrained(tiny_model().to(DEVICE), folder).eval()
        expect_on_device(*loaded.parameters())
        torch.testing.assert_close(loaded(input_ids=tokens).logits, expected)
        merged = loaded.merge_and_unload()
        torch.testing.assert_close(merged(input_ids=tokens).logits, expected, rtol=1e-3, atol=1e-3)
    return {"losses": expect_falling(losses), "logits": expected.abs().mean().item()}


def main() -> None:
    results = {"float32": train(half=False)}
    if ON_CUDA:
        results["float16"] = train(half=True)
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
