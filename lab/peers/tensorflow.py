"""TensorFlow as a peer of the lab: a functional model of Keras 3, trained by its fit().

Variants: function (a graph), jit (compiled by XLA). Layers have channels last, kernels H x W x I x O. Pictures come
from tf.data (decode_jpeg, resize with antialiasing as Pillow does it, crop); arrays are tensors that fit() shuffles.
"""
import math, os

import runner


# --- layers ---------------------------------------------------------------------------------------------------------


def window(x, node, value, make):
    """A layer made with Keras' word for the padding, or for padding put before it."""
    top, left, bottom, right = pads = runner.pads(node)
    if not any(pads):
        return make("valid")(x)
    if pads == runner.same_pads(node):
        return make("same")(x)
    return make("valid")(keras.ops.pad(x, [[0, 0], [top, bottom], [left, right], [0, 0]], constant_values=value))


def convolution(x, node):
    inputs, name = node.in_shape[0], safe(node.name)
    # Keras has strides or dilation, not both; and depthwise convolutions are layers of their own.
    same = {"strides": tuple(node.stride), "dilation_rate": tuple(node.dilation), "use_bias": node.bias, "name": name}
    if node.groups == inputs and inputs > 1:
        return window(x, node, 0.0, lambda pad: keras.layers.DepthwiseConv2D(
            tuple(node.kernel), padding=pad, depth_multiplier=node.channels // inputs, **same))
    return window(x, node, 0.0, lambda pad: keras.layers.Conv2D(
        node.channels, tuple(node.kernel), padding=pad, groups=node.groups, **same))


def maxpool(x, node):
    stride = tuple(runner.strides(node))
    return window(x, node, -math.inf, lambda pad: keras.layers.MaxPooling2D(tuple(node.size), stride, pad))


def avgpool(x, node):
    size, stride, pads = tuple(node.size), tuple(runner.strides(node)), runner.pads(node)
    pixels = runner.pool_pixels(node)
    if not node.count_pad and pads == runner.same_pads(node):
        return keras.layers.AveragePooling2D(size, stride, "same")(x)  # leaves the padding out, as is asked for
    if any(pads):
        x = keras.ops.pad(x, [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]])
    x = keras.layers.AveragePooling2D(size, stride, "valid")(x)
    factor = size[0] * size[1] / pixels
    return x if (factor == 1).all() else x * factor[None, :, :, None]


def adaptive_avgpool(x, node):
    (h, w), (high, wide) = node.in_shape[1:], node.size
    if (h, w) == (high, wide):
        return x
    if h % high == 0 and w % wide == 0:
        return keras.layers.AveragePooling2D((h // high, w // wide))(x)
    return keras.ops.einsum("ih,jw,nhwc->nijc", runner.adaptive_means(h, high), runner.adaptive_means(w, wide), x)


def batchnorm(x, node):
    class Frozen(keras.layers.BatchNormalization):  # trainable = False would keep gamma and beta from learning, too
        def call(self, inputs, training=None, mask=None):
            return super().call(inputs, training=False, mask=mask)

    kind = Frozen if node.settings.get("frozen") else keras.layers.BatchNormalization
    return kind(momentum=1 - node.momentum, epsilon=node.epsilon, center=node.affine, scale=node.affine,
                name=safe(node.name))(x)


def lrn(x, node):
    if node.size % 2 == 0:
        raise runner.Refused("TensorFlow's LRN has windows of odd size only, not of %d" % node.size)
    alpha = node.alpha / node.size if node.divide else node.alpha
    settings = {"depth_radius": node.size // 2, "bias": node.k, "alpha": alpha, "beta": node.beta}

    def normal(v):  # which TensorFlow has not for bfloat16
        return tf.cast(tf.nn.local_response_normalization(tf.cast(v, tf.float32), **settings), v.dtype)

    return keras.layers.Lambda(normal, tuple(x.shape[1:]))(x)


def reshape(x, node):
    """In the network's order, which is channels first."""
    if len(node.in_shape) == 3:
        x = keras.layers.Permute((3, 1, 2))(x)
    x = keras.layers.Reshape(node.shape)(x)
    return keras.layers.Permute((2, 3, 1))(x) if len(node.shape) == 3 else x


LAYERS = {
    "conv2d": convolution,
    "dense": lambda x, node: keras.layers.Dense(node.features, use_bias=node.bias, name=safe(node.name))(x),
    "batchnorm": batchnorm,
    "relu": lambda x, node: keras.layers.ReLU()(x),
    "relu6": lambda x, node: keras.layers.ReLU(max_value=6.0)(x),
    "leaky_relu": lambda x, node: keras.layers.LeakyReLU(negative_slope=node.slope)(x),
    "sigmoid": lambda x, node: keras.layers.Activation("sigmoid")(x),
    "tanh": lambda x, node: keras.layers.Activation("tanh")(x),
    "gelu": lambda x, node: keras.ops.gelu(x, approximate=node.settings.get("approximate") == "tanh"),
    "softmax": lambda x, node: keras.layers.Softmax()(x),
    "maxpool": maxpool,
    "avgpool": avgpool,
    "adaptive_avgpool": adaptive_avgpool,
    "global_avgpool": lambda x, node: keras.layers.GlobalAveragePooling2D(keepdims=len(node.shape) == 3)(x),
    "lrn": lrn,
    "dropout": lambda x, node: keras.layers.Dropout(node.p)(x),
    "reshape": reshape,
}


def joined(node, inputs):
    if node.op == "add":
        return keras.layers.Add()(inputs)
    if node.op == "multiply":
        return keras.layers.Multiply()(inputs)
    axis = {1: -1, 2: 1, 3: 2}[node.axis] if len(node.shape) == 3 else node.axis
    return keras.layers.Concatenate(axis=axis)(inputs)


def safe(name):
    return name.replace("/", ".")


def turned(what, array, node, chw):
    """A parameter in Keras' layout."""
    if node.op == "conv2d" and what == "weight":
        if node.groups == node.in_shape[0] and node.groups > 1:  # (I x M) x 1 x H x W to H x W x I x M
            return array.reshape((node.groups, -1) + array.shape[2:]).transpose(2, 3, 0, 1)
        return array.transpose(2, 3, 1, 0)
    return runner.dense_weight(array, chw) if node.op == "dense" and what == "weight" else array


# --- optimizers -----------------------------------------------------------------------------------------------------


def optimizer(rule):
    """Keras' own; where the dialect's epsilon stands elsewhere, with the update rule of a subclass."""
    rule.check_rate(inside=True)
    o, ops = keras.optimizers, keras.ops
    if rule.weight_decay and not rule.decoupled and (rule.name != "sgd" or rule.momentum):
        raise runner.Refused("Keras' %s does not add weight decay to the gradient, the dialect '%s' does"
                             % (rule.name, rule.dialect))
    rate = o.schedules.InverseTimeDecay(rule.lr, 1, rule.decay) if rule.decay else rule.lr
    settings = {"learning_rate": rate, "weight_decay": rule.weight_decay or None}

    class RootPlusEpsilon(o.RMSprop):
        def update_step(self, gradient, variable, learning_rate):
            place, lr = self._get_variable_index(variable), ops.cast(learning_rate, variable.dtype)
            mean = self._velocities[place]
            self.assign(mean, self.rho * mean + (1 - self.rho) * ops.square(gradient))
            move = lr * gradient / (ops.sqrt(mean) + self.epsilon)
            if self.momentum > 0:
                self.assign(self._momentums[place], self.momentum * self._momentums[place] + move)
                move = self._momentums[place]
            self.assign_sub(variable, move)

    def corrected(kind):
        class Corrected(kind):
            def update_step(self, gradient, variable, learning_rate):
                raw, steps = self.epsilon, ops.cast(self.iterations + 1, variable.dtype)
                self.epsilon = raw * ops.sqrt(1 - ops.power(ops.cast(self.beta_2, variable.dtype), steps))
                super().update_step(gradient, variable, learning_rate)
                self.epsilon = raw

        return Corrected

    if rule.name == "sgd":
        return o.SGD(momentum=rule.momentum, nesterov=rule.nesterov, **settings)
    if rule.name == "rmsprop":
        kind = o.RMSprop if rule.epsilon_inside else RootPlusEpsilon
        return kind(rho=rule.rho, epsilon=rule.epsilon, momentum=rule.momentum, **settings)
    if rule.name == "adadelta":
        return o.Adadelta(rho=rule.rho, epsilon=rule.epsilon, **settings)
    if rule.name in ("adam", "adamw"):
        kind = o.Adam if rule.name == "adam" else o.AdamW
        if rule.name == "adamw":
            settings["weight_decay"] = rule.weight_decay
        kind = kind if rule.epsilon_hat else corrected(kind)
        return kind(beta_1=rule.beta1, beta_2=rule.beta2, epsilon=rule.epsilon, **settings)
    raise runner.Refused("this runner has no optimizer '%s'" % rule.name)


# --- the peer -------------------------------------------------------------------------------------------------------


class TensorFlow(runner.Peer):
    framework = "TensorFlow"
    variants = ("function", "jit")
    precisions = ("f32", "tf32", "bf16")
    channels_last = True

    def setup(self, e):
        global tf, keras
        os.environ["KERAS_BACKEND"] = "tensorflow"
        if e["device"] == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        import tensorflow as tf
        import keras
        self.e, threads, self.gpu = e, e["threads"], e["device"] != "cpu"
        if self.gpu and not tf.test.is_built_with_cuda():
            raise runner.Refused("this TensorFlow is a CPU build: tf.test.is_built_with_cuda() is False (%s)"
                                 % tf.__version__)
        if self.gpu and not tf.config.list_physical_devices("GPU"):
            raise runner.Refused("TensorFlow %s, built for CUDA, sees no GPU: its libraries may be missing "
                                 "(tensorflow[and-cuda] brings them)" % tf.__version__)
        if not self.gpu and e["precision"] == "tf32":
            raise runner.Refused("tf32 is for GPUs")
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        if self.gpu:
            tf.config.experimental.enable_tensor_float_32_execution(e["precision"] == "tf32")
            # It would take all of the GPU's memory at once, and nobody could see what it needs.
            tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
        if e["precision"] == "bf16":
            keras.config.set_dtype_policy("mixed_bfloat16")
        keras.utils.set_random_seed(e["seed"])
        self.workers, self.compiles = runner.loader_threads(threads), e["variant"] == "jit"
        detail = {"keras": keras.__version__, "intra_op_threads": threads, "inter_op_threads": threads,
                  "format": "NHWC", "compiled": self.compiles,
                  "pictures": "tf.data, threads: %d" % self.workers}
        if self.gpu:
            about = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
            detail.update(gpu=about.get("device_name", "unknown"), memory_growth=True)
        if e["precision"] != "f32":
            detail["precision"] = {"tf32": "enable_tensor_float_32_execution",
                                   "bf16": "Keras' policy mixed_bfloat16; the last layer's output is float32"
                                   }[e["precision"]]
        return tf.__version__, detail

    def build(self, e, net):
        turn, permute = runner.flattened(net)
        c, last = net.input[0], net.input[1:] + net.input[:1]
        values = {"image": keras.Input(last if len(last) == 3 else (c,), name="image")}
        for node in net.nodes:
            inputs = [values[name] for name in node.inputs]
            if node.op == "flatten":
                x = keras.layers.Permute((3, 1, 2))(inputs[0]) if node.name in turn else inputs[0]
                value = keras.layers.Flatten()(x)
            else:
                value = LAYERS[node.op](inputs[0], node) if node.op in LAYERS else joined(node, inputs)
            values[node.output] = value
        self.names = [node.name for node in net.nodes]
        self.all = keras.Model(values["image"], [values[node.output] for node in net.nodes])
        logits = values[net.nodes[-1].output]
        if e["precision"] == "bf16":  # as Keras' guide to mixed precision says
            logits = keras.layers.Activation("linear", dtype="float32")(logits)
        self.model = keras.Model(values["image"], logits)
        self.fill(net, permute)
        self.model.compile(optimizer(runner.Rule(e)), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                           metrics=["accuracy"], jit_compile=self.compiles)
        counts = [math.prod(v.shape) for v in self.model.trainable_variables]
        heavy = (keras.layers.Conv2D, keras.layers.DepthwiseConv2D, keras.layers.Dense)
        running = sum(a.size for name, a in net.weights.items() if name.rsplit(".")[-1].startswith("running"))
        return self.model.count_params() - running, sum(counts), sum(isinstance(x, heavy) for x in self.model.layers)

    def fill(self, net, permute):
        self.weights = []
        attributes = {"conv2d": ("kernel", "bias"), "dense": ("kernel", "bias"), "batchnorm": ("gamma", "beta")}
        for node in net.nodes:
            for what, array in net.arrays(node).items():
                places = dict(zip(("weight", "bias"), attributes[node.op]), running_mean="moving_mean",
                              running_var="moving_variance")
                variable = getattr(self.model.get_layer(safe(node.name)), places[what])
                variable.assign(turned(what, array, node, permute.get(node.name)))
                self.weights.append((node.params[what], variable))

    def feed(self, x, y):
        return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x, y

    def outputs(self, x, see):
        kept = [(v, v.numpy()) for v in self.model.non_trainable_variables]
        values = self.all(x, training=True)
        for name, value in zip(self.names, values if isinstance(values, list) else [values]):
            see(name, tf.cast(value, tf.float32).numpy())
        for variable, value in kept:
            variable.assign(value)

    def params(self):
        return [(name, variable.numpy()) for name, variable in self.weights]

    def step(self, x, y):
        return self.model.train_on_batch(x, y)[0]

    def loader(self, part):
        """Arguments for fit(), a data set or arrays, and the number of images."""
        if part.files is None:
            x = part.samples(channels_last=True)
            # On the processor the tensor is the array itself: tf.constant() would hold it three times for a while.
            x = tf.constant(x) if self.gpu else tf.experimental.dlpack.from_dlpack(x.__dlpack__())
            return {"x": x, "y": tf.constant(part.labels), "batch_size": self.e["batch"]}, len(part)
        files = tf.data.Dataset.from_tensor_slices(([os.fsencode(str(f)) for f in part.files], part.labels))
        if part.train:
            files = files.shuffle(len(part), seed=self.e["seed"])
        options = tf.data.Options()
        options.threading.private_threadpool_size = self.workers
        made = files.map(reader(part), tf.data.AUTOTUNE).batch(self.e["batch"]).prefetch(tf.data.AUTOTUNE)
        return {"x": made.with_options(options)}, len(part)

    def first(self, batches, rest):
        whole = batches[0]
        some = {"x": whole["x"].unbatch().take(rest).batch(self.e["batch"])} if "y" not in whole else dict(
            whole, x=whole["x"][:rest], y=whole["y"][:rest])
        start = dict(whole, steps_per_epoch=1)  # the whole set, so that its first step traces what fit() needs
        return [start, some] if rest and self.compiles else [start]

    def warm(self, first):
        for arguments in first:
            self.model.fit(verbose=0, **arguments)

    def warm_test(self, batches, rest):
        """A whole batch and the last one in one set, as evaluation has them: a set of one size is traced otherwise."""
        some, images = batches
        few = min(images, self.e["batch"] + rest)
        self.model.evaluate(verbose=0, **(
            dict(some, x=some["x"][:few], y=some["y"][:few]) if "y" in some else
            {"x": some["x"].unbatch().take(few).batch(self.e["batch"])}))

    def sync(self):
        if self.gpu:
            tf.test.experimental.sync_devices()

    def device_peak(self):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] if self.gpu else None

    def functions(self, batches):
        raise runner.Unreadable("TensorFlow writes its profile for TensorBoard, not for programs")

    def fit(self, learn, test, epochs, report):
        arguments, images = learn
        more, tested = test or ({}, 0)
        if test:
            more = {"validation_data": (more["x"], more["y"]) if "y" in more else more["x"],
                    "validation_batch_size": more.get("batch_size")}
        told = teller(self, report, (images, -(-images // self.e["batch"])), tested)
        self.model.fit(epochs=epochs, verbose=0, callbacks=[told], **arguments, **more)


def reader(part):
    """path, label -> picture, label"""
    t, crop = part.settings, part.settings.get("crop") or (0, 0)
    loose = part.train and t.get("random_crop")
    flip = t.get("flip", "none") if part.train else "none"
    turn = {"none": tf.identity, "horizontal": tf.image.random_flip_left_right,
            "vertical": tf.image.random_flip_up_down}

    def read(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=part.channels)  # PNG files too
        if t.get("resize"):
            size = tf.shape(image)[:2]
            image = tf.image.resize(image, t["resize"] * size // tf.reduce_min(size), antialias=True)
        image = tf.cast(image, tf.float32)
        if all(crop):
            if loose:
                image = tf.image.random_crop(image, (crop[0], crop[1], part.channels))
            else:
                image = tf.image.resize_with_crop_or_pad(image, crop[0], crop[1])
        return (turn[flip](image) * part.scale - part.mean) / part.std, label

    return read


def teller(peer, report, learnt, tested):
    """fit() calls it; between an epoch's steps and its end lies the evaluation."""

    class Teller(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            report.begin("epoch", epoch + 1)

        def tell_epoch(self):
            peer.sync()
            result = {key: float(value) for key, value in self.model.get_metrics_result().items()}
            report.epoch(*learnt, result["loss"], result["accuracy"])

        def on_test_begin(self, logs=None):
            self.tell_epoch()
            report.begin("evaluation", report.n)

        def on_test_end(self, logs=None):
            report.evaluation(tested, float(logs["loss"]), float(logs["accuracy"]))

        def on_epoch_end(self, epoch, logs=None):
            if not tested:
                self.tell_epoch()

    return Teller()


if __name__ == "__main__":
    runner.main(TensorFlow())
