"""Networks as estimators of scikit-learn: fit, score, search, pickle."""

import pickle

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler

EPOCHS = 10  # of three passes each
torch.manual_seed(0)
rng = np.random.RandomState(0)
X = rng.randn(60, 5).astype("float32")
y = (X[:, 0] + X[:, 1] > 0).astype("int64")


class Net(torch.nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(5, width), torch.nn.ReLU(), torch.nn.Linear(width, 2), torch.nn.Softmax(dim=-1)
        )

    def forward(self, x):
        return self.layers(x)


net = NeuralNetClassifier(
    Net,
    max_epochs=EPOCHS,
    lr=0.3,
    batch_size=16,
    verbose=0,
    callbacks=[
        EpochScoring("roc_auc", lower_is_better=False),
        EarlyStopping(patience=EPOCHS),
        LRScheduler("StepLR", step_size=2),
    ],
)
net.fit(X, y)
for row in net.history:
    print(row["epoch"], f"{row['train_loss']:.5f} {row['valid_loss']:.5f} {row['valid_acc']:.4f} {row['roc_auc']:.4f}")
print(
    f"{net.score(X, y):.4f}",
    net.predict_proba(X)[0].round(4).tolist(),
    (pickle.loads(pickle.dumps(net)).predict(X) == net.predict(X)).all(),
)
torch.manual_seed(1)
search = GridSearchCV(
    make_pipeline(StandardScaler(), NeuralNetClassifier(Net, max_epochs=EPOCHS, lr=0.1, verbose=0, train_split=None)),
    {"neuralnetclassifier__module__width": [2, 4]},
    cv=2,
    error_score="raise",
)
search.fit(X, y)
print(search.best_params_, f"{search.best_score_:.4f}", NeuralNetRegressor.__name__)
