"""Paddle as a peer of the lab: nn layers, paddle.optimizer, paddle.io.DataLoader with Paddle's transforms, NCHW.

Variants: dynamic (each layer as it is called), static (the network as one program, paddle.jit.to_static). Pictures
are read by Pillow in worker processes.
"""
import os

import runner


# --- layers ---------------------------------------------------------------------------------------------------------


def convolution(node):
    top, left, bottom, right = node.pad
    return nn.Conv2D(node.in_shape[0], node.channels, node.kernel, node.stride, [top, bottom, left, right],
                     node.dilation, node.groups, bias_attr=None if node.bias else False)


def batchnorm(node):
    kind = nn.BatchNorm2D if len(node.in_shape) == 3 else nn.BatchNorm1D
    learns = None if node.affine else False
    return kind(node.in_shape[0], 1 - node.momentum, node.epsilon, learns, learns,
                use_global_stats=True if node.settings.get("frozen") else None)


def window(node):
    """What both pools take; the windows that `ceil` adds are made by padding."""
    top, left, bottom, right = runner.pads(node)
    return list(node.size), runner.strides(node), [top, bottom, left, right]


def avgpool(node):
    size, stride, pads = window(node)
    if not node.count_pad or (tuple(node.pad) == runner.pads(node) and pads[0::2] == pads[1::2]):
        return nn.AvgPool2D(size, stride, pads, exclusive=not node.count_pad)
    top, bottom, left, right = pads
    whole = nn.Sequential(nn.Pad2D([left, right, top, bottom]), nn.AvgPool2D(size, stride))
    factor = size[0] * size[1] / runner.pool_pixels(node)

    class Shared(nn.Layer):
        """Means of whole windows, made those of the pixels that count."""

        def __init__(self):
            super().__init__()
            self.whole = whole
            self.register_buffer("factor", paddle.to_tensor(factor[None, None]))

        def forward(self, x):
            return self.whole(x) * self.factor

    return Shared()


def lrn(node):
    alpha = node.alpha if node.divide else node.alpha * node.size  # Paddle divides
    return nn.LocalResponseNorm(node.size, alpha, node.beta, node.k)


LAYERS = {
    "conv2d": convolution,
    "dense": lambda node: nn.Linear(node.in_shape[0], node.features, bias_attr=None if node.bias else False),
    "batchnorm": batchnorm,
    "relu": lambda node: nn.ReLU(),
    "relu6": lambda node: nn.ReLU6(),
    "leaky_relu": lambda node: nn.LeakyReLU(node.slope),
    "sigmoid": lambda node: nn.Sigmoid(),
    "tanh": lambda node: nn.Tanh(),
    "gelu": lambda node: nn.GELU(approximate=node.settings.get("approximate") == "tanh"),
    "softmax": lambda node: nn.Softmax(1),
    "maxpool": lambda node: nn.MaxPool2D(*window(node)),
    "avgpool": avgpool,
    "adaptive_avgpool": lambda node: nn.AdaptiveAvgPool2D(tuple(node.size)),
    "global_avgpool": lambda node: nn.AdaptiveAvgPool2D(1) if len(node.shape) == 3 else
    nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Flatten()),
    "lrn": lrn,
    "dropout": lambda node: nn.Dropout(node.p),
    "flatten": lambda node: nn.Flatten(),
    "reshape": lambda node: nn.Unflatten(1, node.shape) if len(node.in_shape) == 1 else
    nn.Sequential(nn.Flatten(), nn.Unflatten(1, node.shape)),
}


def joined(node):
    """A function of a list of inputs."""
    if node.op == "concat":
        return lambda inputs: paddle.concat(inputs, node.axis)
    if node.op not in ("add", "multiply"):
        raise runner.Refused("this runner has no layer '%s'" % node.op)

    def join(inputs):
        value = inputs[0]
        for other in inputs[1:]:
            value = value + other if node.op == "add" else value * other
        return value

    return join


def model_of(net):
    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.calls, self.layer_of, self.see = [], {}, None
            for i, node in enumerate(net.nodes):
                if node.op in LAYERS:
                    layer = self.layer_of[node.name] = LAYERS[node.op](node)
                    self.add_sublayer("layer%d" % i, layer)  # a name may have no dots here
                    self.calls.append((node, layer))
                else:
                    self.calls.append((node, joined(node)))

        def forward(self, image):
            values = {"image": image}
            for node, call in self.calls:
                inputs = runner.inputs_of(node, values)
                values[node.output] = call(inputs[0] if node.op in LAYERS else inputs)
                if self.see is not None:
                    self.see(node.name, values[node.output])
            return values[net.nodes[-1].output]

    return Model()


# --- the peer -------------------------------------------------------------------------------------------------------


def pictures(part):
    """A map-style data set, as Paddle's DatasetFolder is one. It gives arrays of numpy: a worker that was forked when
    Paddle had computed something must not use it."""
    from paddle.vision import transforms as T
    last = [T.Transpose(), T.Normalize((part.mean / part.scale).tolist(), (part.std / part.scale).tolist())]
    return runner.Pictures(part, T, last)


class Arrays:
    def __init__(self, part):
        self.samples, self.labels = part.samples(), part.labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.samples[i], self.labels[i]


class Paddle(runner.Eager):
    framework = "Paddle"
    epsilon_below_root = True
    variants = ("dynamic", "static")
    precisions = ("f32", "bf16")

    def setup(self, e):
        global paddle, nn
        self.e, threads = e, e["threads"]
        self.gpu = e["device"] != "cpu"
        os.environ["OMP_NUM_THREADS"] = os.environ["FLAGS_paddle_num_threads"] = str(threads)
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"  # f32 is what was asked for; Paddle's own switches are many
        import paddle
        from paddle import nn
        if self.gpu and not paddle.device.is_compiled_with_cuda():
            raise runner.Refused("this Paddle is a CPU build: paddle.device.is_compiled_with_cuda() is False (%s); "
                                 "PyPI's newest for GPUs is 2.6.2, newer ones are in Paddle's own index"
                                 % paddle.__version__)
        if self.gpu and not paddle.device.cuda.device_count():
            raise runner.Refused("Paddle %s, built for CUDA %s, sees no GPU"
                                 % (paddle.__version__, paddle.version.cuda()))
        paddle.set_device("gpu" if self.gpu else "cpu")
        paddle.seed(e["seed"])
        runner.numpy.random.seed(e["seed"])  # Paddle's sampler draws from it
        self.workers, self.static = runner.loader_threads(threads), e["variant"] == "static"
        detail = {"omp_threads": threads, "FLAGS_paddle_num_threads": threads, "format": "NCHW",
                  "static": self.static, "mkl": paddle.version.with_mkl,
                  "pictures": "Pillow in processes: %d" % self.workers}
        if self.gpu:
            detail.update(gpu=paddle.device.cuda.get_device_name(), cuda=paddle.version.cuda())
        if e["precision"] == "bf16":
            detail["precision"] = "paddle.amp.auto_cast O1 to bfloat16; parameters and updates are float32"
        return paddle.__version__, detail

    def build(self, e, net):
        self.plain = model_of(net)
        self.weights = []
        places = {"running_mean": "_mean", "running_var": "_variance"}
        for node in net.nodes:
            for what, array in net.arrays(node).items():
                tensor = getattr(self.plain.layer_of[node.name], places.get(what, what))
                turned = array.T if node.op == "dense" and what == "weight" else array  # inputs x outputs
                tensor.set_value(runner.numpy.ascontiguousarray(turned))
                self.weights.append((node.params[what], tensor))
        self.plain.train()
        self.forward = self.plain.forward  # layer by layer: to_static puts another in its place
        spec = paddle.static.InputSpec([None] + list(net.input), "float32", "image")
        self.model = paddle.jit.to_static(self.plain, [spec], full_graph=True) if self.static else self.plain
        self.loss = nn.CrossEntropyLoss()
        self.optimizer, self.before_step, self.schedule = optimizer(runner.Rule(e), self.plain.parameters())
        learnt = [int(p.size) for p in self.plain.parameters() if not p.stop_gradient]
        heavy = sum(isinstance(layer, (nn.Conv2D, nn.Linear)) for layer in self.plain.sublayers())
        return sum(learnt), sum(learnt), heavy

    def feed(self, x, y):
        return paddle.to_tensor(x), paddle.to_tensor(y)

    def outputs(self, x, see):
        kept = [(tensor, tensor.numpy().copy()) for _, tensor in self.weights]
        self.plain.see = lambda name, value: see(name, value.astype("float32").numpy())
        with paddle.no_grad(), self.lowered():
            self.forward(x)
        self.plain.see = None
        for tensor, value in kept:
            tensor.set_value(value)

    def params(self):
        return [(name, tensor.numpy()) for name, tensor in self.weights]

    def loader(self, part):
        files = part.files is not None
        return paddle.io.DataLoader(pictures(part) if files else Arrays(part), batch_size=self.e["batch"],
                                    shuffle=part.train, num_workers=self.workers if files else 0,
                                    persistent_workers=files)

    def first(self, batches, rest):
        """By a loader without workers: one with them cannot begin anew before it came to its end."""
        return [next(iter(paddle.io.DataLoader(batches.dataset, batch_size=self.e["batch"], shuffle=True)))]

    def warm_test(self, batches, rest):
        super().warm_test(paddle.io.DataLoader(batches.dataset, batch_size=self.e["batch"]), rest)  # see first()

    def clear(self):
        self.optimizer.clear_grad()

    def without_gradients(self):
        return paddle.no_grad()

    def in_bf16(self):
        return paddle.amp.auto_cast(level="O1", dtype="bfloat16")

    def sync(self):
        if self.gpu:
            paddle.device.synchronize()

    def device_peak(self):
        return paddle.device.cuda.max_memory_allocated() if self.gpu else None

    def functions(self, batches):
        raise runner.Unreadable("Paddle prints its profile, and hands nothing to programs")


def optimizer(rule, params):
    """The optimizer, what to call before its steps or None, and the schedule of its rate or None."""
    o, before = paddle.optimizer, None
    rule.check_rate(inside=rule.name == "rmsprop")
    rule.check_weight_decay("Paddle", but=("adamw",))
    decays = o.lr.InverseTimeDecay(rule.lr, rule.decay) if rule.decay else None
    settings = {"learning_rate": decays or rule.lr, "parameters": params, "weight_decay": rule.weight_decay or None}
    if rule.name == "sgd" and rule.momentum:
        made = o.Momentum(momentum=rule.momentum, use_nesterov=rule.nesterov, **settings)
    elif rule.name == "sgd":
        made = o.SGD(**settings)
    elif rule.name == "rmsprop":
        made = o.RMSProp(rho=rule.rho, epsilon=rule.epsilon_below_root("Paddle"), momentum=rule.momentum, **settings)
    elif rule.name == "adadelta":
        made = o.Adadelta(rho=rule.rho, epsilon=rule.epsilon, **settings)
    elif rule.name in ("adam", "adamw"):
        if rule.name == "adamw":
            settings["weight_decay"] = rule.weight_decay
        made = (o.Adam if rule.name == "adam" else o.AdamW)(beta1=rule.beta1, beta2=rule.beta2, epsilon=rule.epsilon,
                                                            **settings)
        if rule.epsilon_hat:
            before = rule.raw_epsilon(lambda value: setattr(made, "_epsilon", value))
    else:
        raise runner.Refused("Paddle has no optimizer '%s'" % rule.name)
    return made, before, decays


if __name__ == "__main__":
    runner.main(Paddle())
