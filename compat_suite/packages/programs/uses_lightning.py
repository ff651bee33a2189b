"""Lightning: a module, a trainer with callbacks, checkpoints, validation and prediction; Fabric's own loop."""

import logging
import tempfile
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
logging.getLogger("lightning.fabric").setLevel(logging.ERROR)

EPOCHS = 5  # of six passes each


class Classifier(L.LightningModule):
    def __init__(self, width=8, lr=0.02):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("accuracy", (self(x).argmax(-1) == y).float().mean())

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * EPOCHS)]


L.seed_everything(0)
x = torch.randn(48, 5)
y = (x[:, 0] - x[:, 1] > 0).long()
train = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
check = DataLoader(TensorDataset(x, y), batch_size=16)
with tempfile.TemporaryDirectory() as folder:
    saver = ModelCheckpoint(folder, monitor="accuracy", mode="max")
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[saver, EarlyStopping("accuracy", mode="max", patience=EPOCHS)],
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        default_root_dir=folder,
    )
    model = Classifier()
    trainer.fit(model, train, check)
    print(trainer.global_step, {k: f"{v.item():.4f}" for k, v in sorted(trainer.callback_metrics.items())})
    print([f"{v['accuracy']:.4f}" for v in trainer.validate(model, check, verbose=False)])
    out = torch.cat(trainer.predict(model, check))
    print(tuple(out.shape), f"{out.sum().item():.4f}")
    again = Classifier.load_from_checkpoint(saver.best_model_path)
    print(again.hparams.width, f"{again(x).sum().item():.4f}")
fabric = L.Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(1)
net = nn.Linear(5, 2)
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
batches = fabric.setup_dataloaders(check)
for _ in range(2 * EPOCHS):
    for xs, ys in batches:
        loss = nn.functional.cross_entropy(net(xs), ys)
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
print("fabric", f"{loss.item():.5f}")
