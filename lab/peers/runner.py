"""What the runners of all peers share: the lines they print, what they read, and the order in which things happen.

A runner is started as a script, `PYTHON lab/peers/NAME.py EXPERIMENT.json`; the file has a class derived from Peer
and ends with `runner.main(NAME())`. README.md tells about the lines and about adding a peer. What always holds:
  - standard output carries lines of JSON and nothing else: what a framework prints goes to standard error;
  - an exception becomes a line "failed", or "refused", so that a peer's file needs no handlers;
  - nothing but numpy is needed (and Pillow, for those who take their pictures from Loader);
  - it works with Python 3.6, which the older frameworks ask for.
"""
import collections, concurrent.futures, contextlib, json, math, os, re, struct, sys, time, traceback

# A file jax.py beside this one must not be found in the place of the framework of that name.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [p for p in sys.path if os.path.realpath(p or ".") != HERE]

import numpy

MEMORY = re.compile("out of memory|not enough memory|n.t allocate|cannot allocate|unable to allocate|"
                    "failed to allocate|bad_alloc|resource_?exhausted|MemoryError|alloc_failed", re.I)


PIECE = 1 << 20  # numbers of the data that are made ready at once
PROFILE_MOST = 40  # functions that are told, the longest first


class Refused(Exception):
    """The experiment is not one for this peer, or not on this machine: a row that says why, and no failure."""


class Unreadable(Exception):
    """What was asked for cannot be told, and why: the rest goes on."""


# --- lines ----------------------------------------------------------------------------------------------------------


class Lines:
    """Takes standard output for itself; whatever is printed from here on goes to standard error."""

    def __init__(self):
        sys.stdout.flush()
        self.out = os.dup(1)
        os.dup2(2, 1)

    def say(self, event, **more):
        line = {"event": event, "at": time.monotonic()}
        line.update((key, finite(value)) for key, value in more.items())
        text = (json.dumps(line, allow_nan=False) + "\n").encode()
        while text:
            text = text[os.write(self.out, text):]


def finite(value):
    """JSON has no NaN: what is not finite is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def one_line(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else text[:497] + "..."


# --- what is read ---------------------------------------------------------------------------------------------------

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def header(path):
    """name -> type, shape, place in the file; of safetensors."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        said = json.loads(file.read(size).decode())
    said.pop("__metadata__", None)
    for name, t in said.items():
        if t["dtype"] not in TYPES:
            raise ValueError("%s: '%s' is of type %s" % (path, name, t["dtype"]))
    return {name: (TYPES[t["dtype"]], t["shape"], 8 + size + t["data_offsets"][0]) for name, t in said.items()}


def stored(file, kind, shape, place):
    """One array of a file."""
    file.seek(place)
    return numpy.fromfile(file, kind, int(numpy.prod(shape, dtype="int64"))).reshape(shape)


def safetensors(path, only=None):
    """name -> array, of all or of the one that is asked for."""
    with open(path, "rb") as file:
        return {name: stored(file, *where) for name, where in header(path).items() if only in (None, name)}


class Node:
    """One layer: name, op, inputs and output (names of values), shape (without N; C x H x W), settings, params (what
    -> name among the weights), in_shape, that of the first input, and spent: the inputs that nobody reads later."""

    def __init__(self, node, shapes):
        self.name, self.op, self.inputs, self.shape = node["name"], node["op"], node["inputs"], tuple(node["shape"])
        self.output = node.get("output") or self.name
        self.settings, self.params = dict(node.get("settings", {})), dict(node.get("params", {}))
        self.in_shape, self.spent = shapes[self.inputs[0]], ()

    def __getattr__(self, name):  # node.stride for node.settings["stride"]
        try:
            return self.__dict__["settings"][name]
        except KeyError:
            raise AttributeError("'%s', of the kind %s, has no setting '%s'" % (self.name, self.op, name))


class Network:
    """What network.json says, and the initial weights. In check mode dropout is off: p is 0."""

    def __init__(self, e):
        with open(e["graph"]) as file:
            graph = json.load(file)
        self.dialect, self.classes, self.input = graph["dialect"], graph["classes"], tuple(graph["input"])
        self.file, self.read = e["weights"], None
        shapes, self.nodes = {"image": self.input}, []
        for n in graph["nodes"]:
            node = Node(n, shapes)
            shapes[node.output] = node.shape
            if node.op == "dropout" and e["mode"] == "check":
                node.settings["p"] = 0
            self.nodes.append(node)
        self.users = collections.Counter(value for node in self.nodes for value in node.inputs)
        self.maker = {node.output: node for node in self.nodes}
        last = {value: node for node in self.nodes for value in node.inputs}
        for node in self.nodes:
            node.spent = tuple(value for value in set(node.inputs) if last[value] is node)

    @property
    def weights(self):
        """name -> array; read when they are first asked for, as not everybody does."""
        if self.read is None:
            self.read = safetensors(self.file)
        return self.read

    def arrays(self, node):
        """what ("weight", "running_mean") -> array, of a node."""
        known = ("weight", "bias", "running_mean", "running_var")
        return {what: self.weights[node.params[what]] for what in known if what in node.params}

    def trainable(self):
        """The names of weights and biases, in order."""
        return [node.params[what] for node in self.nodes for what in ("weight", "bias") if what in node.params]


def inputs_of(node, values):
    """From name -> value. For networks that compute layer by layer: what nobody reads any more is let go at once, as in
    a network that is written by hand. Held to the end of a batch it makes Paddle slower by 7 %."""
    inputs = [values[name] for name in node.inputs]
    for name in node.spent:
        del values[name]
    return inputs


class Data:
    """Samples with labels: pictures (files: paths) or arrays, which samples() gives. part() gives a
    selection of the same class, for training or for evaluation.

    Arrays are read from their file when they are asked for: what a run takes is to be what its framework needs, and
    not what is copied here."""

    def __init__(self, e):
        d = e["data"]
        self.kind, self.settings, self.train, self.channels = d["kind"], d, True, d.get("channels", 3)
        self.scale = d.get("scale") or (1 / 255 if self.kind == "pictures" else 1)
        self.mean, self.std = numpy.float32(d.get("mean") or [0]), numpy.float32(d.get("std") or [1])
        self.files = None
        if self.kind == "pictures":
            with open(d["list"], encoding="utf-8", errors="surrogateescape") as file:
                rows = [line.rstrip("\n").split(" ", 1) for line in file if line.strip()]
            self.files = numpy.array([os.path.join(d["folder"], row[1]) for row in rows])
            self.labels = numpy.array([int(row[0]) for row in rows], "int64")
        else:
            self.labels = safetensors(d["file"], "labels")["labels"].astype("int64")
        split = safetensors(e["split"])
        self.indices = {"train": split["train"], "test": split.get("test", split["train"][:0])}

    def normal(self, pixels):
        """Of N x C ... or C ...: (pixels * scale - mean) / std as float32; mean and std for each channel, or one."""
        wide = (-1,) + (1,) * (pixels.ndim - 2 if pixels.ndim in (2, 4) else pixels.ndim - 1)
        x = pixels.astype("float32")
        x *= numpy.float32(self.scale)
        x -= self.mean.reshape(wide)
        x /= self.std.reshape(wide)
        return x

    def part(self, which):
        part, chosen = object.__new__(Data), self.indices[which]
        part.__dict__.update(self.__dict__)
        part.train, part.chosen, part.labels = which == "train", chosen, self.labels[chosen]
        part.files = self.files[chosen] if self.files is not None else None
        return part

    def pieces(self):
        """Of a part of arrays: pairs of places in the part, and the samples there, as normal() makes them. They come
        in the order of the file."""
        path, order = self.settings["file"], numpy.argsort(self.chosen, kind="mergesort")
        kind, (count, *shape), place = header(path)["samples"]
        size = int(numpy.prod(shape, dtype="int64"))
        rows, chosen = max(1, PIECE // max(1, size)), self.chosen[order]
        with open(path, "rb") as file:
            for first in range(0, count, rows):
                a, b = numpy.searchsorted(chosen, (first, first + rows))
                if a < b:
                    start = place + first * size * numpy.dtype(kind).itemsize
                    raw = stored(file, kind, [min(rows, count - first)] + shape, start)
                    yield order[a:b], self.normal(raw[chosen[a:b] - first])

    def samples(self, channels_last=False):
        """Of a part of arrays: all of them, float32, scaled and normalized. Their place is one that frameworks take as
        it is (a multiple of 64), where they would copy others."""
        shape = [len(self)] + header(self.settings["file"])["samples"][1][1:]
        turned = [0, 2, 3, 1] if channels_last and len(shape) == 4 else range(len(shape))
        shape = [shape[axis] for axis in turned]
        size = 4 * int(numpy.prod(shape, dtype="int64"))
        room = numpy.empty(size + 64, "u1")
        first = -room.ctypes.data % 64
        made = room[first:first + size].view("float32").reshape(shape)
        for places, some in self.pieces():
            made[places] = some.transpose(turned)
        return made

    def __len__(self):
        return len(self.labels)


class Loader:
    """For frameworks that have none of their own: batches (C x H x W, float32) made ahead by threads, Pillow for the
    pictures. Every iteration over it is an epoch, in a new order where the part is for training."""

    def __init__(self, part, batch, seed, threads):
        self.part, self.batch, self.seed, self.epoch = part, batch, seed, 0
        self.samples = part.samples() if part.files is None else None
        self.pool = concurrent.futures.ThreadPoolExecutor(loader_threads(threads))

    def picture(self, path, draw):
        from PIL import Image
        t, image = self.part.settings, Image.open(path).convert("L" if self.part.channels == 1 else "RGB")
        width, height = image.size
        if t.get("resize"):
            short = min(width, height)
            width, height = (t["resize"] * side // short for side in (width, height))
            image = image.resize((width, height), Image.BILINEAR)
        high, wide = (crop or side for crop, side in zip(t.get("crop") or (0, 0), (height, width)))
        loose = self.part.train and t.get("random_crop")
        top = draw.randint(height - high + 1) if loose else int(round((height - high) / 2))
        left = draw.randint(width - wide + 1) if loose else int(round((width - wide) / 2))
        pixels = numpy.asarray(image.crop((left, top, left + wide, top + high)))
        if self.part.train and t.get("flip", "none") != "none" and draw.randint(2):
            pixels = pixels[:, ::-1] if t["flip"] == "horizontal" else pixels[::-1]
        return self.part.normal(pixels.reshape(high, wide, -1).transpose(2, 0, 1))

    def make(self, chosen, seed):
        if self.samples is not None:
            return self.samples[chosen], self.part.labels[chosen]
        draw = numpy.random.RandomState(seed)
        return numpy.stack([self.picture(self.part.files[i], draw) for i in chosen]), self.part.labels[chosen]

    def __iter__(self):
        self.epoch += 1
        order, ahead = numpy.arange(len(self.part)), collections.deque()
        if self.part.train:
            numpy.random.RandomState(self.seed + self.epoch).shuffle(order)
        for first in range(0, len(order), self.batch):
            seed = (self.seed * 1000003 + self.epoch * 10007 + first) % (1 << 32)
            ahead.append(self.pool.submit(self.make, order[first:first + self.batch], seed))
            if len(ahead) > 2:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class Pictures:
    """For frameworks with map-style data sets whose transforms have torchvision's names: files read by Pillow, cut and
    mirrored as the part says; `last` are the transforms that make arrays of them."""

    def __init__(self, part, transforms, last):
        t, steps = part.settings, []
        crop = tuple(t.get("crop") or (0, 0))
        if t.get("resize"):
            steps.append(transforms.Resize(t["resize"]))
        if all(crop):
            loose = part.train and t.get("random_crop")
            steps.append(transforms.RandomCrop(crop) if loose else transforms.CenterCrop(crop))
        if part.train and t.get("flip", "none") != "none":
            across = t["flip"] == "horizontal"
            steps.append(transforms.RandomHorizontalFlip() if across else transforms.RandomVerticalFlip())
        self.files, self.labels, self.transform = part.files, part.labels, transforms.Compose(steps + last)
        self.form = "L" if part.channels == 1 else "RGB"

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        from PIL import Image
        with Image.open(self.files[i]) as image:
            return self.transform(image.convert(self.form)), int(self.labels[i])


def loader_threads(threads):
    """How many threads or processes make pictures ready beside so many that compute."""
    return max(1, min(8, threads // 4))


# --- optimizers -----------------------------------------------------------------------------------------------------


class Rule:
    """The optimizer that is asked for, every setting an attribute, and the forms of its dialect (docs/dialects.md):
    rate_inside: the velocity holds the rate; epsilon_inside: RMSprop's stands under the root; epsilon_hat: Adam's is
    added to the raw root; decoupled: weight decay acts on the parameter, not on the gradient."""

    DEFAULTS = {"lr": 0.0, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0, "decay": 0.0, "rho": 0.9,
                "epsilon": 1e-7, "beta1": 0.9, "beta2": 0.999}

    def __init__(self, e):
        o, self.name, self.dialect = e["optimizer"], e["optimizer"]["name"], e["optimizer"].get("dialect", "torch")
        for name, default in self.DEFAULTS.items():
            setattr(self, name, type(default)(o.get(name, default)))  # 1 is a whole number in JSON
        keras = self.dialect in ("tfkeras", "keras2")
        self.rate_inside = keras or self.dialect == "caffe"
        self.epsilon_inside = self.dialect == "tfkeras"
        self.epsilon_hat = keras or self.dialect == "caffe"
        self.decoupled = self.name == "adamw" or self.dialect == "tfkeras"

    def check_rate(self, inside):
        """Refuses where it matters that the peer's velocity holds the rate, or does not. A rate that changes by less
        than a thousandth in a step makes no difference that the comparison of losses could see."""
        if self.momentum and self.decay > 1e-3 and inside != self.rate_inside:
            raise Refused("the rate decays and its momentum %s it, in the dialect '%s' the other way round"
                          % ("holds" if inside else "does not hold", self.dialect))

    def check_weight_decay(self, whose, but=()):
        """Refuses where the dialect's weight decay acts on the parameter, as that of no optimizer of the peer does but
        of these. Plain SGD is the same either way."""
        same = self.name in but or (self.name == "sgd" and not self.momentum)
        if self.weight_decay and self.decoupled and not same:
            raise Refused("%s's %s adds weight decay to the gradient, the dialect '%s' does not"
                          % (whose, self.name, self.dialect))

    def epsilon_below_root(self, whose):
        """For an RMSprop that adds its epsilon below the root. Where the dialect adds it to the root, the square comes
        to the same but for roots near epsilon itself, so that must be smaller than those of gradients that matter."""
        if self.epsilon_inside:
            return self.epsilon
        if self.epsilon > 1e-6:
            raise Refused("%s's RMSProp adds epsilon below the root, the dialect '%s' to the root, which is not nearly "
                          "the same with %g" % (whose, self.dialect, self.epsilon))
        return self.epsilon ** 2

    def raw_epsilon(self, put):
        """For an Adam that adds epsilon to the corrected root where the dialect adds it to the raw one: gives what is
        to be called before every step. It puts the value that comes to the same in that step."""
        steps = 0

        def before():
            nonlocal steps
            steps += 1
            put(self.epsilon / (1 - self.beta2 ** steps) ** 0.5)

        return before


# --- windows: for frameworks that do not pad as the network does ----------------------------------------------------


def pads(node):
    """top, left, bottom, right of a convolution or a pool; with `ceil`, what makes the last window whole too."""
    top, left, bottom, right = node.pad
    if node.settings.get("ceil"):
        (high, wide), (down, along) = node.size, strides(node)
        bottom += max(0, (node.shape[1] - 1) * down + high - (node.in_shape[1] + top + bottom))
        right += max(0, (node.shape[2] - 1) * along + wide - (node.in_shape[2] + left + right))
    return top, left, bottom, right


def strides(node):
    """Down and along; that of a pool may be 0 for its size."""
    size = node.settings.get("size", (1, 1))
    return [stride or size[axis] for axis, stride in enumerate(node.settings.get("stride") or (0, 0))]


def same_pads(node):
    """What "same" adds in TensorFlow's meaning: out = ceil(in / stride), the odd pixel at the end."""
    before, after = [], []
    size = node.settings.get("kernel") or node.size
    for axis in (0, 1):
        covers = (size[axis] - 1) * node.settings.get("dilation", (1, 1))[axis] + 1
        side, stride = node.in_shape[axis + 1], strides(node)[axis]
        total = max(0, (-(-side // stride) - 1) * stride + covers - side)
        before.append(total // 2)
        after.append(total - total // 2)
    return tuple(before + after)


def pool_pixels(node):
    """The divisor of each mean of an avgpool, H x W: pixels under the window, the padding's only if they count."""
    sides = []
    for axis in (0, 1):
        size, stride, side = node.size[axis], strides(node)[axis], node.in_shape[axis + 1]
        before, after = node.pad[axis], node.pad[axis + 2]
        low, high = (-before, side + after) if node.count_pad else (0, side)
        first = numpy.arange(node.shape[axis + 1]) * stride - before
        sides.append(numpy.minimum(first + size, high) - numpy.maximum(first, low))
    return numpy.outer(*sides).astype("float32")


def adaptive_means(inputs, outputs):
    """outputs x inputs: the matrix that makes means of bins as adaptive pooling cuts them."""
    matrix = numpy.zeros((outputs, inputs), "float32")
    for i in range(outputs):
        first, last = i * inputs // outputs, -(-(i + 1) * inputs // outputs)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


ELEMENTWISE = ("dropout", "relu", "relu6", "leaky_relu", "sigmoid", "tanh", "gelu")


def flattened(net):
    """For frameworks with channels last, whose flatten has another order than the network's. Gives the names of
    flatten nodes that must transpose first, and a dense layer's name -> C x H x W for those whose weights are to be
    permuted instead."""
    turn, permute = set(), {}
    for node in net.nodes:
        if node.op != "flatten" or len(node.in_shape) != 3 or node.in_shape[1] * node.in_shape[2] == 1:
            continue
        values, dense, all_known = {node.output}, [], True
        for user in net.nodes:
            if values & set(user.inputs):
                if user.op in ELEMENTWISE:
                    values.add(user.output)
                elif user.op == "dense":
                    dense.append(user.name)
                else:
                    all_known = False
        if all_known and dense:
            permute.update((name, node.in_shape) for name in dense)
        else:
            turn.add(node.name)
    return turn, permute


def dense_weight(array, chw):
    """A dense layer's weight as inputs x outputs; chw: of the flattened input that lies channels last, or None."""
    if chw:
        array = array.reshape((-1,) + tuple(chw)).transpose(0, 2, 3, 1).reshape(array.shape)
    return numpy.ascontiguousarray(array.T)


# --- the interface --------------------------------------------------------------------------------------------------


class Peer:
    """What a framework's file implements. The methods are called in this order; e is the experiment."""

    framework = ""  # its name, as people write it
    variants = ("",)  # forms in which it can run; the first is the plain one, which "" means too
    precisions = ("f32",)  # on some device; setup() refuses what this one has not
    channels_last = False  # how values lie that outputs() sees
    compiles = False  # a program for each size of batch; may be set in setup()
    epsilon_below_root = False  # where its RMSprop adds it: see Rule

    def setup(self, e):
        """Imports the framework, sets threads, seed and device. Returns its version and a dict of what was set."""
        raise NotImplementedError

    def build(self, e, net):
        """The network with its weights, and the optimizer. Returns the number of parameters, of trainable ones, and
        of layers that have weights to multiply (convolutions and dense ones), as the framework counts them."""
        raise NotImplementedError

    # check mode

    def feed(self, x, y):
        """A batch of numpy (N x C x H x W or N x features; int labels), as loader() gives it."""
        return x, y

    def outputs(self, x, see):
        """Calls see(node's name, array) for every node in order; training mode, and no weight changes."""
        raise NotImplementedError

    def params(self):
        """Pairs (name in the network, array in any layout) of all trainable parameters as they are now."""
        raise NotImplementedError

    # train mode

    def loader(self, part):
        """Batches of a Data, by the framework's usual loader; each iteration is an epoch."""
        raise NotImplementedError

    def step(self, x, y):
        """Trains on a batch. Returns the loss, which need not be there yet."""
        raise NotImplementedError

    def test(self, x, y):
        """Loss (mean) and number of right answers of a batch, in evaluation mode; need not be there yet."""
        raise NotImplementedError

    def sync(self):
        """Returns when all that was asked for is done."""

    def device_peak(self):
        """Bytes of a GPU's memory that were taken at most, as the framework counts them; None: it does not."""
        return None

    def functions(self, batches):
        """What a few training steps spend their time with, by the framework's own profiler: the number of steps, and
        (name, seconds, calls) of each function, of all steps together. GPU: of its kernels."""
        raise Unreadable("this runner has no profile of %s" % self.framework)

    def floats(self, values):
        return [float(v) for v in values]

    # A framework with a training loop of its own puts it in the place of the rest: of fit() at least.

    def first(self, batches, rest):
        """What the first call of warm() trains on: the first batch; and so many of it as are left for the last batch
        of an epoch, where something is compiled for every size of batch."""
        x, y = next(iter(batches))
        return [(x, y), (x[:rest], y[:rest])] if self.compiles and rest else [(x, y)]

    def warm(self, first):
        """A training step on each."""
        for x, y in first:
            self.step(x, y)

    def warm_test(self, batches, rest):
        """An evaluation of the first batch of the test part, and of so many of it as its last batch has, where that is
        smaller: so nothing is compiled in those that are timed. Nothing may be learnt, nor drawn that learning draws
        from."""
        x, y = next(iter(batches))
        self.evaluate([(x, y), (x[:rest], y[:rest])] if rest else [(x, y)])

    def fit(self, learn, test, epochs, report):
        """Trains; test is None where nothing is tested. report.begin("epoch" or "evaluation", n) starts the clock,
        report.epoch() and report.evaluation() with what they were given stop it."""
        for n in range(1, epochs + 1):
            report.begin("epoch", n)
            report.epoch(*self.epoch(learn))
            if test is not None:
                report.begin("evaluation", n)
                report.evaluation(*self.evaluate(test))

    def epoch(self, batches):
        """Returns images, steps, mean loss, and share of right answers or None."""
        losses, sizes = [], []
        for x, y in batches:
            losses.append(self.step(x, y))
            sizes.append(len(y))
        self.sync()
        return sum(sizes), len(sizes), weighted(self.floats(losses), sizes), None

    def evaluate(self, batches):
        """Returns images, mean loss, share of right answers."""
        losses, right, sizes = [], [], []
        for x, y in batches:
            loss, hits = self.test(x, y)
            losses.append(loss)
            right.append(hits)
            sizes.append(len(y))
        self.sync()
        return sum(sizes), weighted(self.floats(losses), sizes), sum(self.floats(right)) / sum(sizes)


class Eager(Peer):
    """For frameworks that are used as PyTorch is: setup() sets e, the experiment; build() sets model, loss and optimizer,
    and before_step and schedule, which may be None."""

    def ready(self, x, y):
        """A batch of the loader where the model wants it."""
        return x, y

    def clear(self):
        """Takes the gradients away."""
        raise NotImplementedError

    def without_gradients(self):
        """The framework's context for evaluation."""
        raise NotImplementedError

    def in_bf16(self):
        """The framework's context for a network that computes in bf16 and has parameters in float32."""
        raise NotImplementedError

    def lowered(self):
        """The context of the precision that was asked for; in float32 one that does nothing, in Python 3.6 too."""
        return self.in_bf16() if self.e["precision"] == "bf16" else contextlib.ExitStack()

    def step(self, x, y):
        x, y = self.ready(x, y)
        with self.lowered():
            loss = self.loss(self.model(x), y)
        loss.backward()
        if self.before_step:
            self.before_step()
        self.optimizer.step()
        self.clear()
        if self.schedule:
            self.schedule.step()
        return loss.detach()

    def evaluate(self, batches):
        self.model.eval()
        with self.without_gradients():
            result = super().evaluate(batches)
        self.model.train()
        return result

    def test(self, x, y):
        x, y = self.ready(x, y)
        with self.lowered():
            logits = self.model(x)
            return self.loss(logits, y), (logits.argmax(1) == y).sum()


def weighted(losses, sizes):
    return sum(loss * size for loss, size in zip(losses, sizes)) / sum(sizes)


# --- the two modes --------------------------------------------------------------------------------------------------


def mean_and_rms(array):
    """In double, a piece at a time: some outputs are large."""
    flat = numpy.asarray(array).reshape(-1)
    total = squares = 0.0
    for first in range(0, flat.size, 1 << 20):
        piece = flat[first:first + (1 << 20)].astype("float64")
        total += piece.sum()
        squares += piece.dot(piece)
    return float(total / flat.size), float(math.sqrt(squares / flat.size))


def check(peer, e, lines):
    batches, trainable = safetensors(e["batches"]), set(Network(e).trainable())

    def see(name, array):
        shape = list(array.shape[1:])
        if peer.channels_last and len(shape) == 3:
            shape = [shape[2], shape[0], shape[1]]
        mean, rms = mean_and_rms(array)
        lines.say("output", node=name, shape=shape, mean=mean, rms=rms)

    for step in range(e["steps"]):
        x, y = numpy.array(batches["samples.%d" % step]), batches["labels.%d" % step].astype("int64")
        lines.say("batch", step=step, sum=float(numpy.abs(x).sum(dtype="float64")), labels=y.tolist())
        x, y = peer.feed(x, y)
        if step == 0:
            peer.outputs(x, see)
        lines.say("loss", step=step, loss=peer.floats([peer.step(x, y)])[0])
        if step in (0, 2):
            for name, array in peer.params():
                if name in trainable:
                    mean, rms = mean_and_rms(array)
                    lines.say("param", step=step, name=name, rms=rms, mean=mean)


class Report:
    """The lines of phases, and their clock."""

    def __init__(self, lines, peer):
        self.lines, self.peer = lines, peer

    def begin(self, phase, n=0):
        self.lines.say("phase", phase=phase, epoch=n)
        self.n, self.begun = n, time.monotonic()

    def seconds(self):
        return time.monotonic() - self.begun

    def epoch(self, images, steps, loss, accuracy):
        seconds, peak = self.seconds(), self.peer.device_peak()
        more = {} if peak is None else {"device_peak": int(peak)}
        self.lines.say("epoch", epoch=self.n, seconds=seconds, images=images, steps=steps, loss=loss,
                       accuracy=accuracy, **more)

    def evaluation(self, images, loss, accuracy):
        self.lines.say("evaluation", epoch=self.n, seconds=self.seconds(), images=images, loss=loss,
                       accuracy=accuracy)


def profile(peer, batches, report, lines):
    """The functions that take the time, the longest first. What is wrong here does not spoil what was timed."""
    report.begin("profile")
    try:
        steps, found = peer.functions(batches)
    except Exception as error:
        why = one_line(error)
        lines.say("profile", why=why if isinstance(error, Unreadable) else "%s: %s" % (type(error).__name__, why))
        return
    found = sorted((f for f in found if f[1] > 0), key=lambda f: -f[1])
    lines.say("profile", steps=steps, seconds=float(sum(f[1] for f in found)))
    for name, seconds, calls in found[:PROFILE_MOST]:
        lines.say("function", name=name[:300], seconds=float(seconds), calls=int(calls))


def train(peer, e, lines):
    report = Report(lines, peer)
    report.begin("load")
    data = Data(e)
    learn, warmup = peer.loader(data.part("train")), e.get("warmup_steps", 0)
    test = peer.loader(data.part("test")) if len(data.indices["test"]) else None
    # Of the last batch of each part: 0 where it is a whole one, or the only one.
    rest = {which: len(chosen) % e["batch"] if len(chosen) > e["batch"] else 0
            for which, chosen in data.indices.items()}
    del data
    first = peer.first(learn, rest["train"]) if warmup else None
    for step in range(warmup):
        if step < 2:
            report.begin("warmup" if step else "first_step")
        peer.warm(first)
        peer.sync()
        if step == 0:
            lines.say("first_step", seconds=report.seconds())
            first = first[:1]
    if test is not None:
        if warmup < 2:
            report.begin("warmup")
        peer.warm_test(test, rest["test"])
    peer.fit(learn, test, e["epochs"], report)
    if e.get("profile"):
        profile(peer, learn, report, lines)


def run(peer, e, lines):
    if e.get("format") != 1:
        raise ValueError("an experiment of format 1 was expected, this one has %r" % e.get("format"))
    e["variant"] = e.get("variant") or peer.variants[0]
    if e["variant"] not in peer.variants:
        raise Refused("%s has no variant '%s', only %s" % (peer.framework, e["variant"], ", ".join(peer.variants)))
    e.setdefault("precision", "f32")
    if e["precision"] not in peer.precisions:
        raise Refused("this runner trains in %s, not in %s" % (" and ".join(peer.precisions), e["precision"]))
    try:
        version, detail = peer.setup(e)
    except ImportError as error:
        raise Refused("%s cannot be imported: %s" % (peer.framework, error))
    rule = Rule(e)
    if peer.epsilon_below_root and rule.name == "rmsprop" and not rule.epsilon_inside:
        detail = dict(detail, epsilon="%g below the root, for %g added to it" % (rule.epsilon ** 2, rule.epsilon))
    lines.say("imported", framework=peer.framework, version=version, python=sys.version.split()[0], detail=detail)
    parameters, trainable, layers = peer.build(e, Network(e))
    lines.say("built", parameters=parameters, trainable=trainable, layers=layers)
    {"check": check, "train": train}[e["mode"]](peer, e, lines)
    lines.say("done")


def main(peer):
    lines = Lines()
    lines.say("start")
    try:
        with open(sys.argv[1]) as file:
            e = json.load(file)
        run(peer, e, lines)
    except Refused as why:
        lines.say("refused", why=one_line(why))
    except BaseException as error:
        traceback.print_exc()
        name = type(error).__name__
        memory = isinstance(error, MemoryError) or MEMORY.search(name + " " + str(error))
        lines.say("failed", why="%s: %s" % (name, one_line(error)), kind="memory" if memory else "error")
        sys.exit(1)
