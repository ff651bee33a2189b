"""Engines, events, handlers and metrics of Ignite around a training loop."""

import tempfile

import torch
from ignite.contrib.handlers import ProgressBar  # noqa: F401
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping, LRScheduler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 6  # of five passes each
torch.manual_seed(0)
x = torch.randn(40, 5)
y = (x[:, 0] + x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
trainer = create_supervised_trainer(net, optimizer, nn.CrossEntropyLoss())
metrics = {
    "accuracy": Accuracy(),
    "loss": Loss(nn.CrossEntropyLoss()),
    "precision": Precision(average=True),
    "confusion": ConfusionMatrix(2),
}
evaluator = create_supervised_evaluator(net, metrics=metrics)
RunningAverage(output_transform=lambda out: out).attach(trainer, "running")
trainer.add_event_handler(Events.EPOCH_STARTED, LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)))


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(loader)
    m = evaluator.state.metrics
    print(
        engine.state.epoch,
        *[f"{m[k]:.4f}" for k in ("accuracy", "loss", "precision")],
        m["confusion"].tolist(),
        f"{engine.state.metrics['running']:.4f} {optimizer.param_groups[0]['lr']:.5f}",
    )


evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(EPOCHS, lambda e: e.state.metrics["accuracy"], trainer))
with tempfile.TemporaryDirectory() as folder:
    saver = Checkpoint({"net": net, "optimizer": optimizer}, DiskSaver(folder, create_dir=True), n_saved=1)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
    trainer.run(loader, max_epochs=EPOCHS)
    again = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    state = torch.load(
        f"{folder}/{saver.last_checkpoint}" if "/" not in str(saver.last_checkpoint) else saver.last_checkpoint
    )
    Checkpoint.load_objects({"net": again}, {"net": state["net"]})
    print("restored", bool(torch.equal(again(x), net(x))))
