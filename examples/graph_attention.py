"""Tell the members of communities apart by whom they know: graph networks. An ordinary PyTorch script."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def communities(nodes, groups, features):
    """A random graph whose nodes know their own group better, with noisy features."""
    label = torch.arange(nodes) % groups
    same = label[:, None] == label[None, :]
    chance = torch.where(same, 0.3, 0.03)
    upper = torch.triu(torch.rand(nodes, nodes) < chance, diagonal=1)
    adjacency = upper | upper.t() | torch.eye(nodes, dtype=torch.bool)
    center = torch.randn(groups, features)
    return center[label] * 0.4 + torch.randn(nodes, features), adjacency, label


class GCN(nn.Module):
    """Means over neighbours, as products with a dense normalized matrix."""

    def __init__(self, inside, hidden, outside, adjacency):
        super().__init__()
        self.first = nn.Linear(inside, hidden, bias=False)
        self.second = nn.Linear(hidden, outside, bias=False)
        degree = adjacency.float().sum(1).rsqrt()
        self.register_buffer("mix", degree[:, None] * adjacency.float() * degree[None, :])

    def forward(self, x):
        x = F.relu(self.mix @ self.first(x))
        return self.mix @ self.second(F.dropout(x, 0.3, self.training))


class Attention(nn.Module):
    """Means over neighbours that weigh them, edge by edge, gathered and scattered."""

    def __init__(self, inside, outside, heads):
        super().__init__()
        self.heads, self.outside = heads, outside
        self.project = nn.Linear(inside, heads * outside, bias=False)
        self.source = nn.Parameter(torch.empty(1, heads, outside))
        self.target = nn.Parameter(torch.empty(1, heads, outside))
        for weight in (self.project.weight, self.source, self.target):
            nn.init.xavier_uniform_(weight)

    def forward(self, x, edges):
        source, target = edges
        h = self.project(x).view(-1, self.heads, self.outside)
        score = (h * self.source).sum(-1)[source] + (h * self.target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        # A softmax over the edges that arrive at the same node.
        index = target[:, None].expand_as(score)
        top = score.new_full((len(x), self.heads), -torch.inf)
        top = top.scatter_reduce(0, index, score.detach(), "amax")
        weight = torch.exp(score - top[target])
        total = weight.new_zeros(len(x), self.heads).scatter_add(0, index, weight)
        weight = weight / total[target]
        out = torch.zeros_like(h).index_add(0, target, weight[..., None] * h[source])
        return out.flatten(1)


class GAT(nn.Module):
    def __init__(self, inside, hidden, outside, adjacency):
        super().__init__()
        self.edges = adjacency.nonzero().t()
        self.first = Attention(inside, hidden, heads=4)
        self.second = Attention(4 * hidden, outside, heads=1)

    def forward(self, x):
        x = F.elu(self.first(F.dropout(x, 0.3, self.training), self.edges))
        return self.second(F.dropout(x, 0.3, self.training), self.edges)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("GCN", "GAT"), default="GAT")
    parser.add_argument("--nodes", type=int, default=90)
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--print-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    x, adjacency, label = communities(args.nodes, args.groups, 12)
    order = torch.randperm(args.nodes)
    known, hidden = order[: args.nodes // 4], order[args.nodes // 4 :]
    model = {"GCN": GCN, "GAT": GAT}[args.model](12, args.hidden, args.groups, adjacency)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x)[known], label[known])
        loss.backward()
        optimizer.step()
        if epoch % args.print_every == 0 or epoch == args.epochs - 1:
            model.eval()
            with torch.no_grad():
                right = (model(x)[hidden].argmax(1) == label[hidden]).float().mean()
            print(f"epoch {epoch}  loss {loss.item():.5f}  accuracy {right.item():.4f}")


if __name__ == "__main__":
    main()
