"""Writes tests/fixtures/torch/<network>.txt: what PyTorch computes for the networks of src/models.

    python3 tests/tools/make_torch_fixtures.py [NETWORK ... | dialect]

`dialect` writes dialect.txt instead, for the small problems of torch_dialect.py; nothing named: all of it. The large
networks of torch_networks.py need torchvision, 10 GB of memory (vgg16) and a few minutes each.

Weights, inputs, labels and dropout masks are Philox numbers (philox.py), which the test draws again, so a file holds
results only. Everything is computed in float64; beside each number stands the distance of the same computation in
float32, because the test allows twice that where it is more than the usual tolerance.

A file is made of lines; the first word says what a line is:
    framework TEXT                                       who made it
    network NAME, batch N, seed N, classes N, input SIZES levels L   (L > 0: whole numbers 0 .. L - 1 over L - 1)
    param NAME SHAPE LOW HIGH NORM DISTANCE PROJECTION DISTANCE      bounds, and the gradient of step 1
    buffer NAME COUNT NORM DISTANCE PROJECTION DISTANCE              after the last step of the first setting
    setting CLIP ; OPTIMIZER ; SCHEDULE                  in Brasa's words; the two lines after it belong to it
    losses ...                                           of five training steps, then of one evaluation after them
    distances ...                                        of float32
"""
import functools
import math
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

import philox
import torch_dialect
import torch_networks

STEPS = 5
NUDGES = 8
SEED = 20180521
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "torch")


class Dropout:
    """The n-th dropout layer multiplies by the mask that Brasa draws for it."""

    def __init__(self):
        self.layer = self.step = 0
        self.training = True

    def start(self, step, training):
        self.layer, self.step, self.training = 0, step, training

    def __call__(self, x, p):
        if not self.training:
            return x
        u = philox.unit(SEED, philox.DROPOUT, self.layer, x.numel(), self.step)
        self.layer += 1
        return x * torch.from_numpy((u >= p) / (1 - p)).reshape(x.shape).to(x.dtype)


class MnistCnn(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dense1, self.dense2 = nn.Linear(9216, 128), nn.Linear(128, classes)

    def forward(self, x, dropout):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = dropout(F.max_pool2d(x, 2), 0.25).flatten(1)
        return self.dense2(dropout(F.relu(self.dense1(x)), 0.5))


class CifarCnn(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, padding="same"), nn.Conv2d(32, 32, 3)
        self.conv3, self.conv4 = nn.Conv2d(32, 64, 3, padding="same"), nn.Conv2d(64, 64, 3)
        self.dense1, self.dense2 = nn.Linear(2304, 512), nn.Linear(512, classes)

    def forward(self, x, dropout):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = dropout(F.max_pool2d(x, 2), 0.25)
        x = F.relu(self.conv4(F.relu(self.conv3(x))))
        x = dropout(F.max_pool2d(x, 2), 0.25).flatten(1)
        return self.dense2(dropout(F.relu(self.dense1(x)), 0.5))


class LetterMlp(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.dense1, self.dense2, self.dense3 = nn.Linear(16, 50), nn.Linear(50, 22), nn.Linear(22, classes)

    def forward(self, x, dropout):
        x = dropout(F.relu(self.dense1(x)), 0.2)
        x = dropout(F.relu(self.dense2(x)), 0.2)
        return self.dense3(x)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.shortcut(x) if self.shortcut else x))


class TinyResnet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.block1, self.block2 = Block(16, 16, 1), Block(16, 32, 2)
        self.dense = nn.Linear(32, classes)

    def forward(self, x, dropout):
        x = F.relu(self.bn(self.conv(x)))
        x = self.block2(self.block1(x))
        return self.dense(F.adaptive_avg_pool2d(x, 1).flatten(1))


class TinyInception(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.a1 = nn.Conv2d(16, 8, 1)
        self.b1, self.b2 = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 12, 3, padding=1)
        self.c1, self.c2 = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 8, 5, padding=2)
        self.d1 = nn.Conv2d(16, 8, 1)
        self.dense = nn.Linear(36 * 8 * 8, classes)

    def forward(self, x, dropout):
        x = F.max_pool2d(F.relu(self.conv(x)), 3, 2, 1)
        x = F.local_response_norm(x, 5)
        a = F.relu(self.a1(x))
        b = F.relu(self.b2(F.relu(self.b1(x))))
        c = F.relu(self.c2(F.relu(self.c1(x))))
        d = F.relu(self.d1(F.max_pool2d(x, 3, 1, 1)))
        x = F.avg_pool2d(torch.cat([a, b, c, d], 1), 2)
        return self.dense(dropout(x.flatten(1), 0.4))


NETWORKS = {  # name: class, input, classes, batch, levels
    "mnist_cnn": (MnistCnn, (1, 28, 28), 10, 8, 0),
    "cifar10_cnn": (CifarCnn, (3, 32, 32), 10, 8, 0),
    "cifar100_cnn": (CifarCnn, (3, 32, 32), 100, 8, 0),
    "letter_mlp": (LetterMlp, (16,), 26, 32, 16),
    "tiny_resnet": (TinyResnet, (3, 32, 32), 10, 8, 0),
    "tiny_inception": (TinyInception, (3, 32, 32), 10, 8, 0),
}
LARGE = torch_networks.NETWORKS
NETWORKS.update({name: (make, size, 1000, 2, 0) for name, (make, size, _) in LARGE.items()})


def cosine(opt):
    """Warm-up over 2 steps, then half a cosine over 4."""
    rise = lr_scheduler.LinearLR(opt, start_factor=0.5, end_factor=1, total_iters=1)
    return lr_scheduler.SequentialLR(opt, [rise, lr_scheduler.CosineAnnealingLR(opt, 4, eta_min=0.001)], [2])


SGD, RMSPROP, ADADELTA = torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adadelta
ADAM, ADAMW = torch.optim.Adam, torch.optim.AdamW
SETTINGS = [  # optimizer and schedule in Brasa's words, the norm to clip to, and the same in PyTorch
    ("sgd lr=0.05", "", 0, lambda p: SGD(p, lr=0.05), None),
    ("sgd lr=0.02 momentum=0.9", "", 0, lambda p: SGD(p, lr=0.02, momentum=0.9), None),
    ("sgd lr=0.02 momentum=0.9 nesterov weight_decay=5e-4", "", 0,
     lambda p: SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4), None),
    ("sgd lr=0.05 decay=0.25", "", 0, lambda p: SGD(p, lr=0.05),
     lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + 0.25 * t))),
    ("rmsprop lr=0.0005", "", 0, lambda p: RMSPROP(p, lr=0.0005), None),
    ("rmsprop lr=0.0002 momentum=0.9", "", 0, lambda p: RMSPROP(p, lr=0.0002, momentum=0.9), None),
    ("adadelta", "", 0, lambda p: ADADELTA(p), None),
    ("adam", "", 0, lambda p: ADAM(p), None),
    ("adamw lr=0.002 weight_decay=0.5", "", 0,
     lambda p: ADAMW(p, lr=0.002, weight_decay=0.5), None),
    ("sgd lr=0.1", "", 0.5, lambda p: SGD(p, lr=0.1), None),
    ("sgd lr=0.05 momentum=0.9", "cosine steps=6 warmup=2 floor=0.001", 0,
     lambda p: SGD(p, lr=0.05, momentum=0.9), cosine),
    ("sgd lr=0.1", "step every=2 gamma=0.5", 0, lambda p: SGD(p, lr=0.1), lambda o: lr_scheduler.StepLR(o, 2, 0.5)),
]


def settings(name):
    """The large networks take one: what an optimizer does to a parameter does not depend on the network."""
    if name in LARGE:
        rate = LARGE[name][2]
        return [(f"sgd lr={rate:g} momentum=0.9", "", 0, lambda p: SGD(p, lr=rate, momentum=0.9), None)]
    return SETTINGS


def bounds(name, net):
    """Where each parameter is drawn from, in order: 1 / sqrt(fan in), and ranges of their own for batch norm.

    In the large networks weights are wider, as He's are, or nothing of the input would reach the end of VGG. And batch
    norm leaves most values above zero there: after fifty layers that cut off half of them, float32 and float64 differ
    in too many of the cuts for their gradients to be compared.
    """
    large = name in LARGE
    found = {}
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            b = 1 / math.sqrt(module.weight[0].numel())
            w = math.sqrt(6) * b if large else b
            found[module.weight] = (-w, w)
            if module.bias is not None:
                found[module.bias] = (-b, b)
        elif isinstance(module, nn.BatchNorm2d):
            found[module.weight], found[module.bias] = ((0.5, 1), (1.5, 4)) if large else ((0.5, 1.5), (-0.5, 0.5))
    return [found[p] for p in net.parameters()]


def sample(name, step):
    """The inputs and labels of a step."""
    _, size, classes, batch, levels = NETWORKS[name]
    x = philox.uniform(SEED, philox.INPUT + step, (batch, *size), 0, 1)
    if levels:
        x = philox.levels(SEED, philox.INPUT + step, (batch, *size), levels)
    labels = (philox.unit(SEED, philox.TEST, philox.LABEL + step, batch) * classes).astype("int64")
    return x, torch.from_numpy(labels)


@functools.lru_cache(None)
def uniform(stream, shape, low, high):
    """Drawn once, though a network is trained many times."""
    return torch.from_numpy(philox.uniform(SEED, stream, shape, low, high)).float()  # which they are


def measure(tensor, stream):
    """The norm of a tensor and its dot product with random numbers, in double."""
    x = tensor.detach().double().reshape(-1)
    return x.norm().item(), torch.dot(x, uniform(stream, tuple(x.shape), -1, 1).double()).item()


def cross_entropy(logits, labels):
    """Auxiliary heads weigh 0.3."""
    if not isinstance(logits, tuple):
        return F.cross_entropy(logits, labels)
    return sum(w * F.cross_entropy(x, labels) for w, x in zip((1, 0.3, 0.3), logits))


def nudge(net, seed):
    """Moves every parameter by up to four units in the last place of a float."""
    generator = torch.Generator().manual_seed(seed)
    for p in net.parameters():
        noise = torch.rand(p.shape, generator=generator, dtype=torch.float64) * 2 - 1
        p.data = (p.data.double() * (1 + noise * 2**-22)).to(p.dtype)


def train(name, setting, dtype, nudged=0):
    """Five steps and one evaluation; returns losses, the gradients of step 1 and the final buffers, measured. From
    nudged weights the gradients alone."""
    _, _, clip, make_optimizer, make_schedule = setting
    net = NETWORKS[name][0](NETWORKS[name][2]).to(dtype)
    for i, (p, (low, high)) in enumerate(zip(net.parameters(), bounds(name, net))):
        p.data = uniform(i, tuple(p.shape), low, high).to(dtype, copy=True)
    if nudged:
        nudge(net, nudged)
    optimizer = make_optimizer(net.parameters())
    schedule = make_schedule(optimizer) if make_schedule else None
    dropout = Dropout()
    losses, gradients = [], []
    for step in range(STEPS + 1):
        training = step < STEPS
        net.train(training)
        dropout.start(step, training)
        x, labels = sample(name, step)
        loss = cross_entropy(net(torch.from_numpy(x).to(dtype), dropout), labels)
        losses.append(loss.item())
        if not training:
            break
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            gradients = [measure(p.grad, philox.PROJECTION + i) for i, p in enumerate(net.parameters())]
            if nudged:
                break
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        if schedule:
            schedule.step()
    kept = [b for b in net.buffers() if b.dim()]
    return losses, gradients, [measure(b, philox.BUFFER + i) for i, b in enumerate(kept)]


def train_rounded(name, setting):
    """In float32: losses, gradients and buffers, each of several runs, since chance has a part in how far off they are.
    One value that is rounded past zero, or past another one, takes another way through ReLU or pooling, and its
    gradient with it: in one channel of a batch norm that was seen to weigh a thousand times more than all other
    rounding. So the large networks run with oneDNN's kernels, without them, and from nudged weights."""
    runs = [train(name, setting, torch.float32)]
    if name in LARGE:
        with torch.backends.mkldnn.flags(enabled=False):
            runs.append(train(name, setting, torch.float32))
    losses, gradients, buffers = map(list, zip(*runs))
    if name in LARGE:
        gradients += [train(name, setting, torch.float32, n + 1)[1] for n in range(NUDGES)]
    return losses, gradients, buffers


def distance(exact, rounded):
    return f"{max(abs(exact - r) for r in rounded):.2g}"


def pairs(exact, rounded):
    """NORM DISTANCE PROJECTION DISTANCE"""
    return " ".join(f"{e:.17g} {distance(e, r)}" for e, r in zip(exact, zip(*rounded)))


def write(name):
    kind, size, classes, batch, levels = NETWORKS[name]
    net = kind(classes)
    lines = [
        f"framework PyTorch {torch.__version__}",
        f"network {name}",
        f"batch {batch}",
        f"seed {SEED}",
        f"classes {classes}",
        f"input {'x'.join(map(str, size))} levels {levels}",
    ]
    for k, setting in enumerate(settings(name)):
        exact = train(name, setting, torch.float64)
        losses, gradients, buffers = ([*zip(*results)] for results in train_rounded(name, setting))
        if k == 0:
            for (title, p), (low, high), e, r in zip(net.named_parameters(), bounds(name, net), exact[1], gradients):
                shape = "x".join(map(str, p.shape))
                lines.append(f"param {title} {shape} {low:.17g} {high:.17g} {pairs(e, r)}")
            kept = [(title, b) for title, b in net.named_buffers() if b.dim()]
            for (title, b), e, r in zip(kept, exact[2], buffers):
                lines.append(f"buffer {title} {b.numel()} {pairs(e, r)}")
        lines.append(f"setting {setting[2]:g} ; {setting[0]} ; {setting[1]}".rstrip())
        lines.append("losses " + " ".join(f"{v:.17g}" for v in exact[0]))
        lines.append("distances " + " ".join(distance(e, r) for e, r in zip(exact[0], losses)))
    with open(os.path.join(FOLDER, name + ".txt"), "w") as f:
        f.write("\n".join(lines) + "\n")
    uniform.cache_clear()
    print(f"{name}: {sum(p.numel() for p in net.parameters())} parameters, {len(settings(name))} settings")


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or [*NETWORKS, "dialect"]:
        if name == "dialect":
            torch_dialect.write()
        else:
            write(name)
