"""transformers: a tiny GPT-2 trained by the Trainer, checkpointed and resumed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

VOCABULARY, LENGTH, STEPS = 64, 16, 8


def dataset() -> list[dict[str, torch.Tensor]]:
    sequences = torch.randint(VOCABULARY, (16, LENGTH), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": sequence, "labels": sequence} for sequence in sequences]


def tiny_model() -> GPT2LMHeadModel:
    seed()
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=32,
            n_layer=2,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def arguments(folder: str, **options: object) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        logging_steps=1,
        save_steps=STEPS // 2,
        report_to=[],
        disable_tqdm=True,
        seed=0,
        **options,
    )


def train(folder: str, resume: bool = False, **options: object) -> list[float]:
    trainer = Trainer(model=tiny_model(), args=arguments(folder, **options), train_dataset=dataset())
    assert trainer.args.device.type == DEVICE, trainer.args.device
    if ON_CUDA:
        assert trainer.args.n_gpu == 1
    trainer.train(resume_from_checkpoint=str(Path(folder, f"checkpoint-{STEPS // 2}")) if resume else None)
    expect_on_device(*trainer.model.parameters())
    evaluated = trainer.evaluate(dataset())
    assert evaluated["eval_loss"] < trainer.state.log_history[0]["loss"]
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def generate() -> list[int]:
    model = tiny_model().to(DEVICE).eval()
    prompt = torch.arange(4).unsqueeze(0).to(DEVICE)
    with torch.no_grad():
        written = model.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=0)
    expect_on_device(written)
    return written[0].tolist()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        losses = expect_falling(train(folder))
        resumed = train(folder, resume=True)
        assert len(resumed) == STEPS
        torch.testing.assert_close(torch.tensor(resumed), torch.tensor(losses), rtol=1e-3, atol=1e-3)
    results = {"float32": {"losses": losses, "resumed": resumed, "generated": generate()}}
    if ON_CUDA:
        with tempfile.TemporaryDirectory() as folder:
            results["float16"] = {"losses": expect_falling(train(folder, fp16=True))}
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
