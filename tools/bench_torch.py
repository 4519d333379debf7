#!/usr/bin/env python3
"""Training steps of PyTorch, in a process of their own: the other side of tools/bench.py, which starts and asks it.

    bench_torch.py NETWORK BATCH THREADS contiguous|channels_last eager|compiled

The step is that of `brasa bench step`: forward, softmax cross-entropy, backward, SGD with momentum 0.9, on one batch of
random numbers. When the network is built, compiled and warm, it prints a line of JSON; then, for every line
"SECONDS STEPS" that it reads, it runs steps for so many seconds, and so many at least, and prints what they took.
"""
import json, math, resource, statistics, sys, time

import torch
from torch import nn

LONG = 5  # seconds; of steps that take longer one is enough to warm up


def convolutions(*channels, pad):
    return [nn.Conv2d(channels[0], channels[1], 3, padding=pad), nn.ReLU(), nn.Conv2d(channels[1], channels[2], 3), nn.ReLU(),
            nn.MaxPool2d(2), nn.Dropout(0.25)]


def dense(inputs, hidden, classes):
    return [nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, classes)]


def mnist_cnn():
    return nn.Sequential(*convolutions(1, 32, 64, pad=0), *dense(9216, 128, 10))


def cifar10_cnn():
    return nn.Sequential(*convolutions(3, 32, 32, pad=1), *convolutions(32, 64, 64, pad=1), *dense(2304, 512, 10))


def letter_mlp():
    return nn.Sequential(nn.Linear(16, 50), nn.ReLU(), nn.Dropout(0.2), nn.Linear(50, 22), nn.ReLU(), nn.Dropout(0.2),
                         nn.Linear(22, 26))


SMALL = {"mnist_cnn": (mnist_cnn, (1, 28, 28), 10), "cifar10_cnn": (cifar10_cnn, (3, 32, 32), 10),
         "letter_mlp": (letter_mlp, (16,), 26)}


def build(network):
    """The network, the shape of a sample, and the classes."""
    if network in SMALL:
        make, shape, classes = SMALL[network]
        return make(), shape, classes
    import torchvision
    options = {"aux_logits": False, "init_weights": True} if network == "googlenet" else {}
    return getattr(torchvision.models, network)(num_classes=1000, **options), (3, 224, 224), 1000


def stepper(network, batch, form, compiled):
    """A function that does one training step and gives the loss."""
    torch.manual_seed(0)
    model, shape, classes = build(network)
    images, labels = torch.rand(batch, *shape), torch.randint(0, classes, (batch,))
    model.train()
    if form == "channels_last" and len(shape) == 3:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    if compiled:
        model = torch.compile(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def peak_rss_bytes():
    """The most memory of this process. ru_maxrss counts what it was before exec, too: as much as the one that started it."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(step, seconds, least):
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - before)
    if not math.isfinite(loss.item()):
        raise ArithmeticError(f"the loss is {loss.item()}")
    low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return {"median_s": median, "spread_s": high - low, "min_s": min(times), "max_s": max(times), "steps": len(times),
            "peak_rss_bytes": peak_rss_bytes()}


def main():
    network, batch, threads, form, mode = sys.argv[1:]
    torch.set_num_threads(int(threads))
    step = stepper(network, int(batch), form, mode == "compiled")
    step()  # compiles, where it does
    before = time.perf_counter()
    step()
    took = time.perf_counter() - before
    if took < LONG:
        step()
    print(json.dumps({"version": torch.__version__, "step_s": took}), flush=True)
    for line in sys.stdin:
        seconds, least = line.split()
        print(json.dumps(measure(step, float(seconds), int(least))), flush=True)


if __name__ == "__main__":
    main()
