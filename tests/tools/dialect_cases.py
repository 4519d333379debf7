"""What the fixtures of both dialects have in common: the small problems, and the text they are written in.

A file tests/fixtures/<framework>/dialect.txt is made of lines; the first word says what a line is, texts are in
Brasa's words and parted by ";":
    framework TEXT
    default FIELD VALUE           a default of the framework, under the name of its field in src/graph/dialect.h
    init LAYER ; INPUT ; ...      the largest initial weight and bias that the framework drew
    layer LAYER ; INPUT ; TOLERANCE   its parameters and the input are Philox numbers; one line `output` follows
    batchnorm LAYER ; INPUT       trained for three steps; three times `output`, `mean`, `variance`; then `output`
    optimizer CLIP ; OPTIMIZER ; SCHEDULE   five steps of the regression below; five lines `output`
All numbers are computed in float64.
"""
import os

import numpy

import philox

SEED = 77
FEATURES, ROWS, STEPS = 6, 7, 5
EXACT = 1e-11  # how close two computations in double come
BATCHNORM_STEPS, BATCHNORM_RATE = 3, 0.1
SCALES = numpy.array([1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10])  # so that gradients lie on both sides of every epsilon


def regression(step):
    """Inputs and targets of a step of least squares, loss = mean((x w + b - t)^2)."""
    x = philox.uniform(SEED, philox.INPUT + step, (ROWS, FEATURES), -1, 1) * SCALES
    return x, philox.uniform(SEED, philox.LABEL + step, (ROWS,), -1, 1)


def start():
    """The first weights and bias."""
    return philox.uniform(SEED, 0, (FEATURES,), -1, 1), philox.uniform(SEED, 1, (1,), -1, 1)


def gradient(step, w, b):
    x, t = regression(step)
    error = 2 / ROWS * (x @ w + b - t)
    return x.T @ error, numpy.array([error.sum()])


def probe(w, b):
    """What is written of a step: the predictions for the rows of a unit matrix, and for zeros."""
    return numpy.append(w + b, b)


def train(apply):
    """Five steps; apply(variables, gradients) returns the new variables."""
    w, b = start()
    lines = []
    for step in range(STEPS):
        w, b = apply((w, b), gradient(step, w, b))
        lines.append(numbers("output", probe(w, b)))
    return lines


def picture(shape, step=0):
    """An input picture, N x C x H x W."""
    return philox.uniform(SEED, philox.INPUT + step, shape, -1, 1)


def target(shape, step):
    return philox.uniform(SEED, philox.LABEL + step, shape, -1, 1)


def parameter(index, shape):
    return philox.uniform(SEED, index, shape, -1, 1)


def sizes(shape):
    return "x".join(map(str, shape))


def numbers(word, array):
    return word + " " + " ".join(f"{v:.17g}" for v in numpy.asarray(array, dtype=numpy.float64).reshape(-1))


def largest(draw):
    """The largest absolute value of many draws: a little less than the bound of a uniform initializer."""
    return max(float(numpy.abs(draw()).max()) for _ in range(64))


def write(framework, folder, lines):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", folder, "dialect.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("\n".join([f"framework {framework}", *lines]) + "\n")
    cases = sum(line.split()[0] in ("default", "init", "layer", "batchnorm", "optimizer") for line in lines)
    print(f"{folder}: {cases} cases")
