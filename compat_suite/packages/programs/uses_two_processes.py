"""Lightning over two processes, which its trainer spawns: they average their gradients."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
EPOCHS = 8  # of four passes each


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def data():
    torch.manual_seed(1)
    return DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=4)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp_spawn",
            max_epochs=EPOCHS,
            logger=False,
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = Classifier()
        trainer.fit(model, data())
    print(f"{trainer.callback_metrics['loss'].item():.4f}")
    print(f"{sum(p.sum() for p in model.parameters()).item():.4f}")
