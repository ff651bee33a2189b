"""Waves continued by LSTM cells in double precision, learned by L-BFGS."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

np.random.seed(2)
torch.manual_seed(0)
x = np.array(range(12)) + np.random.randint(-8, 8, 6).reshape(6, 1)
data = np.sin(x / 1.0 / 5).astype("float64")
source, target = torch.from_numpy(data[1:, :-1]), torch.from_numpy(data[1:, 1:])
test_source, test_target = torch.from_numpy(data[:1, :-1]), torch.from_numpy(data[:1, 1:])


class Sequence(nn.Module):
    def __init__(self, cell, width=9):
        super(Sequence, self).__init__()
        self.width = width
        self.cell1, self.cell2 = cell(1, width), cell(width, width)
        self.linear = nn.Linear(width, 1)

    def forward(self, input, future=0):
        outputs = []
        zeros = torch.zeros(input.size(0), self.width, dtype=torch.double)
        gated = isinstance(self.cell1, nn.LSTMCell)
        h1 = h2 = (zeros, zeros) if gated else zeros
        steps = list(input.split(1, dim=1)) + [None] * future
        for piece in steps:
            piece = output if piece is None else piece
            h1 = self.cell1(piece, h1)
            h2 = self.cell2(h1[0] if gated else h1, h2)
            output = self.linear(h2[0] if gated else h2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


for cell in (nn.LSTMCell, nn.GRUCell):
    seq = Sequence(cell)
    seq.double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.5, max_iter=3)
    for i in range(2):

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(source), target)
            print(f"loss {loss.item():.6f}")
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(test_source, future=3)
            loss = criterion(pred[:, :-3], test_target)
            print(f"test {loss.item():.6f}", [f"{v:.4f}" for v in pred[0, -3:].numpy()])
