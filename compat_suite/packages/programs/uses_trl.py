"""Training of language models by TRL: fine-tuning, preferences, a reward model, and GRPO on a tiny random model."""

import os
import tempfile
import warnings

os.environ |= {"WANDB_DISABLED": "true", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
warnings.simplefilter("ignore")
import torch
from datasets import Dataset, disable_caching, fingerprint
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedTokenizerFast
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer

disable_caching()
fingerprint.Hasher.hash = classmethod(lambda cls, value: "0")  # types of some versions of pyarrow can't be pickled
STEPS = 30
WORDS = [
    *("[PAD]", "[UNK]", "[EOS]", "the", "a", "cat", "dog", "bird", "sat", "ran", "flew", "on", "over", "mat", "hill"),
    *("and", "then", "it", "slept", "well", "badly"),
]
raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]")
CONFIG = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "bos_token_id": 2,
}


def model(kind=LlamaForCausalLM, **more):
    """A model that was read from files, where trainers look for what belongs to it."""
    torch.manual_seed(0)
    kind(LlamaConfig(**CONFIG, **more)).save_pretrained(f"{folder}/{kind.__name__}")
    tokenizer.save_pretrained(f"{folder}/{kind.__name__}")
    return kind.from_pretrained(f"{folder}/{kind.__name__}")


def options(folder):
    return {
        "output_dir": folder,
        "max_steps": STEPS,
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "save_strategy": "no",
        "disable_tqdm": False,
        "seed": 1,
        "bf16": False,
    }


def trained(name, trainer):
    for printing in (PrinterCallback, ProgressCallback):  # which print times
        trainer.remove_callback(printing)
    trainer.train()
    told = trainer.state.log_history
    for row in told[:3] + told[-2:]:
        kept = {k: v for k, v in row.items() if k in ("loss", "grad_norm", "reward", "rewards/margins", "entropy")}
        if kept:
            print(name, {k: f"{float(v):.3f}" for k, v in sorted(kept.items())})
    total = sum(p.detach().double().abs().sum().item() for p in trainer.model.parameters())
    print(name, "parameters", f"{total:.2f}")


texts = ["the cat sat on the mat", "a dog ran over the hill", "the bird flew and then it slept", "it slept well"]
pairs = [{"prompt": "the cat", "chosen": " sat on the mat", "rejected": " flew badly"},
         {"prompt": "a dog", "chosen": " ran over the hill", "rejected": " slept"}] * 2  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    sft = SFTTrainer(
        model=model(),
        args=SFTConfig(**options(folder), max_length=16),
        train_dataset=Dataset.from_dict({"text": texts}),
        processing_class=tokenizer,
    )
    trained("SFT", sft)
    dpo = DPOTrainer(
        model=model(),
        args=DPOConfig(**options(folder), max_length=16),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
    )
    trained("DPO", dpo)
    reward = RewardTrainer(
        model=model(LlamaForSequenceClassification, num_labels=1),
        args=RewardConfig(**options(folder), max_length=16),
        train_dataset=Dataset.from_list(pairs),
        processing_class=tokenizer,
    )
    trained("reward", reward)
    grpo = GRPOTrainer(
        model=model(),
        reward_funcs=lambda completions, **_: [float(len(c.split())) for c in completions],
        args=GRPOConfig(**options(folder), num_generations=2, max_completion_length=4),
        train_dataset=Dataset.from_dict({"prompt": texts}),
        processing_class=tokenizer,
    )
    trained("GRPO", grpo)
