"""A decoder like Llama generates with a growing cache, eager and by torch.compile on NNAPI."""

from time import perf_counter

import torch
from torch import Tensor, nn

WIDTH, HEADS, KEYS, VOCABULARY = 128, 4, 2, 1000
DIM = WIDTH // HEADS
Cache = tuple[Tensor, Tensor]


class Layer(nn.Module):
    """Attention with rotary positions and shared keys, and a gated feed-forward layer."""

    def __init__(self) -> None:
        """Draws the weights."""
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.query, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, KEYS * DIM, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Returns x [1, length, WIDTH] after this layer, and the cache with its keys and values."""
        y = self.norms[0](x)
        q, k, v = (part(y).unflatten(-1, (-1, DIM)).transpose(1, 2) for part in self.parts())
        past = 0 if cache is None else cache[0].shape[2]
        places = torch.arange(past, past + x.shape[1])
        q, k = turned(q, places), turned(k, places)
        if cache is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (k, v), strict=True))
        seen = torch.arange(k.shape[2]) <= places[:, None]
        keys, values = (t.repeat_interleave(HEADS // KEYS, dim=1) for t in (k, v))
        scores = q @ keys.transpose(2, 3) / DIM**0.5
        mixed = scores.masked_fill(~seen, -1e9).softmax(-1) @ values
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), (k, v)

    def parts(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        """What computes queries, keys and values."""
        return self.query, self.key, self.value


def turned(x: Tensor, places: Tensor) -> Tensor:
    """Returns x [1, heads, length, DIM] turned by angles that grow with the positions."""
    angles = places[:, None] * 10000.0 ** -torch.linspace(0, 1, DIM // 2)
    cos, sin = (torch.cat((f, f), -1) for f in (angles.cos(), angles.sin()))
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Decoder(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        """Draws the weights."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor, caches: list[Cache | None]) -> tuple[Tensor, list[Cache]]:
        """Returns the scores after ids [1, length], and the longer caches."""
        x, longer = self.embedding(ids), []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, made = layer(x, cache)
            longer.append(made)
        return self.head(x[:, -1]), longer


@torch.inference_mode()
def generate(forward: nn.Module, prompt: Tensor, count: int = 40) -> tuple[list[int], float]:
    """Returns the likeliest tokens after the prompt, and milliseconds for each."""
    ids, caches, tokens = prompt, [None, None], []
    began = perf_counter()
    for _ in range(count):
        scores, caches = forward(ids, caches)
        ids = scores.argmax(-1, keepdim=True)
        tokens.append(int(ids))
    return tokens, 1e3 * (perf_counter() - began) / count


def main() -> None:
    """Prints whether the tokens are equal, and times from the second call on."""
    torch.manual_seed(0)
    model = Decoder().eval()
    compiled = torch.compile(model, backend="ep_nnapi", dynamic=True)
    generate(compiled, torch.tensor([[3, 1, 4]]))  # compiles: once for prompts, once for tokens
    for prompt in (torch.tensor([[3, 1, 4]]), torch.tensor([[2, 7, 1, 8, 2]])):
        (want, eager), (got, ours) = min(
            ((generate(model, prompt), generate(compiled, prompt)) for _ in range(5)),
            key=lambda pair: pair[1][1] / pair[0][1],
        )
        same = "equal" if got == want else "DIFFERENT"
        print(f"{len(got)} {same} tokens: {ours:.2g} ms each, eager {eager:.2g} ms")


if __name__ == "__main__":
    main()
