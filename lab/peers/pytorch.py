"""PyTorch as a peer of the lab: nn modules in a torch.fx graph, DataLoader, torch.optim.

Variants: contiguous, channels_last, compiled (torch.compile), compiled_channels_last. Pictures are read by Pillow and
torchvision's transforms in worker processes; arrays lie in a TensorDataset and are indexed by whole batches.
"""
import itertools, operator

import runner


def pictures(part):
    """A map-style dataset, as torchvision's ImageFolder is one."""
    from torchvision import transforms as T
    unit = 255 * part.scale  # ToTensor divides by 255
    last = [T.ToTensor(), T.Normalize((part.mean / unit).tolist(), (part.std / unit).tolist())]
    return runner.Pictures(part, T, last)


# --- layers ---------------------------------------------------------------------------------------------------------


def padded(node, value, make):
    """A layer made for padding that is the same at both ends, or for padding put before it."""
    top, left, bottom, right = node.pad
    if (top, left) == (bottom, right):
        return make((top, left))
    return nn.Sequential(nn.ConstantPad2d((left, right, top, bottom), value), make(0))


def convolution(node):
    kernel, stride, dilation = tuple(node.kernel), tuple(node.stride), tuple(node.dilation)
    return padded(node, 0.0, lambda pad: nn.Conv2d(node.in_shape[0], node.channels, kernel, stride, pad, dilation,
                                                   node.groups, node.bias))


def batchnorm(node):
    kind = nn.BatchNorm2d if len(node.in_shape) == 3 else nn.BatchNorm1d
    layer = kind(node.in_shape[0], node.epsilon, node.momentum, node.affine)
    if node.settings.get("frozen"):
        layer.train = lambda mode=True: layer  # stays in evaluation mode, where the running statistics count
        layer.training = False
    return layer


def maxpool(node):
    ceil, size, stride = bool(node.settings.get("ceil")), tuple(node.size), runner.strides(node)
    return padded(node, float("-inf"), lambda pad: nn.MaxPool2d(size, stride, pad, ceil_mode=ceil))


def avgpool(node):
    ceil, size, stride = bool(node.settings.get("ceil")), tuple(node.size), runner.strides(node)
    if node.pad[:2] == node.pad[2:]:
        return nn.AvgPool2d(size, stride, tuple(node.pad[:2]), ceil, node.count_pad)
    top, left, bottom, right = runner.pads(node)
    pool = nn.Sequential(nn.ConstantPad2d((left, right, top, bottom), 0.0), nn.AvgPool2d(size, stride))
    return nn.Sequential(pool, times(torch.from_numpy(size[0] * size[1] / runner.pool_pixels(node))))


def lrn(node):
    alpha = node.alpha if node.divide else node.alpha * node.size  # PyTorch divides
    return nn.LocalResponseNorm(node.size, alpha, node.beta, node.k)


def times(factor):
    layer = nn.Module()
    layer.register_buffer("factor", factor)
    layer.forward = lambda x: x * layer.factor
    return layer


def relu(kind):
    """In place where nothing else reads the value, nor its maker's gradient: as torchvision's networks do."""

    def make(node, net):
        value = node.inputs[0]
        maker = net.maker.get(value)
        spare = net.users[value] == 1 and maker and maker.op in ("conv2d", "dense", "batchnorm", "add")
        return kind(node, bool(spare))

    return make


LAYERS = {
    "conv2d": lambda node, net: convolution(node),
    "dense": lambda node, net: nn.Linear(node.in_shape[0], node.features, node.bias),
    "batchnorm": lambda node, net: batchnorm(node),
    "relu": relu(lambda node, spare: nn.ReLU(inplace=spare)),
    "relu6": relu(lambda node, spare: nn.ReLU6(inplace=spare)),
    "leaky_relu": relu(lambda node, spare: nn.LeakyReLU(node.slope, inplace=spare)),
    "sigmoid": lambda node, net: nn.Sigmoid(),
    "tanh": lambda node, net: nn.Tanh(),
    "gelu": lambda node, net: nn.GELU(approximate=node.settings.get("approximate", "none")),
    "softmax": lambda node, net: nn.Softmax(1),
    "maxpool": lambda node, net: maxpool(node),
    "avgpool": lambda node, net: avgpool(node),
    "adaptive_avgpool": lambda node, net: nn.AdaptiveAvgPool2d(tuple(node.size)),
    "global_avgpool": lambda node, net: nn.AdaptiveAvgPool2d(1) if len(node.shape) == 3 else
    nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    "lrn": lambda node, net: lrn(node),
    "dropout": lambda node, net: nn.Dropout(node.p),
    "flatten": lambda node, net: nn.Flatten(),
    "reshape": lambda node, net: nn.Unflatten(1, node.shape) if len(node.in_shape) == 1 else
    nn.Sequential(nn.Flatten(), nn.Unflatten(1, node.shape)),
}


def joined(graph, node, inputs):
    """Ops of several inputs, which are functions in PyTorch; None: a layer."""
    if node.op == "concat":
        return graph.call_function(torch.cat, (inputs, node.axis))
    function = {"add": operator.add, "multiply": operator.mul}.get(node.op)
    if not function:
        return None
    value = inputs[0]
    for other in inputs[1:]:
        value = graph.call_function(function, (value, other))
    return value


# --- the peer -------------------------------------------------------------------------------------------------------


class PyTorch(runner.Eager):
    framework = "PyTorch"
    variants = ("contiguous", "channels_last", "compiled", "compiled_channels_last")
    precisions = ("f32", "tf32", "bf16")

    def setup(self, e):
        global torch, nn
        import torch
        from torch import nn
        self.e, self.threads = e, e["threads"]
        self.device = "cpu" if e["device"] == "cpu" else "cuda"
        if self.device == "cuda" and torch.version.cuda is None:
            raise runner.Refused("this PyTorch is a CPU build: torch.version.cuda is None (%s)" % torch.__version__)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise runner.Refused("PyTorch %s, built for CUDA %s, sees no GPU" % (torch.__version__, torch.version.cuda))
        if self.device == "cpu" and e["precision"] == "tf32":
            raise runner.Refused("tf32 is for GPUs")
        self.workers = runner.loader_threads(self.threads)
        torch.set_num_threads(self.threads)
        torch.manual_seed(e["seed"])
        set_precision(e["precision"])
        torch.backends.cudnn.benchmark = True  # as its users do for sizes that stay: of each kernel the fastest
        self.last, self.compiles = "channels_last" in e["variant"], "compiled" in e["variant"]
        detail = {"threads": torch.get_num_threads(), "interop_threads": torch.get_num_interop_threads(),
                  "blas": "mkl" if torch.backends.mkl.is_available() else "other",
                  "onednn": torch.backends.mkldnn.is_available(),
                  "format": "channels_last" if self.last else "contiguous",
                  "compiled": self.compiles, "pictures": "Pillow in processes: %d" % self.workers}
        if self.device == "cuda":
            detail.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda,
                          cudnn=torch.backends.cudnn.version(), cudnn_benchmark=True)
        if e["precision"] != "f32":
            detail["precision"] = {"tf32": "factors of convolutions and matrix products cut to tf32",
                                   "bf16": "torch.autocast to bfloat16; parameters and updates are float32"
                                   }[e["precision"]]
        return torch.__version__, detail

    def build(self, e, net):
        graph, layers, values, self.weights, self.values = torch.fx.Graph(), {}, {}, {}, {}
        values["image"] = graph.placeholder("image")
        for node in net.nodes:
            inputs = [values[name] for name in node.inputs]
            value = joined(graph, node, inputs)
            if value is None:
                layers[node.name] = LAYERS[node.op](node, net)
                self.fill(layers[node.name], node, net)
                value = graph.call_module(node.name, (inputs[0],))
            values[node.output], self.values[value] = value, node.name
        graph.output(values[net.nodes[-1].output])
        self.plain = torch.fx.GraphModule(layers, graph).to(self.device)
        if self.last:
            self.plain = self.plain.to(memory_format=torch.channels_last)
        self.plain.train()
        self.model = torch.compile(self.plain) if self.compiles else self.plain
        self.loss = nn.CrossEntropyLoss()
        self.optimizer, self.before_step, self.schedule = optimizer(runner.Rule(e), self.plain.parameters())
        counts = [p.numel() for p in self.plain.parameters()]
        heavy = sum(isinstance(m, (nn.Conv2d, nn.Linear)) for m in self.plain.modules())
        return sum(counts), sum(p.numel() for p in self.plain.parameters() if p.requires_grad), heavy

    def fill(self, layer, node, net):
        """The layer's initial weights; it may stand behind padding."""
        layer = layer[-1] if node.params and isinstance(layer, nn.Sequential) else layer
        for what, array in net.arrays(node).items():
            tensor = getattr(layer, what)
            tensor.data.copy_(torch.from_numpy(array.copy()))
            self.weights[node.params[what]] = tensor

    def feed(self, x, y):
        return torch.as_tensor(x), torch.as_tensor(y)

    def ready(self, x, y):
        """On the device and in the format; nothing is done where it is so already."""
        x = x.to(self.device, non_blocking=True)
        if self.last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return x, y.to(self.device, non_blocking=True)

    def outputs(self, x, see):
        names = self.values

        class Watched(torch.fx.Interpreter):
            def run_node(self, n):
                result = super().run_node(n)
                if n in names:
                    see(names[n], result.float().cpu().numpy())
                return result

        with torch.no_grad(), self.lowered():
            Watched(self.plain).run(self.ready(x, torch.zeros(1))[0])

    def params(self):
        return [(name, tensor.detach().cpu().numpy()) for name, tensor in self.weights.items()]

    def loader(self, part):
        data = torch.utils.data
        order = torch.Generator().manual_seed(self.e["seed"])
        batch, pin = self.e["batch"], self.device == "cuda"
        if part.files is not None:
            return data.DataLoader(pictures(part), batch, shuffle=part.train, generator=order, pin_memory=pin,
                                   num_workers=self.workers, multiprocessing_context="fork", persistent_workers=True)
        whole = data.TensorDataset(torch.from_numpy(part.samples()), torch.from_numpy(part.labels))
        sampler = data.RandomSampler(whole, generator=order) if part.train else data.SequentialSampler(whole)
        return data.DataLoader(whole, None, sampler=data.BatchSampler(sampler, batch, False), pin_memory=pin)

    def warm_test(self, batches, rest):
        with torch.random.fork_rng(devices=[]):  # DataLoader draws a number that dropout would have had
            super().warm_test(batches, rest)

    def clear(self):
        self.optimizer.zero_grad(set_to_none=True)

    def without_gradients(self):
        return torch.no_grad()

    def in_bf16(self):
        return torch.autocast(self.device, torch.bfloat16)

    def sync(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def device_peak(self):
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else None

    def functions(self, batches):
        from torch.profiler import ProfilerActivity, profile
        gpu, steps = self.device == "cuda", 0
        with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * gpu) as seen:
            for x, y in itertools.islice(batches, 8):
                self.step(x, y)
                steps += 1
            self.sync()
        all_of_it = seen.key_averages()
        time = ("self_cpu_time_total" if not gpu else "self_device_time_total" if
                hasattr(all_of_it[0], "self_device_time_total") else "self_cuda_time_total")  # its name till 2.3
        return steps, [(e.key, 1e-6 * getattr(e, time), e.count) for e in all_of_it
                       if (str(e.device_type) == "DeviceType.CUDA") == gpu]


def set_precision(word):
    """Of convolutions and matrix products of floats on a GPU."""
    b, on = torch.backends, word == "tf32"
    if hasattr(b, "fp32_precision"):  # since 2.9; the older names must then not be used
        b.cuda.matmul.fp32_precision = b.cudnn.conv.fp32_precision = "tf32" if on else "ieee"
    else:
        b.cuda.matmul.allow_tf32 = b.cudnn.allow_tf32 = on


def optimizer(rule, params):
    """The optimizer, what to call before its steps or None, and the schedule of its rate or None."""
    rule.check_rate(inside=False)
    rule.check_weight_decay("PyTorch", but=("adamw",))
    o, settings, before = torch.optim, {"lr": rule.lr, "weight_decay": rule.weight_decay}, None
    if rule.name == "sgd":
        made = o.SGD(params, momentum=rule.momentum, nesterov=rule.nesterov, **settings)
    elif rule.name == "rmsprop":
        if rule.epsilon_inside:
            raise runner.Refused("PyTorch's RMSprop adds epsilon to the root, the dialect '%s' below it"
                                 % rule.dialect)
        made = o.RMSprop(params, alpha=rule.rho, eps=rule.epsilon, momentum=rule.momentum, **settings)
    elif rule.name == "adadelta":
        made = o.Adadelta(params, rho=rule.rho, eps=rule.epsilon, **settings)
    elif rule.name in ("adam", "adamw"):
        kind = o.Adam if rule.name == "adam" else o.AdamW
        made = kind(params, betas=(rule.beta1, rule.beta2), eps=rule.epsilon, **settings)
        if rule.epsilon_hat:
            before = rule.raw_epsilon(lambda value: made.param_groups[0].update(eps=value))  # there is one
    else:
        raise runner.Refused("this runner has no optimizer '%s'" % rule.name)
    decays = o.lr_scheduler.LambdaLR(made, lambda t: 1 / (1 + rule.decay * t)) if rule.decay else None
    return made, before, decays


if __name__ == "__main__":
    runner.main(PyTorch())
