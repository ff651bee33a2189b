"""The full recipe of torchtune over two processes: FSDP, gradients over two batches, clipping, a checkpoint."""

import os
import runpy
import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

warnings.simplefilter("ignore")
os.environ["TQDM_DISABLE"] = "1"

import torch

TEXTS = 240  # of which each process sees two at once: sixty passes
SIZES = {
    "vocab_size": 40,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "embed_dim": 16,
    "max_seq_len": 32,
    "intermediate_dim": 32,
}


class Texts(torch.utils.data.Dataset):
    """Sequences of numbers that count upwards."""

    def __init__(self, tokenizer, packed):
        self.tokenizer = tokenizer

    def __len__(self):
        return TEXTS

    def __getitem__(self, i):
        tokens = [(i + k) % 37 + 3 for k in range(6 + i % 3)]
        return {"tokens": tokens, "labels": tokens}


class Tokenizer:
    pad_id = 0
    max_seq_len = None


def settings(folder):
    return {
        "tokenizer": {"_component_": "uses_torchtune_recipe.Tokenizer"},
        "dataset": {"_component_": "uses_torchtune_recipe.Texts", "packed": False},
        "model": {"_component_": "torchtune.models.llama3.llama3", **SIZES},
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            "checkpoint_dir": f"{folder}/before",
            "checkpoint_files": ["model.pt"],
            "output_dir": f"{folder}/after",
            "model_type": "LLAMA3",
        },
        "resume_from_checkpoint": False,
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": 1e-2, "fused": False},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "lr_scheduler": {
            "_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",
            "num_warmup_steps": 1,
        },
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": f"{folder}/log",
            "filename": "log.txt",
        },
        "seed": 0,
        "shuffle": True,
        "batch_size": 2,
        "epochs": 1,
        "max_steps_per_epoch": None,
        "gradient_accumulation_steps": 2,
        "clip_grad_norm": 1.0,
        "compile": False,
        "optimizer_in_bwd": False,
        "device": "cpu",
        "dtype": "fp32",
        "enable_activation_checkpointing": True,
        "enable_activation_offloading": False,
        "log_every_n_steps": 1,
        "log_peak_memory_stats": False,
        "output_dir": f"{folder}/after",
    }


def begin(folder):
    from torchtune.models.llama3 import llama3

    Path(folder, "before").mkdir()
    Path(folder, "before/config.json").write_text("{}")
    torch.manual_seed(0)
    torch.save(llama3(**SIZES).state_dict(), f"{folder}/before/model.pt")


def train(folder):
    from omegaconf import OmegaConf
    from torchtune import training

    # The recipe asks for memory of GPUs, whatever it runs on.
    training.get_memory_stats = lambda device: defaultdict(float)
    training.cleanup_before_training = lambda: None
    file = next(p for p in (Path(p, "recipes/full_finetune_distributed.py") for p in sys.path) if p.exists())
    made = OmegaConf.create(settings(folder))
    recipe = runpy.run_path(str(file))["FullFinetuneRecipeDistributed"](cfg=made)
    recipe.setup(cfg=made)
    recipe.train()
    recipe.cleanup()


if __name__ == "__main__" and "RANK" in os.environ:
    train(sys.argv[1])
elif __name__ == "__main__":
    from torch.distributed.run import main

    with tempfile.TemporaryDirectory() as folder:
        begin(folder)
        main(["--nproc-per-node", "2", "--redirects", "3", "--log-dir", f"{folder}/said", __file__, folder])
        told = Path(folder, "log/log.txt").read_text().splitlines()
        for line in (*told[:4], told[-1]):
            words = dict(w.split(":") for w in line.split() if ":" in w)
            print(line.split()[1], *(f"{k} {float(words[k]):.4f}" for k in ("loss", "lr", "grad_norm")))
        after = torch.load(next(Path(folder, "after").rglob("*.bin")))
        print(len(after), f"{sum(p.double().abs().sum() for p in after.values()).item():.3f}")
