"""Detection by Ultralytics' YOLO: a tiny model with random weights trained on drawn squares, validated, and used."""

import os
import tempfile
from pathlib import Path

os.environ |= {"YOLO_VERBOSE": "false", "YOLO_OFFLINE": "true", "YOLO_AUTOINSTALL": "false"}
folder = tempfile.mkdtemp()
os.environ["YOLO_CONFIG_DIR"] = folder
import torch

from compat_suite.packages.vision_operators import load

load()

import numpy as np
from PIL import Image
from ultralytics import YOLO

drawn = np.random.default_rng(0)
for part in ("train", "val"):
    for kind in ("images", "labels"):
        Path(folder, kind, part).mkdir(parents=True)
    for i in range(4):
        image = drawn.integers(0, 60, (64, 64, 3), np.uint8)
        x, y, size = (int(v) for v in drawn.integers(10, 30, 3))
        image[y : y + size, x : x + size, i % 3] = 250
        Image.fromarray(image).save(Path(folder, "images", part, f"{i}.png"))
        label = f"{i % 2} {(x + size / 2) / 64} {(y + size / 2) / 64} {size / 64} {size / 64}\n"
        Path(folder, "labels", part, f"{i}.txt").write_text(label)
Path(folder, "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [odd, even]\n")
Path(folder, "small.yaml").write_text(
    """nc: 2
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, C2f, [16, True]]
  - [-1, 1, Conv, [32, 3, 2]]
  - [-1, 1, SPPF, [32, 5]]
head:
  - [-1, 1, nn.Upsample, [None, 2, "nearest"]]
  - [[-1, 2], 1, Concat, [1]]
  - [-1, 1, C2f, [16]]
  - [[7, 4], 1, Detect, [nc]]
"""
)
torch.manual_seed(0)
model = YOLO(f"{folder}/small.yaml")
losses = []
model.add_callback("on_train_batch_end", lambda trainer: losses.append([float(v) for v in trainer.loss_items.values()]))
model.train(
    data=f"{folder}/data.yaml",
    epochs=2,
    imgsz=64,
    batch=2,
    workers=0,
    device="cpu",
    project=folder,
    name="run",
    plots=False,
    verbose=False,
    seed=0,
    amp=False,
    optimizer="SGD",
    lr0=0.01,
    mosaic=0.0,
    val=False,
)
for row in losses:
    print("loss", [f"{v:.3f}" for v in row])
net = model.trainer.model
print("parameters", f"{sum(p.detach().double().abs().sum().item() for p in net.parameters()):.2f}")
trained = YOLO(f"{folder}/run/weights/last.pt")
found = trained.val(data=f"{folder}/data.yaml", imgsz=64, batch=2, workers=0, device="cpu", plots=False, verbose=False)
print("validated", [f"{v:.3f}" for v in found.results_dict.values()])
boxes = trained.predict(f"{folder}/images/val/0.png", imgsz=64, conf=0.001, max_det=5, device="cpu", verbose=False)[
    0
].boxes
print("predicted", tuple(boxes.xyxy.shape), [f"{v:.2f}" for v in boxes.conf.tolist()])
raw = trained.model.float().eval()(torch.full((1, 3, 64, 64), 0.5))
print("raw", f"{raw[0].double().abs().sum().item():.3e}")
