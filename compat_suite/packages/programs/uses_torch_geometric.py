"""Graph networks of PyG: convolutions, pooling, aggregations, kinds of nodes, explanations."""

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric import nn as gnn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import DataLoader
from torch_geometric.utils import softmax, to_undirected

STEPS = 30
NODES = 5000  # times 8 features: more elements than NumPy computes
torch.manual_seed(0)
edge = to_undirected(torch.randint(0, 20, (2, 40)))
x, y = torch.randn(20, 8), torch.randint(0, 3, (20,))
many = to_undirected(torch.randint(0, NODES, (2, 2 * NODES)))
features, labels = torch.randn(NODES, 8), torch.randint(0, 3, (NODES,))
CONVOLUTIONS = {
    "GCN": lambda: gnn.GCNConv(8, 3),
    "GATv2": lambda: gnn.GATv2Conv(8, 3, heads=2, concat=False),
    "SAGE": lambda: gnn.SAGEConv(8, 3),
    "GIN": lambda: gnn.GINConv(torch.nn.Linear(8, 3), train_eps=True),
    "transformer": lambda: gnn.TransformerConv(8, 3),
    "Chebyshev": lambda: gnn.ChebConv(8, 3, K=2),
    "edge": lambda: gnn.EdgeConv(torch.nn.Linear(16, 3)),
}
for name, make in CONVOLUTIONS.items():
    torch.manual_seed(1)
    net = make()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(features, many), labels)
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    print(name, *losses[:3], losses[-1])


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = gnn.GCNConv(4, 16), gnn.GraphNorm(16)
        self.pool, self.last = gnn.TopKPooling(16, 0.5), torch.nn.Linear(16, 2)

    def forward(self, b):
        h = self.norm(self.first(b.x, b.edge_index).relu(), b.batch)
        h, _, _, batch, _, _ = self.pool(h, b.edge_index, None, b.batch)
        return self.last(gnn.global_mean_pool(h, batch))


graphs = [
    Data(torch.randn(k, 4), to_undirected(torch.randint(0, k, (2, 2 * k))), y=torch.tensor([k % 2]))
    for k in range(3, 15)
]
net = Classifier()
optimizer = torch.optim.Adam(net.parameters(), 0.01)
for step in range(STEPS // 3):
    for batch in DataLoader(graphs, batch_size=5, shuffle=True):
        loss = F.cross_entropy(net(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, STEPS // 3 - 1):
            print("graphs", tuple(batch.x.shape), f"{loss.item():.4f}")
group = torch.arange(5).repeat_interleave(4)
for aggregate in (gnn.SoftmaxAggregation(learn=True), gnn.MedianAggregation(), gnn.Set2Set(8, 2)):
    leaf = x.clone().requires_grad_()
    out = aggregate(leaf, group)
    out.square().sum().backward()
    print(type(aggregate).__name__, f"{out.sum().item():.4f} {leaf.grad.norm().item():.4f}")
print("attention", f"{softmax(torch.randn(edge.size(1)), edge[0]).max().item():.4f}")
walk = T.AddRandomWalkPE(3)(Data(x=x, edge_index=edge)).random_walk_pe
print("walks", f"{walk.sum().item():.4f}")
kinds = HeteroData()
kinds["a"].x, kinds["b"].x = torch.randn(5, 4), torch.randn(6, 3)
to = torch.stack([torch.randint(0, 5, (12,)), torch.randint(0, 6, (12,))])
kinds["a", "to", "b"].edge_index, kinds["b", "back", "a"].edge_index = to, to.flip(0)
torch.manual_seed(2)
graph = gnn.HGTConv({"a": 4, "b": 3}, 8, kinds.metadata(), heads=2)
out = graph(kinds.x_dict, kinds.edge_index_dict)
print("kinds", {k: f"{v.sum().item():.4f}" for k, v in out.items()})
torch.manual_seed(3)
explain = Explainer(
    gnn.GCN(8, 8, 2, 3),
    GNNExplainer(epochs=STEPS),
    explanation_type="model",
    node_mask_type="attributes",
    edge_mask_type="object",
    model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
)
found = explain(x, edge, index=3)
print("explained", f"{found.edge_mask.sum().item():.4f} {found.node_mask.sum().item():.4f}")
