"""Apache SINGA as a peer of the lab: singa.autograd's operations, singa.opt, one step at a time, channels first.

Written against the Python interface of SINGA 3.2 and later; this runner has not been run, since no package index has
SINGA for today's Python (it comes by conda, or as a container's image). Trust its numbers only when `brasa lab run`
has found them the same as Brasa's.

Processor only. A convolution, a pool and a batch normalization need a handle, which holds for one size of batch: one
is made for each size that is seen, since the last batch of an epoch may be smaller. That rules out SINGA's graph
mode, which records one step and repeats it. SINGA's dropout multiplies what it keeps by 1 - p, where others divide by
it; so it is here. Pictures come from runner.Loader (Pillow in threads).
"""
import os

import runner
from runner import numpy


# --- layers ---------------------------------------------------------------------------------------------------------


class Layers:
    """The operations of a network on tensors. parameters: node's name -> what -> Tensor."""

    def __init__(self, parameters, seed):
        self.parameters, self.handles, self.seed = parameters, {}, seed

    def handle(self, node, x, make):
        key = (node.name, x.shape[0])
        if key not in self.handles:
            self.handles[key] = make()
        return self.handles[key]

    def conv2d(self, node, x):
        p, (top, left, bottom, right) = self.parameters[node.name], node.pad
        pad = (min(top, bottom), min(left, right))
        odd = (top - pad[0], bottom - pad[0], left - pad[1], right - pad[1])  # what is more at one end

        def make():
            n, c, h, w = x.shape
            wide = tensor.Tensor((n, c, h + odd[0] + odd[1], w + odd[2] + odd[3]), x.device)
            return wrap.ConvHandle(wide.data, tuple(node.kernel), tuple(node.stride), pad, c, node.channels,
                                   bool(node.bias), node.groups)

        return autograd.conv2d(self.handle(node, x, make), x, p["weight"], p.get("bias"), odd)

    def dense(self, node, x):
        p = self.parameters[node.name]
        y = autograd.matmul(x, p["weight"])
        return autograd.add_bias(y, p["bias"], axis=0) if node.bias else y

    def batchnorm(self, node, x):
        p = self.parameters[node.name]
        made = self.handle(node, x, lambda: wrap.BatchNormHandle(node.momentum, x.data))
        return autograd.batchnorm_2d(made, x, p["weight"], p["bias"], p["running_mean"], p["running_var"])

    def pool(self, node, x, size, stride, pad, largest):
        made = self.handle(node, x, lambda: wrap.PoolingHandle(x.data, size, stride, pad, largest))
        return autograd.pooling_2d(made, x)

    def maxpool(self, node, x):
        return self.pool(node, x, tuple(node.size), tuple(runner.strides(node)), tuple(node.pad[:2]), True)

    def avgpool(self, node, x):
        return self.pool(node, x, tuple(node.size), tuple(runner.strides(node)), tuple(node.pad[:2]), False)

    def adaptive_avgpool(self, node, x):
        (h, w), (high, wide) = node.in_shape[1:], node.size
        if (h, w) == (high, wide):
            return x
        size = (h // high, w // wide)
        return self.pool(node, x, size, size, (0, 0), False)

    def global_avgpool(self, node, x):
        y = autograd.globalaveragepool(x)
        return y if len(node.shape) == 3 else autograd.flatten(y)

    def dropout(self, node, x):
        if not node.p or not autograd.training:
            return x
        self.seed += 1  # the operation sets it anew at every call
        return autograd.dropout(x, self.seed, node.p)

    def relu(self, node, x):
        return autograd.relu(x)

    def relu6(self, node, x):
        return autograd.clip(x, 0.0, 6.0)

    def leaky_relu(self, node, x):
        return autograd.leakyrelu(x, node.slope)

    def sigmoid(self, node, x):
        return autograd.sigmoid(x)

    def tanh(self, node, x):
        return autograd.tanh(x)

    def softmax(self, node, x):
        return autograd.softmax(x, axis=1)

    def flatten(self, node, x):
        return autograd.flatten(x)

    def reshape(self, node, x):
        return autograd.reshape(x, (x.shape[0],) + node.shape)

    def concat(self, node, *inputs):
        return autograd.cat(list(inputs), node.axis)

    def add(self, node, x, *others):
        for other in others:
            x = autograd.add(x, other)
        return x

    def multiply(self, node, x, *others):
        for other in others:
            x = autograd.mul(x, other)
        return x


def check_node(node):
    """Refuses what SINGA has not, on the processor."""
    def no(why):
        raise runner.Refused("SINGA %s ('%s')" % (why, node.name))

    if not hasattr(Layers, node.op):
        no("has no layer of the kind '%s'" % node.op)
    if node.op == "conv2d" and (node.groups != 1 or tuple(node.dilation) != (1, 1)):
        no("has neither groups nor dilation in convolutions on the processor")
    if node.op == "batchnorm" and (node.settings.get("frozen") or abs(node.epsilon - 1e-5) > 1e-9):
        no("has one epsilon for batch normalization, 1e-5, and cannot freeze its statistics")
    if node.op in ("maxpool", "avgpool"):
        if tuple(node.pad[:2]) != tuple(node.pad[2:]) or runner.pads(node) != tuple(node.pad):
            no("pads pools alike at both ends, and rounds their sizes down")
        if node.op == "avgpool" and node.count_pad and any(node.pad):
            no("leaves the padding out of the means of pools")
    if node.op == "adaptive_avgpool" and (node.in_shape[1] % node.size[0] or node.in_shape[2] % node.size[1]):
        no("has no adaptive pooling")


# --- optimizers -----------------------------------------------------------------------------------------------------


def optimizer(rule):
    rule.check_rate(inside=False)
    rule.check_weight_decay("SINGA")

    class Decays(opt.DecayScheduler):
        def call(self, step):
            rate = tensor.Tensor((1,), step.device)
            rate.set_value(self.init_value / (1 + rule.decay * float(tensor.to_numpy(step)[0])))
            return rate

    rate = Decays(rule.lr) if rule.decay else rule.lr
    if rule.name == "sgd":
        return opt.SGD(lr=rate, momentum=rule.momentum, weight_decay=rule.weight_decay, nesterov=rule.nesterov)
    if rule.name == "rmsprop":
        if rule.momentum:
            raise runner.Refused("SINGA's RMSProp has no momentum")
        return opt.RMSProp(lr=rate, rho=rule.rho, epsilon=rule.epsilon_below_root("SINGA"),
                           weight_decay=rule.weight_decay)
    if rule.name == "adam":
        return opt.Adam(lr=rate, beta_1=rule.beta1, beta_2=rule.beta2, epsilon=rule.epsilon,
                        weight_decay=rule.weight_decay)
    raise runner.Refused("SINGA has no optimizer '%s'" % rule.name)


# --- the peer -------------------------------------------------------------------------------------------------------


class Singa(runner.Peer):
    framework = "SINGA"
    epsilon_below_root = True
    variants = ("plain",)

    def setup(self, e):
        global autograd, opt, tensor, wrap
        self.e, threads = e, e["threads"]
        if e["device"] != "cpu":
            raise runner.Refused("this runner uses SINGA on the processor only")
        os.environ["OMP_NUM_THREADS"] = str(threads)
        import singa
        from singa import autograd, device, opt, tensor
        from singa import singa_wrap as wrap
        self.device = device.get_default_device()
        self.device.SetRandSeed(e["seed"])
        autograd.training = True
        detail = {"omp_threads": threads, "format": "NCHW", "graph": False,
                  "dropout": "scaled by 1 - p, as SINGA has it",
                  "pictures": "Pillow in threads: %d" % runner.loader_threads(threads)}
        return str(getattr(singa, "__version__", "unknown")), detail

    def build(self, e, net):
        self.net, self.rule, self.steps, parameters = net, runner.Rule(e), 0, {}
        for node in net.nodes:
            check_node(node)
        for node in net.nodes:
            arrays = net.arrays(node)
            if node.op == "batchnorm" and not node.affine:
                arrays.update(weight=numpy.ones(node.in_shape[0]), bias=numpy.zeros(node.in_shape[0]))
            for what, array in arrays.items():
                array = array.T if node.op == "dense" and what == "weight" else array  # inputs x outputs
                learns = what in node.params and not what.startswith("running")
                parameters.setdefault(node.name, {})[what] = self.put(array, node.params.get(what), learns)
        self.layers, self.optimizer = Layers(parameters, e["seed"]), optimizer(self.rule)
        self.states = [t for p in parameters.values() for t in p.values()]
        self.learnt = [(t.name, t) for t in self.states if t.stores_grad]
        count = sum(t.size() for _, t in self.learnt)
        return count, count, sum(node.op in ("conv2d", "dense") for node in net.nodes)

    def put(self, array, name=None, learns=False):
        array = numpy.ascontiguousarray(array, "float32")
        made = tensor.Tensor(array.shape, self.device, requires_grad=learns, stores_grad=learns, name=name)
        made.copy_from_numpy(array)
        return made

    def ready(self, x, y):
        labels = tensor.Tensor((len(y),), self.device, tensor.int32)
        labels.copy_from_numpy(numpy.ascontiguousarray(y, "int32"))
        return self.put(x), labels

    def forward(self, x, see=None):
        values = {"image": x}
        for node in self.net.nodes:
            inputs = runner.inputs_of(node, values)
            values[node.output] = getattr(self.layers, node.op)(node, *inputs)
            if see:
                see(node.name, tensor.to_numpy(values[node.output]))
        return values[self.net.nodes[-1].output]

    def outputs(self, x, see):
        """The forward pass moves the running statistics: they are put back."""
        kept = [(t, numpy.array(tensor.to_numpy(t))) for t in self.states]
        self.forward(self.put(x), see)
        for t, value in kept:
            t.copy_from_numpy(value)

    def params(self):
        return [(name, tensor.to_numpy(t)) for name, t in self.learnt]

    def loader(self, part):
        return runner.Loader(part, self.e["batch"], self.e["seed"], self.e["threads"])

    def step(self, x, y):
        x, y = self.ready(x, y)
        loss = autograd.softmax_cross_entropy(self.forward(x), y)
        self.steps += 1
        if self.rule.name == "adam" and self.rule.epsilon_hat:  # beside the raw root: a value that changes
            self.optimizer.epsilon_value.set_value(self.rule.epsilon / (1 - self.rule.beta2 ** self.steps) ** 0.5)
        self.optimizer(loss)  # goes back through the network, and updates
        return float(tensor.to_numpy(loss).reshape(-1)[0])

    def evaluate(self, batches):
        autograd.training = False
        result = super().evaluate(batches)
        autograd.training = True
        return result

    def test(self, x, y):
        samples, labels = self.ready(x, y)
        logits = self.forward(samples)
        loss = float(tensor.to_numpy(autograd.softmax_cross_entropy(logits, labels)).reshape(-1)[0])
        return loss, int((tensor.to_numpy(logits).argmax(1) == y).sum())


if __name__ == "__main__":
    runner.main(Singa())
