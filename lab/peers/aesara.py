"""Aesara as a peer of the lab, in the place of Theano, whose successor it is: the last one with convolutions.

One compiled function for a training step, one for evaluation: C++ made of the graph, which g++ compiles when the
function is first called, and which Aesara keeps in its own folder for the next time. Channels first. Layers are those
of aesara.tensor.nnet; Aesara has no optimizers, so the updates are written by hand, as in Theano's tutorials, and
pictures come from runner.Loader (Pillow in threads). Its max pooling gives the gradient to every pixel that equals
the maximum, where others take the first: a network with pools of pools, or of flat pictures, learns otherwise.
"""
import importlib.util, os

import runner
from runner import numpy


# --- layers ---------------------------------------------------------------------------------------------------------


def per_channel(p):
    return p.dimshuffle("x", 0, "x", "x")


def padded(x, node, pads, value=0.0):
    """A larger tensor of that value, with x in its middle."""
    top, left, bottom, right = pads
    if not any(pads):
        return x
    c, h, w = node.in_shape
    around = at.alloc(numpy.float32(value), x.shape[0], c, h + top + bottom, w + left + right)
    return at.set_subtensor(around[:, :, top:top + h, left:left + w], x)


def convolution(x, node, p):
    top, left, bottom, right = node.pad
    shape = (node.channels, node.in_shape[0] // node.groups) + tuple(node.kernel)
    y = nnet.conv2d(x, p["weight"], (None,) + node.in_shape, shape, ((top, bottom), (left, right)),
                    tuple(node.stride), filter_flip=False, filter_dilation=tuple(node.dilation),
                    num_groups=node.groups)
    return y + per_channel(p["bias"]) if node.bias else y


def dense(x, node, p):
    y = at.dot(x, p["weight"])
    return y + p["bias"] if node.bias else y


def maxpool(x, node, p):
    size, stride, pad = tuple(node.size), tuple(runner.strides(node)), tuple(node.pad)
    if not any(pad) and node.settings.get("ceil"):
        return pool_2d(x, size, False, stride)
    if runner.pads(node) == pad and pad[:2] == pad[2:]:
        return pool_2d(x, size, True, stride, pad[:2])
    return pool_2d(padded(x, node, runner.pads(node), -3e38), size, True, stride)


def avgpool(x, node, p):
    size, stride, pad = tuple(node.size), tuple(runner.strides(node)), tuple(node.pad)
    if runner.pads(node) == pad and pad[:2] == pad[2:] and (node.count_pad or not any(pad)):
        return pool_2d(x, size, True, stride, pad[:2], "average_inc_pad")  # the other has no gradient with padding
    factor = size[0] * size[1] / runner.pool_pixels(node)
    return pool_2d(padded(x, node, runner.pads(node)), size, True, stride, mode="average_inc_pad") * factor


def adaptive_avgpool(x, node, p):
    (h, w), (high, wide) = node.in_shape[1:], node.size
    if (h, w) == (high, wide):
        return x
    if h % high == 0 and w % wide == 0:
        return pool_2d(x, (h // high, w // wide), True, mode="average_inc_pad")
    x = at.tensordot(x, runner.adaptive_means(h, high), [[2], [1]])  # N x C x W x high
    return at.tensordot(x, runner.adaptive_means(w, wide), [[2], [1]])


def lrn(x, node, p):
    alpha = node.alpha / node.size if node.divide else node.alpha
    c, before = node.in_shape[0], node.size // 2
    wide = at.alloc(numpy.float32(0), x.shape[0], c + node.size - 1, x.shape[2], x.shape[3])
    wide = at.set_subtensor(wide[:, before:before + c], at.sqr(x))
    squares = sum((wide[:, i:i + c] for i in range(1, node.size)), wide[:, :c])
    return x * (node.k + alpha * squares) ** -node.beta


def gelu(x, node, p):
    if node.settings.get("approximate") == "tanh":
        return 0.5 * x * (1 + at.tanh((2 / numpy.pi) ** 0.5 * (x + 0.044715 * x ** 3)))
    return 0.5 * x * (1 + at.erf(x * 0.5 ** 0.5))


LAYERS = {
    "conv2d": convolution,
    "dense": dense,
    "relu": lambda x, node, p: nnet.relu(x),
    "relu6": lambda x, node, p: at.clip(x, 0, 6),
    "leaky_relu": lambda x, node, p: nnet.relu(x, node.slope),
    "sigmoid": lambda x, node, p: at.sigmoid(x),
    "tanh": lambda x, node, p: at.tanh(x),
    "gelu": gelu,
    "softmax": lambda x, node, p: nnet.softmax(x, axis=1),
    "maxpool": maxpool,
    "avgpool": avgpool,
    "adaptive_avgpool": adaptive_avgpool,
    "global_avgpool": lambda x, node, p: x.mean((2, 3), keepdims=len(node.shape) == 3),
    "lrn": lrn,
    "flatten": lambda x, node, p: x.flatten(2),
    "reshape": lambda x, node, p: x.reshape((x.shape[0],) + node.shape),
}


def batchnorm(x, node, p, train):
    """The output, and pairs of a running statistic and its new value."""
    if node.epsilon < 0.99e-5:
        raise runner.Refused("Aesara's batch normalization takes no epsilon below 1e-5")
    epsilon = max(node.epsilon, 1.0000001e-5)  # in single precision 1e-5 is a little less, and refused
    c, mean, var = node.in_shape[0], p["running_mean"], p["running_var"]
    gamma = p.get("weight", at.ones((c,), "float32"))
    beta = p.get("bias", at.zeros((c,), "float32"))
    if not train or node.settings.get("frozen"):
        return bn.batch_normalization_test(x, gamma, beta, mean, var, "spatial", epsilon), []
    y, _, _, new_mean, new_var = bn.batch_normalization_train(x, gamma, beta, "spatial", epsilon, node.momentum, mean,
                                                              var)
    return y, [(mean, new_mean), (var, new_var)]


def joined(node, inputs):
    if node.op == "concat":
        return at.concatenate(inputs, node.axis)
    if node.op not in ("add", "multiply"):
        raise runner.Refused("this runner has no layer '%s'" % node.op)
    value = inputs[0]
    for other in inputs[1:]:
        value = value + other if node.op == "add" else value * other
    return value


def forward(net, params, x, draw):
    """The values of all nodes, and the updates of running statistics. draw: random streams; None: evaluation."""
    values, updates = {"image": x}, []
    for node in net.nodes:
        inputs, p = [values[name] for name in node.inputs], params.get(node.name, {})
        if node.op == "batchnorm":
            value, new = batchnorm(inputs[0], node, p, draw is not None)
            updates += new
        elif node.op == "dropout":
            value = inputs[0]
            if draw is not None and node.p:
                keep = draw.binomial(value.shape, p=1 - node.p, ndim=value.ndim, dtype="float32")
                value = value * keep / numpy.float32(1 - node.p)
        else:
            value = LAYERS[node.op](inputs[0], node, p) if node.op in LAYERS else joined(node, inputs)
        values[node.output] = value
    return values, updates


# --- optimizers -----------------------------------------------------------------------------------------------------


def update(rule, p, g, steps):
    """Pairs of a shared variable and its new value, for a parameter and what the optimizer remembers of it."""

    def single(value):
        return at.cast(value, "float32")

    def remembered():
        return aesara.shared(numpy.zeros_like(old.get_value(borrow=True)))

    rate, old = rule.lr / (1 + rule.decay * steps) if rule.decay else rule.lr, p
    if rule.weight_decay and not rule.decoupled:
        g = g + rule.weight_decay * p
    elif rule.weight_decay:
        p = p * single(1 - rate * rule.weight_decay)
    inner, outer = (rate, 1) if rule.rate_inside else (1, rate)  # where the velocity holds the rate
    inner, outer = single(inner), single(outer)
    if rule.name == "sgd":
        g = inner * g
        if not rule.momentum:
            return [(old, p - outer * g)]
        v = remembered()
        new = rule.momentum * v + g
        return [(v, new), (old, p - outer * (g + rule.momentum * new if rule.nesterov else new))]
    a, b = remembered(), remembered()
    if rule.name == "rmsprop":
        new = rule.rho * a + (1 - rule.rho) * at.sqr(g)
        move = inner * g / (at.sqrt(new + rule.epsilon) if rule.epsilon_inside else at.sqrt(new) + rule.epsilon)
        if not rule.momentum:
            return [(a, new), (old, p - outer * move)]
        move = rule.momentum * b + move
        return [(a, new), (b, move), (old, p - outer * move)]
    if rule.name == "adadelta":
        new = rule.rho * a + (1 - rule.rho) * at.sqr(g)
        move = g * at.sqrt(b + rule.epsilon) / at.sqrt(new + rule.epsilon)
        return [(a, new), (b, rule.rho * b + (1 - rule.rho) * at.sqr(move)), (old, p - single(rate) * move)]
    c1, c2 = (1 - numpy.float64(beta) ** (steps + 1) for beta in (rule.beta1, rule.beta2))
    mean, square = rule.beta1 * a + (1 - rule.beta1) * g, rule.beta2 * b + (1 - rule.beta2) * at.sqr(g)
    if rule.epsilon_hat:
        move = single(rate * at.sqrt(c2) / c1) * mean / (at.sqrt(square) + rule.epsilon)
    else:
        move = single(rate / c1) * mean / (at.sqrt(square) * single(c2 ** -0.5) + rule.epsilon)
    return [(a, mean), (b, square), (old, p - move)]


# --- the peer -------------------------------------------------------------------------------------------------------


def blas():
    """Flags that link what SciPy brings."""
    scipy = importlib.util.find_spec("scipy")
    folder = os.path.join(os.path.dirname(os.path.dirname(scipy.origin)), "scipy.libs") if scipy else ""
    found = [name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.startswith("libopenblas")]
    return "-L%s -l:%s" % (folder, found[0]) if found else ""


class Aesara(runner.Peer):
    framework = "Aesara"
    variants = ("compiled",)

    def setup(self, e):
        global aesara, at, nnet, pool_2d, bn
        self.e, threads, library = e, e["threads"], blas()
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
        flags = ["blas__ldflags=" + library] if library else []
        os.environ["AESARA_FLAGS"] = ",".join(flags + ["floatX=float32", "openmp=%s" % (threads > 1)])  # and no other's
        import aesara
        import aesara.tensor as at
        from aesara.sandbox.rng_mrg import MRG_RandomStream
        from aesara.tensor import nnet
        from aesara.tensor.nnet import batchnorm as bn
        from aesara.tensor.signal.pool import pool_2d
        if e["device"] != "cpu":
            raise runner.Refused("Aesara computes on the processor only: Theano's code for GPUs was taken out of it")
        if not aesara.config.cxx:
            raise runner.Refused("Aesara compiles with g++, and finds none")
        self.draw = MRG_RandomStream(e["seed"])
        detail = {"stands_for": "Theano", "omp_threads": threads, "openmp": bool(aesara.config.openmp),
                  "blas": os.path.basename(aesara.config.blas__ldflags.split(":")[-1]) or "none", "format": "NCHW",
                  "compiler": aesara.config.cxx, "optimizer": "written by hand",
                  "pictures": "Pillow in threads: %d" % runner.loader_threads(threads)}
        return aesara.__version__, detail

    def build(self, e, net):
        self.net, self.rule, self.shared = net, runner.Rule(e), {}
        if self.rule.name not in ("sgd", "rmsprop", "adadelta", "adam", "adamw"):
            raise runner.Refused("this runner has no optimizer '%s'" % self.rule.name)
        for node in net.nodes:
            for what, array in net.arrays(node).items():
                array = array.T if node.op == "dense" and what == "weight" else array  # inputs x outputs
                self.shared.setdefault(node.name, {})[what] = aesara.shared(numpy.array(array, "float32", order="C"))
        self.x, self.y = (at.tensor4 if len(net.input) == 3 else at.matrix)("x"), at.lvector("y")
        self.train = self.try_on = None  # compiled when they are first called
        count = sum(p.get_value(borrow=True).size for _, p in self.learnt())
        return count, count, sum(node.op in ("conv2d", "dense") for node in net.nodes)

    def learnt(self):
        """Pairs: name in the network, shared variable."""
        return [(node.params[what], self.shared[node.name][what])
                for node in self.net.nodes for what in ("weight", "bias") if what in node.params]

    def loss(self, logits):
        return nnet.categorical_crossentropy(nnet.softmax(logits, axis=1), self.y).mean()

    def outputs(self, x, see):
        values, _ = forward(self.net, self.shared, self.x, self.draw)
        made = aesara.function([self.x], [values[node.output] for node in self.net.nodes])(x)
        for node, value in zip(self.net.nodes, made):
            see(node.name, value)

    def params(self):
        return [(name, p.get_value(borrow=True)) for name, p in self.learnt()]

    def loader(self, part):
        return runner.Loader(part, self.e["batch"], self.e["seed"], self.e["threads"])

    def step(self, x, y):
        if not self.train:
            values, updates = forward(self.net, self.shared, self.x, self.draw)
            loss, params = self.loss(values[self.net.nodes[-1].output]), [p for _, p in self.learnt()]
            steps = aesara.shared(numpy.float64(0))
            for p, g in zip(params, aesara.grad(loss, params)):
                updates += update(self.rule, p, g, steps)
            self.train = aesara.function([self.x, self.y], loss, updates=updates + [(steps, steps + 1)])
        return self.train(x, y)

    def test(self, x, y):
        if not self.try_on:
            values, _ = forward(self.net, self.shared, self.x, None)
            logits = values[self.net.nodes[-1].output]
            right = at.eq(at.argmax(logits, axis=1), self.y).sum()
            self.try_on = aesara.function([self.x, self.y], [self.loss(logits), right])
        return self.try_on(x, y)


if __name__ == "__main__":
    runner.main(Aesara())
