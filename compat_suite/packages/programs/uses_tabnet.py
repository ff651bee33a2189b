"""TabNet: a classifier of tables with words in them, its reasons, and a network learned without labels."""

import contextlib
import io
import tempfile

import numpy as np
import torch
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier

EPOCHS = 10  # of three or four passes each
# In single precision a change of the data by their last bit changes the last losses in the first digits.
torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double  # as which TabNet takes its data
rng = np.random.default_rng(0)
x = rng.normal(size=(120, 6)).astype(np.float32)
x[:, 5] = rng.integers(0, 4, 120)
y = (x[:, 0] + x[:, 1] > 0).astype(int)
sizes = {"n_d": 4, "n_a": 4, "n_steps": 2, "seed": 0, "verbose": 0, "device_name": "cpu"}
how = {"batch_size": 32, "virtual_batch_size": 16, "drop_last": False}
model = TabNetClassifier(cat_idxs=[5], cat_dims=[4], cat_emb_dim=2, **sizes)
model.fit(x[:90], y[:90], eval_set=[(x[90:], y[90:])], eval_metric=["auc", "logloss"], max_epochs=EPOCHS, **how)
print({k: [f"{v:.4f}" for v in (*row[:3], row[-1])] for k, row in model.history.history.items() if k != "lr"})
print([f"{v:.4f}" for v in model.feature_importances_], model.predict_proba(x[:3]).round(4).tolist())
print("reasons", f"{model.explain(x[:4])[0].sum():.4f}")
with tempfile.TemporaryDirectory() as folder:
    again = TabNetClassifier()
    with contextlib.redirect_stdout(io.StringIO()):
        again.load_model(model.save_model(f"{folder}/model"))
    print("loaded", np.allclose(again.predict_proba(x), model.predict_proba(x)))
before = TabNetPretrainer(mask_type="entmax", **sizes)
before.fit(x, max_epochs=EPOCHS, pretraining_ratio=0.5, **how)
print("without labels", [f"{v:.4f}" for v in (*before.history["loss"][:3], before.history["loss"][-1])])
