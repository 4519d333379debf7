"""Caffe as a peer of the lab: the network and the solver as prototxt files, pycaffe's solver a step at a time.

Written against Caffe 1.0, which no package index has for today's Python: it was tried with the one of Debian 11
(python3-caffe, 1.0.0 of August 2018, Python 3.9). What needs no Caffe is tested everywhere: net_text(), solver_text()
and what is refused.

Processor only. Pictures come from runner.Loader (Pillow in threads); Caffe's own loader wants a database made before.
ReLU and dropout work in place, as in Caffe's own models, save where every output is looked at (check mode). An error
inside Caffe ends the process: it leaves no line "failed", but a message on standard error.
"""
import os, tempfile

import runner
from runner import numpy


# --- the network as text ----------------------------------------------------------------------------------------


class Word(str):
    """One of an enum's, which stands without quotes."""


def field(name, value):
    """Lines of protobuf's text format: a dict is a message, a list a repeated field."""
    if isinstance(value, list):
        return "\n".join(field(name, one) for one in value)
    if isinstance(value, dict):
        lines = [field(key, one) for key, one in value.items() if one is not None]
        return "%s {\n%s\n}" % (name, "\n".join("  " + line for text in lines for line in text.split("\n")))
    if isinstance(value, bool):
        return "%s: %s" % (name, "true" if value else "false")
    if isinstance(value, str) and not isinstance(value, Word):
        return '%s: "%s"' % (name, value.replace("\\", "\\\\").replace('"', '\\"'))
    return "%s: %s" % (name, value)


def symmetric(node):
    if tuple(node.pad[:2]) != tuple(node.pad[2:]):
        raise runner.Refused("Caffe pads both ends alike, '%s' does not" % node.name)
    return node.pad[:2]


def both(name, sides):
    return {name + "_h": sides[0], name + "_w": sides[1]}


def convolution(node):
    made = {"num_output": node.channels, "bias_term": bool(node.bias), "group": node.groups}
    made.update(both("kernel", node.kernel), **both("stride", node.stride))
    made.update(both("pad", symmetric(node)))
    if tuple(node.dilation) != (1, 1):
        made["dilation"] = list(node.dilation)
    return [("Convolution", "convolution_param", made)]


def pooling(node, kind, down):
    """Caffe rounds sizes up; later versions can round down, where they are told."""
    pad, stride = symmetric(node), runner.strides(node)
    made = dict(both("kernel", node.size), pool=Word(kind), **both("stride", stride))
    made.update(both("pad", pad))

    def sizes(ceil):
        result = []
        for side, size, step, p in zip(node.in_shape[1:], node.size, stride, pad):
            room = side + 2 * p - size
            count = (-(-room // step) if ceil else room // step) + 1
            result.append(count - 1 if any(pad) and (count - 1) * step >= side + p else count)
        return tuple(result)

    if sizes(True) != tuple(node.shape[1:]):
        if sizes(False) != tuple(node.shape[1:]):
            raise runner.Refused("Caffe cuts other windows than the pool '%s'" % node.name)
        if not down:
            raise runner.Refused("this Caffe rounds the sizes of pools up, '%s' rounds down" % node.name)
        made["round_mode"] = Word("FLOOR")
    return [("Pooling", "pooling_param", made)]


def avgpool(node, down):
    if any(node.pad) and not node.count_pad:
        raise runner.Refused("Caffe's mean counts the padding, that of '%s' does not" % node.name)
    return pooling(node, "AVE", down)


def adaptive_avgpool(node):
    (h, w), (high, wide) = node.in_shape[1:], node.size
    if (h, w) == (high, wide):
        return []
    if h % high or w % wide:
        raise runner.Refused("Caffe has no adaptive pooling from %d x %d to %d x %d" % (h, w, high, wide))
    made = dict(both("kernel", (h // high, w // wide)), pool=Word("AVE"), **both("stride", (h // high, w // wide)))
    return [("Pooling", "pooling_param", made)]


def batchnorm(node):
    still = {"lr_mult": 0, "decay_mult": 0}
    norm = {"moving_average_fraction": 1 - node.momentum, "eps": node.epsilon}
    if node.settings.get("frozen"):
        norm["use_global_stats"] = True
    layers = [("BatchNorm", "batch_norm_param", norm, {"param": [still] * 3})]
    return layers + ([("Scale", "scale_param", {"bias_term": True})] if node.affine else [])


def lrn(node):
    if node.size % 2 == 0:
        raise runner.Refused("Caffe's LRN has windows of odd size only, not of %d" % node.size)
    alpha = node.alpha if node.divide else node.alpha * node.size  # Caffe divides
    return [("LRN", "lrn_param", {"local_size": node.size, "alpha": alpha, "beta": node.beta, "k": node.k})]


# Not Caffe's Flatten: behind a Reshape it takes the gradient for itself, and none reaches what lies before.
FLATTEN = [("Reshape", "reshape_param", {"shape": {"dim": [0, -1]}})]


def global_avgpool(node):
    pool = [("Pooling", "pooling_param", {"pool": Word("AVE"), "global_pooling": True})]
    return pool if len(node.shape) == 3 else pool + FLATTEN


# Lists of layers, one after the other: type, name of its settings, settings, and more fields if any. An empty list:
# the output is the input.
LAYERS = {
    "conv2d": lambda node, net, down: convolution(node),
    "dense": lambda node, net, down: [("InnerProduct", "inner_product_param", {
        "num_output": node.features, "bias_term": bool(node.bias)})],
    "batchnorm": lambda node, net, down: batchnorm(node),
    "relu": lambda node, net, down: [("ReLU", "", {})],
    "leaky_relu": lambda node, net, down: [("ReLU", "relu_param", {"negative_slope": node.slope})],
    "sigmoid": lambda node, net, down: [("Sigmoid", "", {})],
    "tanh": lambda node, net, down: [("TanH", "", {})],
    "softmax": lambda node, net, down: [("Softmax", "", {})],
    "maxpool": lambda node, net, down: pooling(node, "MAX", down),
    "avgpool": lambda node, net, down: avgpool(node, down),
    "adaptive_avgpool": lambda node, net, down: adaptive_avgpool(node),
    "global_avgpool": lambda node, net, down: global_avgpool(node),
    "lrn": lambda node, net, down: lrn(node),
    "dropout": lambda node, net, down: [("Dropout", "dropout_param", {"dropout_ratio": node.p})] if node.p else [],
    "flatten": lambda node, net, down: FLATTEN,
    "reshape": lambda node, net, down: [("Reshape", "reshape_param", {"shape": {"dim": [0] + list(node.shape)}})],
    "concat": lambda node, net, down: [("Concat", "concat_param", {"axis": node.axis})],
    "add": lambda node, net, down: eltwise(node, net, "SUM"),
    "multiply": lambda node, net, down: eltwise(node, net, "PROD"),
}


def eltwise(node, net, operation):
    if any(net.maker[name].shape != node.shape for name in node.inputs if name in net.maker):
        raise runner.Refused("Caffe's Eltwise takes values of one shape, '%s' has others" % node.name)
    return [("Eltwise", "eltwise_param", {"operation": Word(operation)})]


def net_text(net, batch, in_place=False, down=True):
    """The prototxt, and value's name -> blob's. A node's first layer has the node's name. down: this Caffe's pools
    know round_mode."""
    shapes = {"image": [batch] + list(net.input), "label": [batch]}
    layers = [{"name": name, "type": "Input", "top": name, "input_param": {"shape": {"dim": shape}}}
              for name, shape in shapes.items()]
    blobs = {"image": "image"}
    for node in net.nodes:
        if node.op not in LAYERS:
            raise runner.Refused("Caffe has no layer '%s'" % node.op)
        made, bottoms = LAYERS[node.op](node, net, down), [blobs[name] for name in node.inputs]
        value = node.inputs[0]
        spare = in_place and net.users[value] == 1 and node.op in ("relu", "dropout") and value in net.maker
        over = spare and net.maker[value].op in ("conv2d", "dense", "batchnorm", "add", "relu")
        blobs[node.output] = bottoms[0] if over or not made else node.output
        for i, (kind, settings_name, settings, *more) in enumerate(made):
            # Scale works in place, Reshape cannot.
            ends = i == len(made) - 1 or made[i + 1][0] == "Scale"
            layer = {"name": node.name + ("/%s" % kind.lower() if i else ""), "type": kind, "bottom": bottoms,
                     "top": blobs[node.output] if ends else "%s/%s" % (node.output, kind.lower())}
            layer.update(*more)
            if settings_name:
                layer[settings_name] = settings
            layers.append(layer)
            bottoms = [layer["top"]]
    layers.append({"name": "loss", "type": "SoftmaxWithLoss", "bottom": [blobs[net.nodes[-1].output], "label"],
                   "top": "loss"})
    return "\n".join([field("name", "network")] + [field("layer", layer) for layer in layers]) + "\n", blobs


# --- the solver as text -----------------------------------------------------------------------------------------


def solver_text(rule, net_path, seed):
    """Caffe's solvers hold the rate in the velocity, add weight decay to the gradient, and Adam's epsilon to the raw
    root: what asks for other equations is refused."""
    rule.check_rate(inside=True)
    kinds = {"sgd": "Nesterov" if rule.nesterov else "SGD", "rmsprop": "RMSProp", "adadelta": "AdaDelta",
             "adam": "Adam"}
    if rule.name not in kinds:
        raise runner.Refused("Caffe has no optimizer '%s'" % rule.name)
    rule.check_weight_decay("Caffe")
    if rule.name == "rmsprop" and (rule.epsilon_inside or rule.momentum):
        raise runner.Refused("Caffe's RMSProp has no momentum and adds epsilon to the root, the dialect '%s' does not"
                             % rule.dialect)
    if rule.name == "adam" and not rule.epsilon_hat:
        raise runner.Refused("Caffe's Adam adds epsilon to the raw root, the dialect '%s' to the corrected one"
                             % rule.dialect)
    made = {"train_net": net_path, "type": kinds[rule.name], "base_lr": rule.lr, "lr_policy": "fixed",
            "weight_decay": rule.weight_decay, "solver_mode": Word("CPU"), "random_seed": seed, "display": 0}
    if rule.decay:
        made.update(lr_policy="inv", gamma=rule.decay, power=1.0)
    if rule.name == "sgd":
        made["momentum"] = rule.momentum
    elif rule.name == "rmsprop":
        made.update(rms_decay=rule.rho, delta=rule.epsilon)
    elif rule.name == "adadelta":
        made.update(momentum=rule.rho, delta=rule.epsilon)
    else:
        made.update(momentum=rule.beta1, momentum2=rule.beta2, delta=rule.epsilon)
    return "\n".join(field(name, value) for name, value in made.items()) + "\n"


# --- the peer -----------------------------------------------------------------------------------------------------


class Caffe(runner.Peer):
    framework = "Caffe"
    variants = ("plain",)

    def setup(self, e):
        global caffe
        self.e, threads = e, e["threads"]
        if e["device"] != "cpu":
            raise runner.Refused("this runner uses Caffe on the processor only: Caffe 1.0 does not compile with "
                                 "cuDNN 8 or later")
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(threads)
        os.environ.setdefault("GLOG_minloglevel", "1")  # it tells about every layer
        import caffe
        caffe.set_mode_cpu()
        caffe.set_random_seed(e["seed"])
        self.down = "round_mode" in caffe.proto.caffe_pb2.PoolingParameter.DESCRIPTOR.fields_by_name
        detail = {"blas_threads": threads, "format": "NCHW",
                  "pictures": "Pillow in threads: %d" % runner.loader_threads(threads)}
        return caffe.__version__, detail

    def build(self, e, net):
        self.net, check = net, e["mode"] == "check"
        self.folder = tempfile.TemporaryDirectory()
        net_path, solver_path = (os.path.join(self.folder.name, name) for name in ("net.prototxt", "solver.prototxt"))
        described, self.blobs = net_text(net, e["batch"], not check, self.down)
        for path, what in ((net_path, described), (solver_path, solver_text(runner.Rule(e), net_path, e["seed"]))):
            with open(path, "w") as file:
                file.write(what)
        self.solver = caffe.get_solver(solver_path)
        self.learner, self.tester = self.solver.net, None
        self.net_path, self.places = net_path, []
        for node in net.nodes:
            self.fill(node, net.arrays(node))
        self.learnt = [(name, blob) for name, blob in self.places if name in set(net.trainable())]
        count = sum(blob.count for _, blob in self.learnt)
        heavy = sum(layer.type in ("Convolution", "InnerProduct") for layer in self.learner.layers)
        return count, count, heavy

    def fill(self, node, arrays):
        """The blobs of a node's layers: weight and bias, or the sums of running statistics with their divisor."""
        params = self.learner.params
        if node.op == "batchnorm":
            # A sum that starts as that of endlessly many steps gives the running means of other frameworks; Caffe's
            # own start is nothing at all, as after no step.
            sums = params[node.name]
            divisor = 0.0 if self.net.dialect == "caffe" else 1 / node.momentum
            if node.settings.get("frozen"):
                divisor = 1.0
            sums[2].data[...] = divisor
            for i, what in enumerate(("running_mean", "running_var")):
                sums[i].data[...] = arrays[what] * numpy.float32(divisor)
        owner = node.name + "/scale" if node.op == "batchnorm" else node.name
        for i, what in enumerate(("weight", "bias")):
            if what in arrays:
                blob = params[owner][i]
                blob.data[...] = arrays[what]
                self.places.append((node.params[what], blob))

    def put(self, net, x, y):
        if tuple(net.blobs["image"].shape) != tuple(x.shape):  # the last batch of an epoch may be smaller
            net.blobs["image"].reshape(*x.shape)
            net.blobs["label"].reshape(len(y))
            net.reshape()
        net.blobs["image"].data[...] = x
        net.blobs["label"].data[...] = y

    def outputs(self, x, see):
        """The forward pass adds to the running sums: they are put back."""
        kept = [(blob, blob.data.copy()) for blobs in self.learner.params.values() for blob in blobs]
        self.put(self.learner, x, numpy.zeros(len(x)))
        self.learner.forward()
        for node in self.net.nodes:
            see(node.name, self.learner.blobs[self.blobs[node.output]].data.copy())
        for blob, value in kept:
            blob.data[...] = value

    def params(self):
        return [(name, blob.data) for name, blob in self.learnt]

    def loader(self, part):
        return runner.Loader(part, self.e["batch"], self.e["seed"], self.e["threads"])

    def step(self, x, y):
        self.put(self.learner, x, y)
        self.solver.step(1)
        return float(self.learner.blobs["loss"].data)

    def test(self, x, y):
        if self.tester is None:
            self.tester = caffe.Net(self.net_path, caffe.TEST)
            self.tester.share_with(self.learner)
        self.put(self.tester, x, y)
        self.tester.forward()
        logits = self.tester.blobs[self.blobs[self.net.nodes[-1].output]].data
        return float(self.tester.blobs["loss"].data), int((logits.argmax(1) == y).sum())


if __name__ == "__main__":
    runner.main(Caffe())
