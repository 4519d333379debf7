"""JAX as a peer of the lab: one jitted function for a training step, channels last, kernels H x W x I x O.

JAX itself has neither layers nor optimizers nor a loader: layers are jax.numpy and lax, the updates are written by
hand, as in its tutorials, and pictures come from runner.Loader (Pillow in threads). In bf16 the step casts pictures and
parameters, and batch norm computes its statistics in float32.
"""
import os

import runner

ORDER = ("NHWC", "HWIO", "NHWC")


# --- layers ---------------------------------------------------------------------------------------------------------


def convolution(x, node, p):
    top, left, bottom, right = node.pad
    y = lax.conv_general_dilated(x, p["weight"], node.stride, [(top, bottom), (left, right)], dimension_numbers=ORDER,
                                 rhs_dilation=node.dilation, feature_group_count=node.groups)
    return y + p["bias"] if node.bias else y


def window(x, node, start, function):
    top, left, bottom, right = runner.pads(node)
    size, stride = (1,) + tuple(node.size) + (1,), (1,) + tuple(runner.strides(node)) + (1,)
    return lax.reduce_window(x, start, function, size, stride, ((0, 0), (top, bottom), (left, right), (0, 0)))


def avgpool(x, node, p):
    return window(x, node, 0.0, lax.add) / runner.pool_pixels(node)[None, :, :, None].astype(x.dtype)


def adaptive_avgpool(x, node, p):
    (h, w), (high, wide) = node.in_shape[1:], node.size
    if (h, w) == (high, wide):
        return x
    means = [runner.adaptive_means(*sides).astype(x.dtype) for sides in ((h, high), (w, wide))]
    return jnp.einsum("ih,jw,nhwc->nijc", *means, x)


def lrn(x, node, p):
    alpha = node.alpha / node.size if node.divide else node.alpha
    reach = (node.size // 2, (node.size - 1) // 2)
    squares = lax.reduce_window(x * x, 0.0, lax.add, (1, 1, 1, node.size), (1, 1, 1, 1), ((0, 0),) * 3 + (reach,))
    return x * (node.k + alpha * squares) ** -node.beta


def reshape(x, node, p):
    """In the network's order, which is channels first."""
    x = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x
    x = x.reshape((-1,) + node.shape)
    return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x


LAYERS = {
    "conv2d": convolution,
    "dense": lambda x, node, p: x @ p["weight"] + p["bias"] if node.bias else x @ p["weight"],
    "relu": lambda x, node, p: jax.nn.relu(x),
    "relu6": lambda x, node, p: jax.nn.relu6(x),
    "leaky_relu": lambda x, node, p: jax.nn.leaky_relu(x, node.slope),
    "sigmoid": lambda x, node, p: jax.nn.sigmoid(x),
    "tanh": lambda x, node, p: jnp.tanh(x),
    "gelu": lambda x, node, p: jax.nn.gelu(x, approximate=node.settings.get("approximate") == "tanh"),
    "softmax": lambda x, node, p: jax.nn.softmax(x),
    "maxpool": lambda x, node, p: window(x, node, -jnp.inf, lax.max),
    "avgpool": avgpool,
    "adaptive_avgpool": adaptive_avgpool,
    "global_avgpool": lambda x, node, p: x.mean((1, 2), keepdims=len(node.shape) == 3),
    "lrn": lrn,
    "reshape": reshape,
}


def batchnorm(x, node, p, train, variance_of):
    """The output, and the new running statistics."""
    mean, var, new = p["running_mean"], p["running_var"], {}
    if train and not node.settings.get("frozen"):
        axes, wide = tuple(range(x.ndim - 1)), x.astype(mean.dtype)
        mean, var = wide.mean(axes), wide.var(axes)
        count, m = x.size // x.shape[-1], node.momentum
        new = {"running_mean": (1 - m) * p["running_mean"] + m * mean,
               "running_var": (1 - m) * p["running_var"] + m * variance_of(var, count)}
    y = (x - mean) * lax.rsqrt(var + node.epsilon)
    return (y * p["weight"] + p["bias"] if node.affine else y).astype(x.dtype), new


def dropout(x, node, key):
    keep = jax.random.bernoulli(key, 1 - node.p, x.shape)
    return jnp.where(keep, x / (1 - node.p), 0)


def joined(node, inputs):
    if node.op == "concat":
        return jnp.concatenate(inputs, {1: 3, 2: 1, 3: 2}[node.axis] if inputs[0].ndim == 4 else node.axis)
    value = inputs[0]
    for other in inputs[1:]:
        value = value + other if node.op == "add" else value * other
    return value


def forward(net, turn, params, stats, x, key, train, see=None):
    """Logits and the new statistics; params and stats are node's name -> what -> array."""
    values, fresh = {"image": x}, {}
    unbiased = net.dialect != "tfkeras"
    for i, node in enumerate(net.nodes):
        inputs = [values[name] for name in node.inputs]
        x, p = inputs[0], dict(params.get(node.name, {}), **stats.get(node.name, {}))
        if node.op == "batchnorm":
            y, new = batchnorm(x, node, p, train, lambda v, n: v * n / max(n - 1, 1) if unbiased else v)
            fresh[node.name] = new or stats[node.name]
        elif node.op == "dropout":
            y = dropout(x, node, jax.random.fold_in(key, i)) if train and node.p else x
        elif node.op == "flatten":
            y = (x.transpose(0, 3, 1, 2) if node.name in turn else x).reshape(x.shape[0], -1)
        else:
            y = LAYERS[node.op](x, node, p) if node.op in LAYERS else joined(node, inputs)
        values[node.output] = y
        if see:
            see(node.name, y)
    return y, fresh


# --- optimizers -----------------------------------------------------------------------------------------------------


def update(rule, p, g, slots, rate, steps):
    """A parameter and the optimizer's memory of it, after a step; steps were done before it."""
    a, b = slots
    if rule.weight_decay and not rule.decoupled:
        g = g + rule.weight_decay * p
    elif rule.weight_decay:
        p = p * (1 - rate * rule.weight_decay)
    inner, outer = (rate, 1) if rule.rate_inside else (1, rate)  # where the velocity holds the rate
    if rule.name == "sgd":
        g = inner * g
        a = rule.momentum * a + g if rule.momentum else g
        return p - outer * (g + rule.momentum * a if rule.nesterov else a), (a, b)
    if rule.name == "rmsprop":
        a = rule.rho * a + (1 - rule.rho) * g * g
        move = inner * g / (jnp.sqrt(a + rule.epsilon) if rule.epsilon_inside else jnp.sqrt(a) + rule.epsilon)
        b = rule.momentum * b + move if rule.momentum else move
        return p - outer * b, (a, b)
    if rule.name == "adadelta":
        a = rule.rho * a + (1 - rule.rho) * g * g
        move = g * jnp.sqrt(b + rule.epsilon) / jnp.sqrt(a + rule.epsilon)
        return p - rate * move, (a, rule.rho * b + (1 - rule.rho) * move * move)
    c1, c2 = 1 - rule.beta1 ** (steps + 1.0), 1 - rule.beta2 ** (steps + 1.0)
    a, b = rule.beta1 * a + (1 - rule.beta1) * g, rule.beta2 * b + (1 - rule.beta2) * g * g
    root = jnp.sqrt(b) * jnp.sqrt(c2) / c2 if not rule.epsilon_hat else jnp.sqrt(b)
    size = rate / c1 if not rule.epsilon_hat else rate * jnp.sqrt(c2) / c1
    return p - size * a / (root + rule.epsilon), (a, b)


def slots_of(rule, p):
    """Arrays of zeros as the optimizer needs them, else empty ones."""
    used = {"sgd": (rule.momentum, 0), "rmsprop": (1, rule.momentum)}.get(rule.name, (1, 1))
    return tuple(jnp.zeros_like(p) if use else jnp.zeros(()) for use in used)


# --- the peer -------------------------------------------------------------------------------------------------------


class Jax(runner.Peer):
    framework = "JAX"
    variants = ("jit",)
    precisions = ("f32", "tf32", "bf16")
    channels_last = compiles = True

    def setup(self, e):
        global jax, jnp, lax
        threads, gpu = e["threads"], e["device"] != "cpu"
        if not gpu:
            os.environ["JAX_PLATFORMS"] = "cpu"
        # It would take three quarters of the GPU's memory at once, and nobody could see what it needs.
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        # XLA takes as many threads as there are processors that it may run on: there is no other setting.
        few = len(os.sched_getaffinity(0)) > threads
        if e["device"] == "cpu" and few:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        import jax
        import jax.numpy as jnp
        from jax import lax
        self.e = e
        if gpu and jax.default_backend() != "gpu":
            from importlib.util import find_spec
            plugin = any(find_spec("jax_cuda%s_plugin" % version) for version in ("12", "13"))
            raise runner.Refused("JAX %s sees no GPU" % jax.__version__ if plugin else
                                 "this JAX is a CPU build: it has no jax-cuda plugin (%s)" % jax.__version__)
        if not gpu and e["precision"] == "tf32":
            raise runner.Refused("tf32 is for GPUs")
        self.kind = jnp.bfloat16 if e["precision"] == "bf16" else jnp.float32
        jax.config.update("jax_default_matmul_precision",
                          {"f32": "float32", "tf32": "tensorfloat32", "bf16": "default"}[e["precision"]])
        workers = runner.loader_threads(threads)
        detail = {"backend": jax.default_backend(), "threads": threads, "pinned_to_processors": few, "format": "NHWC",
                  "optimizer": "written by hand", "pictures": "Pillow in threads: %d" % workers}
        if gpu:
            detail.update(gpu=jax.devices()[0].device_kind, preallocated=False)
        if e["precision"] != "f32":
            detail["precision"] = {"tf32": "jax_default_matmul_precision tensorfloat32",
                                   "bf16": "the step casts to bfloat16; parameters and updates are float32"
                                   }[e["precision"]]
        return jax.__version__, detail

    def build(self, e, net):
        self.net, rule = net, runner.Rule(e)
        if rule.name not in ("sgd", "rmsprop", "adadelta", "adam", "adamw"):
            raise runner.Refused("this runner has no optimizer '%s'" % rule.name)
        self.turn, permute = runner.flattened(net)
        params, stats = {}, {}
        for node in net.nodes:
            for what, array in net.arrays(node).items():
                if what == "weight" and node.op == "conv2d":
                    array = array.transpose(2, 3, 1, 0)
                elif what == "weight" and node.op == "dense":
                    array = runner.dense_weight(array, permute.get(node.name))
                kind = stats if what.startswith("running") else params
                kind.setdefault(node.name, {})[what] = jnp.array(array)
        slots = jax.tree_util.tree_map(lambda p: slots_of(rule, p), params)
        self.state = (params, stats, slots, jnp.zeros((), jnp.int32))
        self.key = jax.random.key(e["seed"])
        self.train = jax.jit(self.step_of(net, rule), donate_argnums=0)
        self.try_on = jax.jit(self.test_of(net))
        counts = [a.size for a in jax.tree_util.tree_leaves(params)]
        return sum(counts), sum(counts), sum("weight" in p and p["weight"].ndim > 1 for p in params.values())

    def cast(self, values):
        return jax.tree_util.tree_map(lambda value: value.astype(self.kind), values)

    def step_of(self, net, rule):
        def loss_of(params, stats, x, y, key):
            logits, fresh = forward(net, self.turn, self.cast(params), stats, self.cast(x), key, True)
            return cross_entropy(logits, y), fresh

        def step(state, x, y, key):
            params, stats, slots, steps = state
            key = jax.random.fold_in(key, steps)
            (loss, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params, stats, x, y, key)
            rate, old = rule.lr / (1 + rule.decay * steps), jax.tree_util.tree_structure(params)
            new = [update(rule, p, g, s, rate, steps) for p, g, s in zip(
                jax.tree_util.tree_leaves(params), jax.tree_util.tree_leaves(grads), old.flatten_up_to(slots))]
            params, slots = (old.unflatten([pair[i] for pair in new]) for i in (0, 1))
            return (params, stats, slots, steps + 1), loss

        return step

    def test_of(self, net):
        def test(params, stats, x, y):
            logits, _ = forward(net, self.turn, self.cast(params), stats, self.cast(x), None, False)
            return cross_entropy(logits, y), (logits.argmax(1) == y).sum()

        return test

    def ready(self, x, y):
        return (x.transpose(0, 2, 3, 1) if x.ndim == 4 else x), y.astype("int32")

    def outputs(self, x, see):
        params, stats = self.state[:2]
        seen = {}

        def run(x):
            forward(self.net, self.turn, self.cast(params), stats, self.cast(x), self.key, True, seen.__setitem__)
            return dict(seen)

        values = jax.jit(run)(self.ready(x, x)[0])
        for node in self.net.nodes:
            see(node.name, values[node.name])

    def params(self):
        return [(node.params[what], self.state[0][node.name][what])
                for node in self.net.nodes for what in ("weight", "bias") if what in node.params]

    def loader(self, part):
        return runner.Loader(part, self.e["batch"], self.e["seed"], self.e["threads"])

    def step(self, x, y):
        self.state, loss = self.train(self.state, *self.ready(x, y), self.key)
        return loss

    def test(self, x, y):
        return self.try_on(*self.state[:2], *self.ready(x, y))

    def sync(self):
        jax.block_until_ready(self.state)

    def device_peak(self):
        stats = jax.devices()[0].memory_stats() if self.e["device"] != "cpu" else None
        return stats.get("peak_bytes_in_use") if stats else None

    def functions(self, batches):
        raise runner.Unreadable("JAX writes its profile for TensorBoard, not for programs")


def cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), y[:, None], 1).mean()


if __name__ == "__main__":
    runner.main(Jax())
