#!/usr/bin/env python3
"""Trains mnist_cnn with a framework as its users write it, without the lab: do the lab's figures agree with it?

    PYTHON tests/tools/by_hand.py pytorch                    # a line of JSON; PYTHON is one that has the framework
    python3 tests/tools/by_hand.py --compare [NAME ...]      # lab and by hand in turn, each in the lab's environments

Nothing of lab/peers is used, so that a runner that slows its framework down, or counts what is no part of an epoch,
shows. Both train on as many pictures of the same size, with all processors. An epoch's time is the fastest of all but
the first, in which things are compiled and memory is taken; memory is the most that a process had.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

BATCH, RATE, MOMENTUM = 32, 0.01, 0.9
THREADS = len(os.sched_getaffinity(0))
EXPERIMENT = f"""network mnist_cnn
data synth:digits,n=%d
batch {BATCH}
optimizer sgd lr={RATE} momentum={MOMENTUM}
epochs %d
repeats 1
"""


# Each takes pictures (N x 1 x 28 x 28) and labels, and calls tick with the version once it is imported, and after every
# epoch.


def with_pytorch(x, y, epochs, tick):
    import torch
    from torch import nn
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset
    tick(torch.__version__)
    torch.set_num_threads(THREADS)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    loss_of, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), RATE, MOMENTUM)
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    batches = DataLoader(data, None, sampler=BatchSampler(RandomSampler(data), BATCH, False))  # samples one by one: 8 % slower
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss_of(model(images), labels).backward()
            optimizer.step()
        tick()


def with_tensorflow(x, y, epochs, tick):
    import tensorflow as tf
    import keras
    from keras import layers
    tick(tf.__version__)
    model = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2), layers.Dropout(0.25), layers.Flatten(), layers.Dense(128, activation="relu"),
        layers.Dropout(0.5), layers.Dense(10)])
    model.compile(keras.optimizers.SGD(RATE, MOMENTUM), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: tick())
    model.fit(x.reshape(-1, 28, 28, 1), y, BATCH, epochs, verbose=0, callbacks=[told])


def with_paddle(x, y, epochs, tick):
    os.environ["OMP_NUM_THREADS"] = os.environ["FLAGS_paddle_num_threads"] = str(THREADS)  # both are one else
    import paddle
    from paddle import nn
    tick(paddle.__version__)

    class Pictures(paddle.io.Dataset):
        def __len__(self):
            return len(y)

        def __getitem__(self, i):
            return x[i], y[i]

    model = nn.Sequential(
        nn.Conv2D(1, 32, 3), nn.ReLU(), nn.Conv2D(32, 64, 3), nn.ReLU(), nn.MaxPool2D(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    loss_of, optimizer = nn.CrossEntropyLoss(), paddle.optimizer.Momentum(RATE, MOMENTUM, model.parameters())
    batches = paddle.io.DataLoader(Pictures(), batch_size=BATCH, shuffle=True)
    for _ in range(epochs):
        for images, labels in batches:
            loss_of(model(images), labels).backward()
            optimizer.step()
            optimizer.clear_grad()
        tick()


def with_mxnet(x, y, epochs, tick):
    os.environ["OMP_NUM_THREADS"] = str(THREADS)  # half of it else
    import mxnet
    from mxnet import autograd, gluon
    from mxnet.gluon import nn
    tick(mxnet.__version__)
    model = nn.HybridSequential()
    model.add(nn.Conv2D(32, 3, activation="relu"), nn.Conv2D(64, 3, activation="relu"), nn.MaxPool2D(2),
              nn.Dropout(0.25), nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dropout(0.5), nn.Dense(10))
    model.initialize()
    model.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": RATE, "momentum": MOMENTUM})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), BATCH, shuffle=True)
    for _ in range(epochs):
        for images, labels in batches:
            with autograd.record():
                loss = loss_of(model(images), labels)
            loss.backward()
            trainer.step(len(labels))
        mxnet.nd.waitall()
        tick()


def random_weights():
    """For those who have no layers: weights (kernels H x W x I x O, inputs x outputs) and biases."""
    import numpy
    draw = numpy.random.default_rng(1)
    return [(draw.normal(0, (2 / numpy.prod(s[:-1])) ** 0.5, s).astype("float32"), numpy.zeros(s[-1], "float32"))
            for s in ((3, 3, 1, 32), (3, 3, 32, 64), (9216, 128), (128, 10))]


def with_jax(x, y, epochs, tick):
    import numpy
    import jax
    from jax import lax, nn, numpy as jnp, random
    tick(jax.__version__)

    def dropout(x, p, key):
        return jnp.where(random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)

    def loss_of(params, x, y, key):
        keys = random.split(key)
        for w, b in params[:2]:
            x = nn.relu(lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = dropout(x, 0.25, keys[0]).reshape(len(x), -1)
        x = dropout(nn.relu(x @ params[2][0] + params[2][1]), 0.5, keys[1])
        logits = nn.log_softmax(x @ params[3][0] + params[3][1])
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    def update(params, speeds, x, y, key):
        grads = jax.grad(loss_of)(params, x, y, key)
        speeds = jax.tree.map(lambda v, g: MOMENTUM * v + g, speeds, grads)
        return jax.tree.map(lambda p, v: p - RATE * v, params, speeds), speeds

    update = jax.jit(update, donate_argnums=(0, 1))
    params = jax.tree.map(jnp.asarray, random_weights())
    speeds = jax.tree.map(jnp.zeros_like, params)
    x, y, key, draw = x.reshape(-1, 28, 28, 1), y.astype("int32"), random.key(1), numpy.random.default_rng(1)
    for _ in range(epochs):
        order = draw.permutation(len(y))
        for first in range(0, len(y), BATCH):
            chosen, (key, now) = order[first:first + BATCH], random.split(key)
            params, speeds = update(params, speeds, x[chosen], y[chosen], now)
        jax.block_until_ready(params)
        tick()


def with_aesara(x, y, epochs, tick):
    import numpy, scipy
    blas = glob.glob(os.path.dirname(scipy.__path__[0]) + "/scipy.libs/libopenblas*")  # it looks for it elsewhere
    os.environ["AESARA_FLAGS"] = "floatX=float32,openmp=True" + (
        ",blas__ldflags=-L%s -l:%s" % os.path.split(blas[0]) if blas else "")
    import aesara
    import aesara.tensor as at
    from aesara.sandbox.rng_mrg import MRG_RandomStream
    from aesara.tensor import nnet
    from aesara.tensor.signal.pool import pool_2d
    tick(aesara.__version__)
    draw, images, labels = MRG_RandomStream(1), at.tensor4(), at.lvector()
    params = [[aesara.shared(numpy.ascontiguousarray(w.transpose(3, 2, 0, 1) if w.ndim == 4 else w)), aesara.shared(b)]
              for w, b in random_weights()]

    def dropout(v, p):
        return v * draw.binomial(v.shape, p=1 - p, ndim=v.ndim, dtype="float32") / numpy.float32(1 - p)

    v = images
    for (w, b), shape in zip(params, ((None, 1, 28, 28), (None, 32, 26, 26))):
        v = nnet.relu(nnet.conv2d(v, w, shape, w.get_value().shape) + b.dimshuffle("x", 0, "x", "x"))
    v = dropout(pool_2d(v, (2, 2), True), 0.25).flatten(2)
    v = dropout(nnet.relu(at.dot(v, params[2][0]) + params[2][1]), 0.5)
    loss = nnet.categorical_crossentropy(nnet.softmax(at.dot(v, params[3][0]) + params[3][1], axis=1), labels).mean()
    updates, learnt = [], [p for pair in params for p in pair]
    for p, g in zip(learnt, aesara.grad(loss, learnt)):
        speed = aesara.shared(numpy.zeros_like(p.get_value()))
        new = MOMENTUM * speed + g
        updates += [(speed, new), (p, p - RATE * new)]
    train = aesara.function([images, labels], loss, updates=updates)
    for _ in range(epochs):
        order = numpy.random.permutation(len(y))
        for first in range(0, len(y), BATCH):
            chosen = order[first:first + BATCH]
            train(x[chosen], y[chosen])
        tick()


FRAMEWORKS = {name[5:]: function for name, function in list(globals().items()) if name.startswith("with_")}


def by_hand(name, samples, epochs):
    """One framework, in this process: its line."""
    import numpy
    draw, ticks, versions = numpy.random.default_rng(0), [], []

    def tick(version=None):
        ticks.append(time.monotonic())
        versions.append(version)

    x, y = draw.random((samples, 1, 28, 28), "float32"), draw.integers(0, 10, samples)
    ticks.append(time.monotonic())
    FRAMEWORKS[name](x, y, epochs, tick)
    seconds = [round(b - a, 4) for a, b in zip(ticks, ticks[1:])]
    return {"framework": name, "version": versions[0], "import_s": seconds[0], "epochs_s": seconds[1:]}


# --- beside the lab -------------------------------------------------------------------------------------------------


def lab(o, name, folder):
    """The lab's row of the same, or None and why there is none."""
    file, store = os.path.join(folder, "by_hand.txt"), o.store or os.path.join(folder, "lab.db")
    with open(file, "w") as text:
        text.write(EXPERIMENT % (o.samples, o.epochs))
    words = [o.brasa, "lab", "run", file, "--peers", name, "--store", store, "--quiet", "--out", folder + "/page.html"]
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    told = subprocess.run([o.brasa, "lab", "report", "--json", "--store", store], stdout=subprocess.PIPE, check=True)
    row = json.loads(told.stdout)["rows"][0]
    return (row, None) if row["epochs"] else (None, row["reason"])


def watch(words):
    """What a run by hand said last, and the most memory that it had, its end included: there is a peak of PyTorch's."""
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        said = process.stdout.read()
        _, how, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(how)
    if process.returncode:
        sys.exit(f"{words[2]} by hand ended with {process.returncode}")
    return json.loads(said.splitlines()[-1]), usage.ru_maxrss * 1024


def compare(o):
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    peers = os.environ.get("BRASA_PEERS") or os.path.join(home, "brasa/peers")
    found = {name: {"lab": [], "hand": []} for name in o.names or FRAMEWORKS}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(o.rounds):
            for name, runs in found.items():
                python = os.path.join(peers, name, "bin/python")
                if not os.path.exists(python):
                    sys.exit(f"{python} is missing: brasa lab install {name}")
                row, why = lab(o, name, folder)
                if not row:
                    sys.exit(f"{name}: the lab has no times: {why}")
                runs["lab"].append(([e["seconds"] for e in row["epochs"]], row["peak_memory"], row["version"]))
                words = [python, __file__, name, f"--samples={o.samples}", f"--epochs={o.epochs}"]
                line, memory = watch(words)
                runs["hand"].append((line["epochs_s"], memory, line["version"]))
                for who in ("lab", "hand"):
                    print(turn + 1, name, who, *(f"{s:.3f}" for s in runs[who][-1][0]), file=sys.stderr)
    print("| framework | lab: s an epoch | by hand | ratio | lab: MB | by hand | ratio |")
    print("|---|" + "---|" * 6)
    for name, runs in found.items():
        cells = [name + " " + runs["hand"][0][2]]
        for figures, digits in (((min(min(r[0][1:]) for r in runs[who]) for who in runs), 2),
                                ((min(r[1] for r in runs[who]) / 1e6 for who in runs), 0)):
            ours, theirs = figures
            cells += [f"{ours:.{digits}f}", f"{theirs:.{digits}f}", f"{ours / theirs:.2f}"]
        print("| " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    p.add_argument("--compare", action="store_true", help="with the lab: a table of Markdown")
    p.add_argument("--brasa", default="build/brasa")
    p.add_argument("--store", help="keeps the lab's rows there")
    p.add_argument("--samples", type=int, default=3000)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--rounds", type=int, default=2)
    o = p.parse_args()
    wrong = [name for name in o.names if name not in FRAMEWORKS]
    if wrong:
        p.error(f"there is no '{wrong[0]}' here, only {', '.join(FRAMEWORKS)}")
    if o.compare:
        compare(o)
    elif len(o.names) == 1:
        print(json.dumps(by_hand(o.names[0], o.samples, o.epochs)), flush=True)
    else:
        p.error("name one framework, or --compare")


if __name__ == "__main__":
    main()
