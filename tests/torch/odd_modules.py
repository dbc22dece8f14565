"""Functions whose results are views, have strides of their own, or change in place."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.torch.networks import seeded

DENSE = torch.contiguous_format
torch.manual_seed(0)
WEIGHT = nn.Parameter(seeded(3, 4, seed=3))
LINEAR, CONV = nn.Linear(4, 5), nn.Conv2d(2, 3, 3, padding=1)
ONE = nn.Conv2d(2, 1, 1)
NORM, LSTM, GRU = nn.BatchNorm2d(2).eval(), nn.LSTM(4, 3), nn.GRU(4, 3, batch_first=True)
CONV_LAST = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)


def broken(first, second):
    """Two functions with a break of the graph between them."""

    def function(x):
        y = first(x)
        torch._dynamo.graph_break()
        return second(y)

    return function


def in_place(change, result=lambda y: y, make=lambda x: x + 1):
    """A function that changes a tensor of its own, or its argument, in place."""

    def function(x):
        y = make(x)
        change(y)
        return result(y)

    return function


def assigned(y):
    y[0] = 2
    y[:, 1:] += 1


def enabled(x):
    with torch.enable_grad():
        return x * 2


def disabled(x):
    with torch.no_grad():
        return x.t(), x * 2


MATRIX = {  # [3, 4]
    "t": lambda x: x.t(),
    "t of a new tensor": lambda x: (x + 1).t(),
    "a tensor and its views": lambda x: (y := x * 2, y.t(), y[1:], y.t()[::2]),
    "views alone": lambda x: ((x * 2).view(-1), x.view(2, 6)),
    "views of one another": lambda x: (y := (x * 2).t(), y.unsqueeze(0)),
    "expand": lambda x: x.expand(2, 3, 4),
    "expand of a new tensor": lambda x: (x + 1).expand(2, 3, 4),
    "expand_as": lambda x: x[0].expand_as(x + 1),
    "detach": lambda x: (x.detach(), x + 1),
    "data": lambda x: x.data * 1 + x.data.t().t(),
    "contiguous": lambda x: (x.contiguous(), x.t().contiguous(), x * 2),
    "to": lambda x: (x.to(torch.float32), x.to(torch.int32), x.float().t()),
    "itself": lambda x: (x, x + 1),
    "twice": lambda x: (y := x + 1, y, [y.t(), y]),
    "reshape": lambda x: (x.reshape(-1), x.t().reshape(-1), (x + 1).reshape(2, 6)),
    "flatten": lambda x: (x.flatten(), (x.t() + 1).flatten(), x.ravel()),
    "squeeze": lambda x: (x[:1].squeeze(0), (x + 1)[None].squeeze()),
    "select": lambda x: (x[0, 0], x.select(1, 2), (x + 1)[1, 1]),
    "narrow": lambda x: (x.narrow(1, 1, 2), x[:, ::2], x[..., None]),
    "diagonal": lambda x: (x.diagonal(), (x * 2).diagonal(1), torch.diag(x)),
    "unfold": lambda x: (x.unfold(1, 2, 1), (x + 1).unfold(0, 2, 1)),
    "movedim": lambda x: (x.movedim(0, 1), (x + 1).mT, x.swapaxes(0, 1), x.adjoint()),
    "split": lambda x: (torch.split(x, 2, 1), torch.split(x + 1, 2)),
    "chunk": lambda x: [c * 2 for c in x.chunk(2, 1)] + list((x + 1).chunk(3)),
    "unbind": lambda x: (x.unbind(1), torch.stack((x + 1).unbind(0), 1)),
    "tensor_split": lambda x: torch.tensor_split(x.relu(), 2),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[:, 0] * 2, indexing="ij"),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x[:1], x + 1),
    "view of a weight": lambda x: (WEIGHT.t(), WEIGHT, x @ WEIGHT.t()),
    "elementwise of a transposed": lambda x: (x.t() * 2, x.t() + 1, torch.where(x > 0, x, 0).t()),
    "mixed strides": lambda x: (x.t() + x.t().contiguous(), x.t().contiguous() + x.t()),
    "like": lambda x: (torch.zeros_like(x.t()), torch.ones_like(x).t(), torch.full((2, 3), 1.5)),
    "clone": lambda x: (x.t().clone(), x.clone().t(), x.t().clone(memory_format=DENSE)),
    "matmul of a transposed": lambda x: (x.t() @ x, (x @ x.t()).t(), torch.mm(x, x.t())),
    "einsum": lambda x: torch.einsum("ij,kj->ki", x, x + 1),
    "linear": lambda x: (LINEAR(x), LINEAR(x).t(), F.linear(x, WEIGHT)),
    "softmax of a transposed": lambda x: (x.t().softmax(0), F.layer_norm(x.t(), (3,))),
    "sums": lambda x: (
        x.sum(),
        x.t().sum(1),
        x.t().mean(0, keepdim=True),
        x[None].permute(2, 0, 1).sum(1),
    ),
    "max": lambda x: (x.max(1), x.t().max(0).values, x.argmax(1)),
    "sort": lambda x: (x.t().sort(0), x.topk(2, 1)),
    "cumsum": lambda x: x.t().cumsum(0),
    "cat": lambda x: (torch.cat([x.t(), x.t()]), torch.cat([x, x], 1).t(), torch.stack([x, x], 2)),
    "flip": lambda x: (x.t().flip(0), x.roll(1, 0), torch.rot90(x)),
    "tril": lambda x: (x.t().tril(), x.triu().t()),
    "pad": lambda x: (F.pad(x.t(), (1, 1)), F.pad(x, (-1, 0))),
    "gather": lambda x: (
        x.t().gather(0, x.t().argsort(0)),
        x[:, [0, 2]],
        x.t()[[0, 1]],
        x.index_select(1, torch.tensor([1])),
    ),
    "embedding": lambda x: F.embedding((x > 0).long(), WEIGHT).transpose(0, 1),
    "empty": lambda x: (x[:0], x[:0] * 2, (x + 1)[:, :0] * 2, torch.zeros(2, 0)),
    "numbers": lambda x: (x.t() * 2, x.shape, x.t().stride(), x.t().is_contiguous(), x.dim()),
    "nested": lambda x: {"a": [(x + 1).t(), None], "b": (x.t(), 3, "text")},
    "identity": lambda x: (nn.Identity()(x), F.dropout(x, 0.5, training=False), x * 2),
    "dropout": lambda x: (y := x * 2, F.dropout(y, 0.5, training=False)),
    "as_strided": lambda x: (torch.as_strided((x + 1).t(), (3, 2), (1, 3)), x * 2),
    "as_strided inside": lambda x: torch.as_strided((x + 1).t(), (3, 2), (1, 3)) * 2,
    "as_strided of a contiguous": lambda x: torch.as_strided(x + 1, (2, 4), (2, 1)) * 2,
    "as_strided with an offset": lambda x: (
        x.as_strided((2, 2), (4, 1), 3),
        x[1:].as_strided((2, 2), (4, 1)) * 2,
    ),
    "in place": in_place(lambda y: y.mul_(2)),
    "in place on a view": in_place(lambda y: y.t().mul_(2), lambda y: (y, y.t())),
    "in place through a row": in_place(assigned, lambda y: (y.t(), y.sum(0))),
    "in place last": lambda x: (x + 1).t().mul_(2).relu_(),
    "in place, read before": in_place(lambda y: (y.t().clone(), y.zero_()), lambda y: (y, y + 1)),
    "relu in place": lambda x: F.relu(x.t() + 1, inplace=True),
    "copied": in_place(lambda y: y.t().copy_(y.t() * 3), lambda y: y.t()),
    "out": lambda x: torch.add(x, 1, out=torch.empty(3, 4)).t(),
    "t_": in_place(lambda y: y.t_(), lambda y: (y, y * 2)),
    "unsqueeze_": in_place(lambda y: y.unsqueeze_(0)),
    "an argument in place": in_place(lambda y: y.mul_(2), lambda y: y + 1, lambda x: x.detach()),
    "view after a break": broken(lambda x: (x + 1).t(), lambda y: y.t().view(-1)),
    "as_strided after a break": broken(
        lambda x: (x + 1).t(), lambda y: y.as_strided((3, 2), (1, 3))
    ),
    "view of an argument after a break": broken(
        lambda x: (x.t(), x.sum()), lambda y: (y[0].t().view(-1), y[1])
    ),
    "gradients enabled": enabled,
    "gradients disabled": disabled,
}
IMAGE = {  # [1, 2, 4, 4], contiguous and channels_last
    "conv": CONV,
    "conv of one channel": ONE,
    "conv with weights of channels_last": CONV_LAST,
    "conv, view after a break": broken(CONV, lambda y: y.permute(0, 2, 3, 1).reshape(-1)),
    "conv, as_strided after a break": broken(CONV, lambda y: y.as_strided((4, 4), (1, 4))),
    "conv to channels_last": lambda x: CONV(x).to(memory_format=torch.channels_last),
    "batch norm": lambda x: (NORM(x), NORM(x).relu_(), F.instance_norm(x), F.group_norm(x, 2)),
    "pools": lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)),
    "permuted": lambda x: (x.permute(0, 2, 3, 1), (x + 1).permute(0, 2, 3, 1), x.flatten(2)),
    "resized": lambda x: (F.interpolate(x, scale_factor=2), F.pixel_unshuffle(x, 2)),
    "activations": lambda x: (F.silu(x), F.gelu(x), F.hardtanh(x), x.clamp(0, 1), x.sigmoid()),
    "images joined": lambda x: (torch.cat([x, x], 1), x.chunk(2, 1), torch.stack([x, x])),
    "image padded": lambda x: (
        F.pad(x, (1, 1, 1, 1)),
        F.softmax(x, 1),
        x.mean((2, 3), keepdim=True),
    ),
}
SEQUENCE = {  # [3, 2, 4]
    "lstm": LSTM,
    "gru": lambda x: GRU(x)[0],
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x.clone()),
    "heads": lambda x: LINEAR(x).transpose(1, 2),
    "bmm": lambda x: (torch.bmm(x, x.mT), x.transpose(0, 1) @ x.transpose(0, 1).mT),
}
