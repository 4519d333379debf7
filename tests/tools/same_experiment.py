#!/usr/bin/env python3
"""Trains one of the third study's experiments in Brasa and in PyTorch: the accuracies of docs/training.md.

    python3 tests/tools/same_experiment.py mnist|cifar10|letter --data PATH [--seed N] [--folds N]

Run it with a Python that has torch and numpy. PATH is the folder of MNIST's or CIFAR-10's files, or Letter's file.
Both start from the same weights, train and test on the same samples, follow the same equations (Keras 2's; in PyTorch
by its settings), see the batches in the same order and drop out the same elements: what is left is rounding, which
grows over thousands of steps.
"""
import argparse
import glob
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch import nn

import philox


class Dropout(nn.Module):
    """Draws the numbers that Brasa draws: those of (seed, layer, step)."""

    seed = step = 0

    def __init__(self, p, layer):
        super().__init__()
        self.p, self.layer = p, layer

    def forward(self, x):
        if not self.training:
            return x
        u = philox.unit(Dropout.seed, philox.DROPOUT, self.layer, x.numel(), Dropout.step)
        return x * torch.from_numpy(((u >= self.p) / (1 - self.p)).astype(numpy.float32)).reshape(x.shape)


def mnist_cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         Dropout(0.25, 0), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), Dropout(0.5, 1),
                         nn.Linear(128, 10))


def cifar10_cnn():
    def pair(inputs, channels, layer):
        return [nn.Conv2d(inputs, channels, 3, padding="same"), nn.ReLU(), nn.Conv2d(channels, channels, 3),
                nn.ReLU(), nn.MaxPool2d(2), Dropout(0.25, layer)]

    return nn.Sequential(*pair(3, 32, 0), *pair(32, 64, 1), nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(),
                         Dropout(0.5, 2), nn.Linear(512, 10))


def letter_mlp():
    return nn.Sequential(nn.Linear(16, 50), nn.ReLU(), Dropout(0.2, 0), nn.Linear(50, 22), nn.ReLU(), Dropout(0.2, 1),
                         nn.Linear(22, 26))


# PyTorch's Adadelta and RMSprop are Keras 2's with these settings, and so is SGD without momentum.
EXPERIMENTS = {
    "mnist": (mnist_cnn, ("conv1", "conv2", "fc1", "fc2"), 12, 0,
              lambda p: torch.optim.Adadelta(p, lr=1.0, rho=0.95, eps=1e-7)),
    "cifar10": (cifar10_cnn, ("conv1", "conv2", "conv3", "conv4", "fc1", "fc2"), 12, 1e-6,
                lambda p: torch.optim.RMSprop(p, lr=1e-4, alpha=0.9, eps=1e-7)),
    "letter": (letter_mlp, ("fc1", "fc2", "fc3"), 300, 1e-7, lambda p: torch.optim.SGD(p, lr=0.001)),
}
BATCH = 128
DATA_PURPOSE, ORDER = 3, 2  # of src/core/random.h and src/data/streams.h


def read_idx(folder, name):
    with gzip.open(os.path.join(folder, name + ".gz")) as f:
        data = f.read()
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * data[3])


def read_mnist(folder):
    parts = ("train", "t10k")
    images = numpy.concatenate([read_idx(folder, p + "-images-idx3-ubyte") for p in parts])
    labels = numpy.concatenate([read_idx(folder, p + "-labels-idx1-ubyte") for p in parts])
    return images.reshape(-1, 1, 28, 28).astype(numpy.float32) / 255, labels


def read_cifar10(folder):
    files = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    rows = numpy.concatenate([numpy.fromfile(os.path.join(folder, f), numpy.uint8) for f in files]).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32) / 255, rows[:, 0]


def read_letter(path):
    with open(path) as f:
        rows = [line.split(",") for line in f]
    return (numpy.array([r[1:] for r in rows], numpy.float32),
            numpy.array([ord(r[0]) - ord("A") for r in rows], numpy.uint8))


DATA = {"mnist": (read_mnist, "idx:{}"), "cifar10": (read_cifar10, "cifar10:{}"),
        "letter": (read_letter, "csv:{},label=1")}


def layers_of(net):
    return [m for m in net if isinstance(m, (nn.Conv2d, nn.Linear))]


def draw(net, seed):
    """Keras 2's initial weights: uniform within sqrt(6 / (fan in + fan out)), biases zero."""
    generator = torch.Generator().manual_seed(seed)
    for layer in layers_of(net):
        outputs, inputs, *window = layer.weight.shape
        limit = math.sqrt(6 / ((inputs + outputs) * math.prod(window)))
        layer.weight.data.uniform_(-limit, limit, generator=generator)
        layer.bias.data.zero_()


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.detach().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def read_split(path):
    """split.txt: `train N`, N numbers, `test N`, N numbers."""
    parts, current = {}, None
    with open(path) as f:
        for line in f:
            words = line.split()
            if len(words) == 2:
                current = parts[words[0]] = []
            else:
                current.append(int(words[0]))
    return parts["train"], parts["test"]


def shuffled(samples, seed, epoch):
    """data_shuffle of src/data/streams.h, for the order of an epoch."""
    order, last = list(samples), len(samples) - 1
    for i, word in zip(range(last, 0, -1), philox.words(seed, DATA_PURPOSE, ORDER, last, epoch).tolist()):
        other = word * (i + 1) >> 32
        order[i], order[other] = order[other], order[i]
    return torch.tensor(order)


def train(name, start, images, labels, split, seed, epochs):
    make, _, _, decay, optimizer_of = EXPERIMENTS[name]
    Dropout.seed, Dropout.step = seed, 0
    net = make()
    net.load_state_dict(start)
    optimizer = optimizer_of(net.parameters())
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + decay * t))
    loss_of = nn.CrossEntropyLoss()
    chosen, tested = split[0], torch.tensor(split[1])
    for epoch in range(epochs):
        net.train()
        total = 0
        for batch in shuffled(chosen, seed, epoch).split(BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(net(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            rates.step()
            Dropout.step += 1
            total += loss.item() * len(batch)
        net.eval()
        with torch.no_grad():
            right = sum((net(images[b]).argmax(1) == labels[b]).sum().item() for b in tested.split(1000))
        print(f"PyTorch: epoch {epoch + 1}/{epochs}  loss {total / len(chosen):.4f}  test "
              f"{100 * right / len(tested):.1f} %", file=sys.stderr, flush=True)
    return 100 * right / len(tested)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", required=True)
    parser.add_argument("--brasa", default="build/brasa")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="the experiment's own unless given")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    read, spec = DATA[o.experiment]
    make, names, epochs, *_ = EXPERIMENTS[o.experiment]
    epochs = o.epochs or epochs
    net = make()
    draw(net, o.seed)
    start = {k: v.clone() for k, v in net.state_dict().items()}
    with tempfile.TemporaryDirectory() as work:
        weights, run = os.path.join(work, "start.safetensors"), os.path.join(work, "run")
        write_safetensors(weights, {f"{n}.{p}": getattr(layer, p) for n, layer in zip(names, layers_of(net))
                                    for p in ("weight", "bias")})
        folds = ["--folds", str(o.folds)] if o.folds else []
        begun = time.time()
        subprocess.run([o.brasa, "train", "--preset", o.experiment, "--data", spec.format(o.data), "--weights",
                        weights, "--seed", str(o.seed), "--threads", str(o.threads), "--epochs", str(epochs), "--out", run,
                        *folds],
                       check=True)
        ours_s = time.time() - begun
        folders = sorted(glob.glob(os.path.join(run, "fold-*"))) or [run]
        images, labels = read(o.data)
        images, labels = torch.from_numpy(images), torch.from_numpy(labels).long()
        ours, theirs = [], []
        begun = time.time()
        for folder in folders:
            with open(os.path.join(folder, "result.json")) as f:
                ours.append(100 * json.load(f)["accuracy"])
            theirs.append(train(o.experiment, start, images, labels,
                                read_split(os.path.join(folder, "split.txt")), o.seed, epochs))
            print(f"{os.path.basename(folder)}: Brasa {ours[-1]:.2f} %, PyTorch {theirs[-1]:.2f} %", flush=True)
        a, b = numpy.mean(ours), numpy.mean(theirs)
        print(f"{o.experiment}, seed {o.seed}: Brasa {a:.2f} % in {ours_s:.0f} s, PyTorch {torch.__version__} {b:.2f} % "
              f"in {time.time() - begun:.0f} s, difference {a - b:+.2f} points")


if __name__ == "__main__":
    main()
