"""Forward passes in float64, from a flat genome whose variables follow each other row by row in Keras' order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Layer = Callable[["Genome", np.ndarray], np.ndarray]


class Genome:
    """Hands out a genome's weights in order."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.used = np.asarray(weights, np.float64), 0

    def take(self, *shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        part = self.weights[self.used : self.used + size]
        self.used += size
        return part.reshape(shape)


def network(layers: Sequence[Layer]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a function from a genome `[P]` and inputs `[N, ...]` to output rows `[I, K]`."""

    def rows(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        genome, y = Genome(weights), np.asarray(x, np.float64)
        for layer in layers:
            y = layer(genome, y)
        assert genome.used == len(genome.weights), "every weight belongs to some layer"
        return y.reshape(-1, y.shape[-1])

    return rows


def identity(z: np.ndarray) -> np.ndarray:
    return z


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def selu(z: np.ndarray) -> np.ndarray:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * np.where(z > 0, z, alpha * (np.exp(np.minimum(z, 0)) - 1))


def dense(units: int, activation: Callable[[np.ndarray], np.ndarray] = identity) -> Layer:
    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel, bias = genome.take(x.shape[-1], units), genome.take(units)
        return activation(x @ kernel + bias)

    return run


def simple_rnn(units: int, *, sequences: bool = False) -> Layer:
    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel, recurrent, bias = genome.take(x.shape[-1], units), genome.take(units, units), genome.take(units)
        hidden, seen = np.zeros((len(x), units)), []
        for t in range(x.shape[1]):
            hidden = np.tanh(x[:, t] @ kernel + hidden @ recurrent + bias)
            seen.append(hidden)
        return np.stack(seen, axis=1) if sequences else hidden

    return run


def gru(units: int, *, sequences: bool = False) -> Layer:
    """Gates in the order update, reset, new; the reset gate is applied after the product."""

    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel, recurrent = genome.take(x.shape[-1], 3 * units), genome.take(units, 3 * units)
        outer, inner = genome.take(2, 3 * units)
        hidden, seen = np.zeros((len(x), units)), []
        for t in range(x.shape[1]):
            a, b = x[:, t] @ kernel + outer, hidden @ recurrent + inner
            update = sigmoid(a[:, :units] + b[:, :units])
            reset = sigmoid(a[:, units : 2 * units] + b[:, units : 2 * units])
            new = np.tanh(a[:, 2 * units :] + reset * b[:, 2 * units :])
            hidden = update * hidden + (1 - update) * new
            seen.append(hidden)
        return np.stack(seen, axis=1) if sequences else hidden

    return run


def lstm(units: int, *, sequences: bool = False) -> Layer:
    """Gates in the order input, forget, candidate, output."""

    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel, recurrent = genome.take(x.shape[-1], 4 * units), genome.take(units, 4 * units)
        bias = genome.take(4 * units)
        hidden = carry = np.zeros((len(x), units))
        seen = []
        for t in range(x.shape[1]):
            z = x[:, t] @ kernel + hidden @ recurrent + bias
            i, f, c, o = (z[:, j * units : (j + 1) * units] for j in range(4))
            carry = sigmoid(f) * carry + sigmoid(i) * np.tanh(c)
            hidden = sigmoid(o) * np.tanh(carry)
            seen.append(hidden)
        return np.stack(seen, axis=1) if sequences else hidden

    return run


def conv2d(filters: int, size: int, *, stride: int = 1, padding: str = "valid") -> Layer:
    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel, bias = genome.take(size, size, x.shape[-1], filters), genome.take(filters)
        return np.tanh(convolved(x, kernel, stride=stride, padding=padding) + bias)

    return run


def conv_lstm2d(filters: int, size: int, *, stride: int = 1, padding: str = "valid", sequences: bool = False) -> Layer:
    """Gates in the order input, forget, candidate, output; the state is convolved at every place, whatever x is."""

    def run(genome: Genome, x: np.ndarray) -> np.ndarray:
        kernel = genome.take(size, size, x.shape[-1], 4 * filters)
        recurrent, bias = genome.take(size, size, filters, 4 * filters), genome.take(4 * filters)
        hidden = carry = None
        seen = []
        for t in range(x.shape[1]):
            z = convolved(x[:, t], kernel, stride=stride, padding=padding) + bias
            if hidden is None:
                hidden = carry = np.zeros((*z.shape[:-1], filters))
            z = z + convolved(hidden, recurrent, stride=1, padding="same")
            i, f, c, o = (z[..., j * filters : (j + 1) * filters] for j in range(4))
            carry = sigmoid(f) * carry + sigmoid(i) * np.tanh(c)
            hidden = sigmoid(o) * np.tanh(carry)
            seen.append(hidden)
        return np.stack(seen, axis=1) if sequences else seen[-1]

    return run


def convolved(x: np.ndarray, kernel: np.ndarray, *, stride: int, padding: str) -> np.ndarray:
    """Convolve one output place at a time; "same" pads so that ceil(n / stride) places fit, more behind."""
    size = len(kernel)
    if padding == "same":
        missing = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in x.shape[1:3]]
        around = [(m // 2, m - m // 2) for m in missing]
        x = np.pad(x, [(0, 0), *around, (0, 0)])
    height, width = ((n - size) // stride + 1 for n in x.shape[1:3])
    y = np.zeros((len(x), height, width, kernel.shape[-1]))
    for r in range(height):
        for c in range(width):
            seen = x[:, r * stride : r * stride + size, c * stride : c * stride + size]
            y[:, r, c] = np.tensordot(seen, kernel, axes=3)
    return y


def average_pool(genome: Genome, x: np.ndarray) -> np.ndarray:
    return x.mean(axis=(1, 2))
