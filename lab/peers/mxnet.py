"""MXNet as a peer of the lab: gluon layers in one HybridBlock, gluon's Trainer and DataLoader, channels first.

Variants: hybridized (one graph with static memory, as GluonCV trains), imperative. Pictures are read and resized by
OpenCV, inside MXNet, in worker processes.
"""
import os

import runner


# --- layers ---------------------------------------------------------------------------------------------------------


def symmetric(node):
    return tuple(node.pad[:2]) == tuple(node.pad[2:])


def padded(F, x, pads, value=0.0):
    top, left, bottom, right = pads
    if not any(pads):
        return x
    return F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, top, bottom, left, right), constant_value=value)


def convolution(node):
    same = symmetric(node)
    layer = nn.Conv2D(node.channels, tuple(node.kernel), tuple(node.stride), tuple(node.pad[:2]) if same else 0,
                      tuple(node.dilation), node.groups, in_channels=node.in_shape[0], use_bias=node.bias)
    return layer, lambda F, x: layer(x if same else padded(F, x, node.pad))


def own_pool(node):
    """Whether MXNet cuts the same windows: its own `ceil` keeps a last one that lies in the padding alone."""
    if not node.settings.get("ceil"):
        return symmetric(node)
    sides = zip(node.in_shape[1:], node.size, runner.strides(node), node.pad[:2])
    return symmetric(node) and node.shape[1:] == tuple(-((size - 2 * p - side) // stride) + 1
                                                       for side, size, stride, p in sides)


def pool(kind, node, own, **more):
    pad, ceil = (tuple(node.pad[:2]), bool(node.settings.get("ceil"))) if own else (0, False)
    return kind(tuple(node.size), tuple(runner.strides(node)), pad, ceil_mode=ceil, **more)


def maxpool(node):
    own = own_pool(node)
    layer = pool(nn.MaxPool2D, node, own)
    return layer, lambda F, x: layer(x if own else padded(F, x, runner.pads(node), -3e38))


def avgpool(node):
    own = own_pool(node)
    layer = pool(nn.AvgPool2D, node, own, count_include_pad=bool(node.count_pad) if own else True)
    if own:
        return layer, lambda F, x: layer(x)
    factor = node.size[0] * node.size[1] / runner.pool_pixels(node)

    class Shared(gluon.HybridBlock):
        """Means of whole windows, made those of the pixels that count."""

        def __init__(self):
            super().__init__()
            self.pool = layer
            self.factor = self.params.get_constant("factor", factor[None, None])

        def hybrid_forward(self, F, x, factor):
            return F.broadcast_mul(self.pool(padded(F, x, runner.pads(node))), factor)

    shared = Shared()
    return shared, lambda F, x: shared(x)


def batchnorm(node):
    return nn.BatchNorm(axis=1, momentum=1 - node.momentum, epsilon=node.epsilon, center=node.affine,
                        scale=node.affine, use_global_stats=bool(node.settings.get("frozen")),
                        in_channels=node.in_shape[0])


def lrn(node):
    if node.size % 2 == 0:
        raise runner.Refused("MXNet's LRN has windows of odd size only, not of %d" % node.size)
    alpha = node.alpha if node.divide else node.alpha * node.size  # MXNet divides
    # In a hybridized graph MXNet 1.9.1 with oneDNN gives what lies before it a wrong gradient (as in ReLU, LRN,
    # max pool). An operation before it that oneDNN does not have puts it right.
    return lambda F, x: F.LRN(x * 1.0, alpha=alpha, beta=node.beta, knorm=node.k, nsize=node.size)


def gelu(node):
    if node.settings.get("approximate") != "tanh":
        return nn.GELU()
    return lambda F, x: 0.5 * x * (1 + F.tanh((2 / 3.141592653589793) ** 0.5 * (x + 0.044715 * x * x * x)))


# A gluon layer, a function of F and x, or both.
LAYERS = {
    "conv2d": convolution,
    "dense": lambda node: nn.Dense(node.features, flatten=False, use_bias=node.bias, in_units=node.in_shape[0]),
    "batchnorm": batchnorm,
    "relu": lambda node: nn.Activation("relu"),
    "relu6": lambda node: lambda F, x: F.clip(x, 0, 6),
    "leaky_relu": lambda node: nn.LeakyReLU(node.slope),
    "sigmoid": lambda node: nn.Activation("sigmoid"),
    "tanh": lambda node: nn.Activation("tanh"),
    "gelu": gelu,
    "softmax": lambda node: lambda F, x: F.softmax(x, axis=1),
    "maxpool": maxpool,
    "avgpool": avgpool,
    "adaptive_avgpool": lambda node: lambda F, x: F.contrib.AdaptiveAvgPooling2D(x, output_size=tuple(node.size)),
    "global_avgpool": lambda node: nn.GlobalAvgPool2D() if len(node.shape) == 3 else
    lambda F, x: F.Flatten(F.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))),
    "lrn": lrn,
    "dropout": lambda node: nn.Dropout(node.p),
    "flatten": lambda node: nn.Flatten(),
    "reshape": lambda node: lambda F, x: F.reshape(x, shape=(-1,) + node.shape),
}


def joined(node, net):
    """A function of F and the inputs, for ops of several."""
    if node.op == "concat":
        return lambda F, *inputs: F.concat(*inputs, dim=node.axis)
    same = all(net.maker[name].shape == node.shape for name in node.inputs if name in net.maker)
    name = {"add": "elemwise_add", "multiply": "elemwise_mul"} if same else {"add": "broadcast_add",
                                                                           "multiply": "broadcast_mul"}
    if node.op not in name:
        raise runner.Refused("this runner has no layer '%s'" % node.op)

    def join(F, first, *rest):
        for other in rest:
            first = getattr(F, name[node.op])(first, other)
        return first

    return join


def model_of(net):
    """The network, and node's name -> layer for those that have weights. calls: node, function of F and inputs."""

    class Model(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.calls, self.see = [], None
            with self.name_scope():
                for node in net.nodes:
                    made = LAYERS[node.op](node) if node.op in LAYERS else joined(node, net)
                    if isinstance(made, gluon.Block):
                        made = made, called(made)
                    layer, call = made if isinstance(made, tuple) else (None, made)
                    if layer is not None:
                        self.register_child(layer, node.name)
                    self.calls.append((node, call))

        def hybrid_forward(self, F, x):
            values = {"image": x}
            for node, call in self.calls:
                values[node.output] = call(F, *[values[name] for name in node.inputs])
                if self.see:
                    self.see(node.name, values[node.output])
            return values[net.nodes[-1].output]

    def called(layer):
        return lambda F, x: layer(x)

    return Model()


# --- the peer -------------------------------------------------------------------------------------------------------


class Pictures:
    """A data set of gluon: files, read by MXNet's imread, and gluon's transforms."""

    def __init__(self, part):
        T = gluon.data.vision.transforms
        t, unit = part.settings, 255 * part.scale  # ToTensor divides by 255
        crop = tuple(t.get("crop") or (0, 0))
        steps = [T.Resize(t["resize"], keep_ratio=True)] if t.get("resize") else []
        if all(crop):
            size = (crop[1], crop[0])  # width first
            steps.append(T.RandomCrop(size) if part.train and t.get("random_crop") else T.CenterCrop(size))
        if part.train and t.get("flip", "none") != "none":
            steps.append(T.RandomFlipLeftRight() if t["flip"] == "horizontal" else T.RandomFlipTopBottom())
        steps += [T.ToTensor(), T.Normalize((part.mean / unit).tolist(), (part.std / unit).tolist())]
        self.files, self.labels, self.transform = part.files, part.labels, T.Compose(steps)
        self.form = 0 if part.channels == 1 else 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(mx.image.imread(str(self.files[i]), self.form)), int(self.labels[i])


class MXNet(runner.Peer):
    framework = "MXNet"
    epsilon_below_root = True
    variants = ("hybridized", "imperative")

    def setup(self, e):
        global mx, nn, gluon
        self.e, threads = e, e["threads"]
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # f32 is what was asked for
        import mxnet as mx
        from mxnet import gluon
        from mxnet.gluon import nn
        if e["device"] != "cpu" and not mx.runtime.Features().is_enabled("CUDA"):
            raise runner.Refused("this MXNet is a CPU build: its feature CUDA is off (%s); PyPI's mxnet-cu117 has it, "
                                 "and needs CUDA 11.7 on the machine" % mx.__version__)
        if e["device"] != "cpu" and not mx.context.num_gpus():
            raise runner.Refused("MXNet %s sees no GPU" % mx.__version__)
        self.context = mx.cpu() if e["device"] == "cpu" else mx.gpu(0)
        mx.random.seed(e["seed"])
        runner.numpy.random.seed(e["seed"])  # gluon's sampler draws from it
        self.workers = runner.loader_threads(threads)
        features = mx.runtime.Features()
        detail = {"omp_threads": threads, "format": "NCHW", "hybridized": e["variant"] == "hybridized",
                  "onednn": features.is_enabled("MKLDNN"), "blas": "mkl" if features.is_enabled("BLAS_MKL") else
                  "openblas" if features.is_enabled("BLAS_OPEN") else "other",
                  "pictures": "OpenCV in processes: %d" % self.workers}
        return mx.__version__, detail

    def build(self, e, net):
        self.model = model_of(net)
        self.model.initialize(ctx=self.context)
        self.weights = []
        places = {"conv2d": ("weight", "bias"), "dense": ("weight", "bias"), "batchnorm": ("gamma", "beta")}
        for node in net.nodes:
            layer = self.model._children.get(node.name)
            for what, array in net.arrays(node).items():
                name = what if what.startswith("running") else places[node.op][what == "bias"]
                parameter = getattr(layer, name)
                # What nd.array takes and gives back makes every later step of mnist_cnn 18 % slower: MXNet's memory.
                parameter.set_data(mx.nd.from_numpy(runner.numpy.ascontiguousarray(array)))
                self.weights.append((node.params[what], parameter))
        self.hybridize(e["variant"] == "hybridized")
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize(e["variant"] == "hybridized")
        learnt = [p for _, p in self.weights if p.grad_req != "null"]
        rule = runner.Rule(e)
        self.trainer = gluon.Trainer(learnt, optimizer(rule))
        self.before_step, self.steps = schedule(rule, self.trainer), 0
        count = sum(p.data().size for p in learnt)
        heavy = sum(isinstance(x, (nn.Conv2D, nn.Dense)) for x in self.model._children.values())
        return count, count, heavy

    def hybridize(self, on):
        self.model.hybridize(on, **({"static_alloc": True, "static_shape": True} if on else {}))

    def feed(self, x, y):
        return mx.nd.array(x), mx.nd.array(y)

    def ready(self, x, y):
        return x.as_in_context(self.context), y.as_in_context(self.context)

    def outputs(self, x, see):
        kept = [(p, p.data().copy()) for _, p in self.weights]
        self.hybridize(False)
        self.model.see = lambda name, value: see(name, value.asnumpy())
        with mx.autograd.train_mode():
            self.model(x.as_in_context(self.context))
        self.model.see = None
        self.hybridize(self.e["variant"] == "hybridized")
        for parameter, value in kept:
            parameter.set_data(value)

    def params(self):
        return [(name, parameter.data().asnumpy()) for name, parameter in self.weights]

    def loader(self, part):
        data = gluon.data
        if part.files is not None:
            return data.DataLoader(Pictures(part), self.e["batch"], shuffle=part.train, last_batch="keep",
                                   num_workers=self.workers)
        whole = data.ArrayDataset(part.samples(), part.labels)
        return data.DataLoader(whole, self.e["batch"], shuffle=part.train, last_batch="keep")

    def step(self, x, y):
        x, y = self.ready(x, y)
        with mx.autograd.record():
            losses = self.loss(self.model(x), y)
        losses.backward()
        if self.before_step:
            self.before_step(self.steps)
        self.trainer.step(len(y))  # divides by it
        self.steps += 1
        return losses.mean()

    def test(self, x, y):
        x, y = self.ready(x, y)
        logits = self.model(x)
        return self.loss(logits, y).mean(), (logits.argmax(1) == y.astype("float32")).sum()

    def sync(self):
        mx.nd.waitall()

    def floats(self, values):
        return [float(value.asscalar()) for value in values]


def optimizer(rule):
    rule.check_rate(inside=True)
    o, settings = mx.optimizer, {"learning_rate": rule.lr, "wd": rule.weight_decay}
    rule.check_weight_decay("MXNet")
    if rule.name == "sgd":
        return (o.NAG if rule.nesterov else o.SGD)(momentum=rule.momentum, **settings)
    if rule.name == "rmsprop":
        if rule.momentum:
            raise runner.Refused("MXNet's RMSProp has momentum in its centered form alone, that of the dialect '%s' is "
                                 "another" % rule.dialect)
        return o.RMSProp(gamma1=rule.rho, epsilon=rule.epsilon_below_root("MXNet"), **settings)
    if rule.name == "adadelta":
        if rule.lr != 1 or rule.decay or rule.weight_decay:
            raise runner.Refused("MXNet's AdaDelta knows no rate, and its weight decay is another than that of the "
                                 "dialect '%s'" % rule.dialect)
        return o.AdaDelta(rho=rule.rho, epsilon=rule.epsilon)
    if rule.name == "adam":
        return o.Adam(beta1=rule.beta1, beta2=rule.beta2, epsilon=rule.epsilon, **settings)
    raise runner.Refused("MXNet has no optimizer '%s'" % rule.name)


def schedule(rule, trainer):
    """What to call with the number of steps done, before each: rates that decay, epsilon beside the raw root in
    place of the corrected one. None: nothing changes."""
    corrected = rule.name == "adam" and not rule.epsilon_hat
    if not rule.decay and not corrected:
        return None

    def before(steps):
        if rule.decay:
            trainer.set_learning_rate(rule.lr / (1 + rule.decay * steps))
        if corrected:
            trainer.optimizer.epsilon = rule.epsilon * (1 - rule.beta2 ** (steps + 1)) ** 0.5

    return before


if __name__ == "__main__":
    runner.main(MXNet())
