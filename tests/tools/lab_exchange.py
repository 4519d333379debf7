"""Makes what a runner of the lab reads, without Brasa: network.json, weights, batches, data, split, experiment.

    from lab_exchange import Exchange
    x = Exchange(folder, "wide")                    one of NETWORKS
    path = x.experiment("check", optimizer={...})   an EXPERIMENT.json

Shapes are inferred here by plain arithmetic, so that the peers' own are checked against them.
"""
import json, os, struct

import numpy

TYPES = {"float32": "F32", "int32": "I32", "uint8": "U8"}


def save(path, arrays):
    header, at = {}, 0
    for name, a in arrays.items():
        header[name] = {"dtype": TYPES[str(a.dtype)], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for a in arrays.values():
            file.write(numpy.ascontiguousarray(a).tobytes())


class Builder:
    """Adds nodes; every call returns the value's name. Only weights need numpy: they are drawn when asked for."""

    def __init__(self, shape, seed=1):
        self.nodes, self.draws, self.shapes = [], {}, {"image": tuple(shape)}
        self.seed, self.drawn, self.input = seed, None, list(shape)

    @property
    def weights(self):
        if self.drawn is None:
            random = numpy.random.RandomState(self.seed)
            self.drawn = {name: draw(random).astype("float32") for name, draw in self.draws.items()}
        return self.drawn

    def graph(self, name, dialect="torch"):
        """What network.json holds."""
        return {"name": name, "dialect": dialect, "classes": self.nodes[-1]["shape"][0], "input": self.input,
                "nodes": self.nodes}

    def add(self, op, inputs, shape, params=None, name=None, **settings):
        """params: what -> function of a RandomState"""
        name = name or "%s%d" % (op, len(self.nodes))
        inputs = [inputs] if isinstance(inputs, str) else inputs
        self.draws.update(("%s.%s" % (name, what), draw) for what, draw in (params or {}).items())
        self.nodes.append({"name": name, "op": op, "inputs": inputs, "output": name, "shape": list(shape),
                           "settings": settings, "params": {what: "%s.%s" % (name, what) for what in params or {}}})
        self.shapes[name] = tuple(shape)
        return name

    def plain(self, op, x, **settings):
        return self.add(op, x, self.shapes[x], **settings)

    def conv(self, x, channels, kernel, stride=1, pad=(0, 0, 0, 0), groups=1, bias=True, dilation=1, name=None):
        c, h, w = self.shapes[x]
        size = [channels, c // groups, kernel, kernel]
        params = {"weight": lambda r: r.randn(*size) * (2 / (size[1] * kernel * kernel)) ** 0.5}
        if bias:
            params["bias"] = lambda r: r.randn(channels) * 0.1
        out, covers = [channels], dilation * (kernel - 1) + 1
        for side, a, b in ((h, pad[0], pad[2]), (w, pad[1], pad[3])):
            out.append((side + a + b - covers) // stride + 1)
        return self.add("conv2d", x, out, params, name, channels=channels, kernel=[kernel] * 2, stride=[stride] * 2,
                        pad=list(pad), dilation=[dilation] * 2, groups=groups, bias=bias)

    def norm(self, x, epsilon=1e-5, momentum=0.1, affine=True, frozen=False):
        c = self.shapes[x][0]
        params = {"weight": lambda r: 1 + 0.2 * r.randn(c), "bias": lambda r: 0.1 * r.randn(c)} if affine else {}
        params.update(running_mean=lambda r: 0.1 * r.randn(c), running_var=lambda r: 0.5 + r.rand(c))
        return self.add("batchnorm", x, self.shapes[x], params, epsilon=epsilon, momentum=momentum, affine=affine,
                        frozen=frozen)

    def pool(self, op, x, size, stride=0, pad=(0, 0, 0, 0), ceil=False, **settings):
        c, h, w = self.shapes[x]
        step, out = stride or size, [c]
        for side, a, b in ((h, pad[0], pad[2]), (w, pad[1], pad[3])):
            n = -(-(side + a + b - size) // step) + 1 if ceil else (side + a + b - size) // step + 1
            out.append(n - 1 if ceil and (n - 1) * step >= side + a else n)
        return self.add(op, x, out, size=[size] * 2, stride=[step] * 2, pad=list(pad), ceil=ceil, **settings)

    def flatten(self, x):
        size = 1
        for side in self.shapes[x]:
            size *= side
        return self.add("flatten", x, [size])

    def dense(self, x, features, name=None, bias=True):
        n = self.shapes[x][0]
        params = {"weight": lambda r: r.randn(features, n) * (1 / n) ** 0.5}
        if bias:
            params["bias"] = lambda r: r.randn(features) * 0.1
        return self.add("dense", x, [features], params, name, features=features, bias=bias)


def small():
    """As the studies' small networks: convolutions, a pool, dropout, dense layers."""
    b = Builder((3, 12, 10))
    x = b.plain("relu", b.conv("image", 8, 3, pad=(1, 1, 1, 1), name="conv1"))
    x = b.plain("relu", b.conv(x, 8, 3))
    x = b.plain("dropout", b.pool("maxpool", x, 2), p=0.25)
    x = b.plain("relu", b.dense(b.flatten(x), 16))
    b.dense(b.plain("dropout", x, p=0.5), 5, name="logits")
    return b


def wide():
    """One of every op, with the paddings and windows that frameworks do differently."""
    b = Builder((3, 17, 20))
    x = b.plain("relu", b.norm(b.conv("image", 8, 5, 2, (2, 1, 2, 2), bias=False)))  # 'same' of TensorFlow
    x = b.plain("lrn", x, size=5, alpha=0.3, beta=0.75, k=1.5, divide=True)
    x = b.plain("relu6", b.norm(b.conv(x, 16, 3, 1, (1, 1, 1, 1), groups=8), epsilon=1e-3, affine=False))  # depthwise
    y = b.plain("leaky_relu", b.conv(x, 16, 3, 1, (2, 2, 2, 2), dilation=2), slope=0.1)
    x = b.add("add", [x, y], b.shapes[x])
    z = b.plain("gelu", b.conv(x, 16, 2, 1, (0, 1, 1, 0), groups=4), approximate="tanh")
    x = b.add("multiply", [x, z], b.shapes[x])
    pools = [b.pool("maxpool", x, 3, 2, (1, 0, 1, 1)), b.pool("avgpool", x, 3, 2, (1, 0, 1, 1), count_pad=False),
             b.pool("avgpool", x, 3, 2, (1, 0, 1, 1), count_pad=True),
             b.pool("avgpool", x, 3, 2, (1, 1, 1, 1), count_pad=True),
             b.pool("avgpool", x, 2, 2, ceil=True, count_pad=True), b.pool("maxpool", x, 3, 2, (1, 1, 1, 1))]
    x = b.add("concat", pools, (16 * len(pools),) + b.shapes[pools[0]][1:], axis=1)
    x = b.pool("maxpool", b.plain("tanh", x), 2, 2, ceil=True)
    x = b.norm(x, frozen=True)
    g = b.add("global_avgpool", x, [b.shapes[x][0], 1, 1])
    x = b.add("adaptive_avgpool", x, [b.shapes[x][0], 2, 2], size=[2, 2])
    x = b.plain("sigmoid", b.dense(b.plain("dropout", b.flatten(x), p=0.3), 12))
    x = b.add("concat", [x, b.flatten(g)], [12 + b.shapes[g][0]], axis=1)
    b.dense(b.norm(x), 4, name="logits")
    return b


def table():
    """Numbers in place of pictures, as Letter Recognition has them."""
    b = Builder((16,))
    x = b.plain("dropout", b.plain("relu", b.dense("image", 12)), p=0.2)
    b.dense(x, 6, name="logits")
    return b


def classic():
    """What Caffe has too: as AlexNet, GoogLeNet and ResNet are made."""
    b = Builder((3, 30, 27))
    x = b.plain("relu", b.conv("image", 8, 5, 2, (2, 2, 2, 2), name="FIRST"))
    x = b.plain("lrn", x, size=5, alpha=0.3, beta=0.75, k=1.0, divide=False)
    x = b.pool("maxpool", x, 3, 2, ceil=True)
    y = b.plain("relu", b.norm(b.conv(x, 8, 3, 1, (1, 1, 1, 1), groups=2, bias=False)))
    y = b.norm(b.conv(y, 8, 3, 1, (2, 2, 2, 2), bias=False, dilation=2), affine=False)
    x = b.plain("relu", b.add("add", [y, x], b.shapes[x]))
    z = b.plain("tanh", b.plain("leaky_relu", x, slope=0.1))
    x = b.add("concat", [x, b.plain("sigmoid", z)], (16,) + b.shapes[x][1:], axis=1)
    x = b.pool("avgpool", x, 3, 1, (1, 1, 1, 1), count_pad=True)
    x = b.pool("avgpool", x, 2, 2, (1, 1, 1, 1), ceil=True, count_pad=True)
    x = b.pool("maxpool", x, 2, 1)
    x = b.add("adaptive_avgpool", x, b.shapes[x], size=list(b.shapes[x][1:]))
    g = b.add("global_avgpool", x, [16])
    x = b.plain("dropout", b.plain("relu", b.dense(b.flatten(x), 12)), p=0.5)
    x = b.add("concat", [x, g], [28], axis=1)
    x = b.add("reshape", x, [7, 2, 2])
    b.dense(b.flatten(x), 4, name="logits")
    return b


NETWORKS = {"small": small, "wide": wide, "classic": classic, "table": table}


class Exchange:
    def __init__(self, folder, network, batch=4, dialect="torch"):
        self.folder, self.name, self.batch, self.dialect = folder, network, batch, dialect
        os.makedirs(folder, exist_ok=True)
        self.net = NETWORKS[network]()
        self.classes = self.net.nodes[-1]["shape"][0]
        count = sum(a.size for name, a in self.net.weights.items() if "running" not in name)
        with open(self.path("network.json"), "w") as file:
            json.dump(dict(self.net.graph(network, dialect), parameters=count), file)
        save(self.path("weights.safetensors"), self.net.weights)
        draw, self.batches = numpy.random.RandomState(2), {}
        for step in range(3):
            self.batches["samples.%d" % step] = draw.randn(batch, *self.net.input).astype("float32")
            self.batches["labels.%d" % step] = draw.randint(self.classes, size=batch).astype("int32")
        save(self.path("batches.safetensors"), self.batches)

    def path(self, name):
        return os.path.join(self.folder, name)

    def split(self, train, test):
        order = numpy.random.RandomState(3).permutation(train + test).astype("int32")
        save(self.path("split.safetensors"), {"train": order[:train], "test": order[train:]})

    def arrays(self, train, test):
        """Data that can be learnt: every class has a place that is bright."""
        draw, count = numpy.random.RandomState(4), train + test
        labels = draw.randint(self.classes, size=count).astype("int32")
        numbers = len(self.net.input) == 1
        samples = draw.randint(0, 120, size=[count] + self.net.input)
        flat = samples.reshape(count, -1)
        for i, label in enumerate(labels):
            flat[i, label::self.classes] += 120
        samples = samples.astype("float32") / 255 if numbers else samples.astype("uint8")
        save(self.path("data.safetensors"), {"samples": samples, "labels": labels})
        self.split(train, test)
        more = {} if numbers else {"scale": 1 / 255, "mean": [0.5, 0.4, 0.3], "std": [0.3, 0.25, 0.2]}
        return dict(kind="arrays", file=self.path("data.safetensors"), **more)

    def pictures(self, train, test, write):
        """write(path, height, width, pixel), with pixel(y, x) -> (r, g, b), makes a file."""
        _, high, wide = self.net.input
        os.makedirs(self.path("pictures"), exist_ok=True)
        with open(self.path("files.txt"), "w") as file:
            for i in range(train + test):
                label, name = i % self.classes, "a picture %02d.png" % i
                write(os.path.join(self.path("pictures"), name), high + 8 + i % 3, wide + 5 + i % 4,
                      lambda y, x: (40 * label, (y * 7 + i) % 256, (x * 5 + y) % 256))
                file.write("%d %s\n" % (label, name))
        self.split(train, test)
        return {"kind": "pictures", "folder": self.path("pictures"), "list": self.path("files.txt"),
                "resize": max(high, wide) + 2, "crop": [high, wide], "flip": "horizontal", "scale": 1 / 255,
                "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

    def experiment(self, mode, name="experiment.json", **more):
        e = {"format": 1, "mode": mode, "peer": "", "variant": "", "network": self.name,
             "graph": self.path("network.json"), "weights": self.path("weights.safetensors"), "batch": self.batch,
             "epochs": 2, "warmup_steps": 0, "threads": 2, "device": "cpu", "precision": "f32", "seed": 1, "steps": 3,
             "batches": self.path("batches.safetensors"), "split": self.path("split.safetensors"), "deadline_s": 600,
             "optimizer": {"name": "sgd", "dialect": "torch", "lr": 0.05, "momentum": 0.9, "nesterov": False,
                           "weight_decay": 0, "decay": 0}}
        e.update(more)
        with open(self.path(name), "w") as file:
            json.dump(e, file)
        return self.path(name)
