"""A convolutional network on made-up digits, in the style of the MNIST example."""

import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset, DataLoader, random_split


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.bn = nn.BatchNorm2d(8)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(8 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.bn(self.conv2(x)))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout2(x)
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for i, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if i % args.log_interval == 0:
            print(
                "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.5f}".format(
                    epoch, i * len(data), len(loader.dataset), 100.0 * i / len(loader), loss.item()
                )
            )


def test(model, device, loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(
        "\nTest set: Average loss: {:.4f}, Accuracy: {}/{}\n".format(
            test_loss / len(loader.dataset), correct, len(loader.dataset)
        )
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.5)
    p.add_argument("--no-cuda", action="store_true")
    p.add_argument("--log-interval", type=int, default=3)
    p.add_argument("--save-model", action="store_true")
    args = p.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    torch.manual_seed(1)
    device = torch.device("cuda" if use_cuda else "cpu")
    y = torch.randint(0, 10, (240,))
    x = torch.randn(240, 1, 12, 12) * 0.5
    for i in range(240):
        x[i, 0, y[i], :] += 1.5
    tr, te = random_split(TensorDataset(x, y), [200, 40], generator=torch.Generator().manual_seed(3))
    kw = {"num_workers": 0, "pin_memory": False}
    trl = DataLoader(tr, batch_size=20, shuffle=True, **kw)
    tel = DataLoader(te, batch_size=40)
    model = Net().to(device)
    print(model)
    print(sum(p.numel() for p in model.parameters()))
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    sched = StepLR(optimizer, step_size=1, gamma=0.7)
    for e in range(1, args.epochs + 1):
        train(args, model, device, trl, optimizer, e)
        test(model, device, tel)
        sched.step()
        print(sched.get_last_lr())


if __name__ == "__main__":
    main()
