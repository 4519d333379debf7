"""Writes tests/fixtures/keras/dialect.txt: what Keras 3 on TensorFlow 2 computes, for the dialect `tfkeras`.

    python3 tests/tools/make_keras_fixtures.py

The form of the file and its small problems are told in dialect_cases.py.
"""
import inspect
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy
import tensorflow as tf

import dialect_cases as cases

keras.backend.set_floatx("float64")


def default(function, name):
    return inspect.signature(function).parameters[name].default


def defaults():
    o = keras.optimizers
    return {
        "sgd_rate": default(o.SGD, "learning_rate"),
        "rmsprop_rate": default(o.RMSprop, "learning_rate"),
        "rmsprop_rho": default(o.RMSprop, "rho"),
        "rmsprop_epsilon": default(o.RMSprop, "epsilon"),
        "adadelta_rate": default(o.Adadelta, "learning_rate"),
        "adadelta_rho": default(o.Adadelta, "rho"),
        "adadelta_epsilon": default(o.Adadelta, "epsilon"),
        "adam_rate": default(o.Adam, "learning_rate"),
        "adam_epsilon": default(o.Adam, "epsilon"),
        "adamw": hasattr(o, "AdamW"),
        "adamw_decay": default(o.AdamW, "weight_decay"),
        "batchnorm_momentum": 1 - default(keras.layers.BatchNormalization, "momentum"),  # of the old value, there
        "batchnorm_epsilon": default(keras.layers.BatchNormalization, "epsilon"),
        "lrn_size": 2 * default(tf.nn.local_response_normalization, "depth_radius") + 1,
        "lrn_alpha": default(tf.nn.local_response_normalization, "alpha"),
        "lrn_beta": default(tf.nn.local_response_normalization, "beta"),
        "lrn_k": default(tf.nn.local_response_normalization, "bias"),
    }


def channels_last(x):
    """N x C x H x W to N x H x W x C; kernels K x C x R x S to R x S x C x K are turned by hand."""
    return numpy.transpose(x, (0, 2, 3, 1))


def channels_first(x):
    return numpy.transpose(numpy.asarray(x), (0, 3, 1, 2))


def conv(channels, kernel, **settings):
    def run(x):
        groups = settings.get("groups", 1)
        layer = keras.layers.Conv2D(channels, kernel, padding="same", **settings)
        layer.build(x.shape)
        weight = cases.parameter(0, (channels, x.shape[3] // groups, *kernel))
        layer.set_weights([numpy.transpose(weight, (2, 3, 1, 0)), cases.parameter(1, (channels,))])
        return layer(x)

    return run


def pool(kind, size, stride):
    return keras.layers.__dict__[kind](size, stride, padding="same")


def lrn(**settings):
    # TensorFlow has this function for float32 and less only: the test is told to allow for it.
    return lambda x: tf.nn.local_response_normalization(tf.cast(x, "float32"), **settings)


LAYERS = [  # in Brasa's words, the input, and the same in Keras
    ("conv 2 3x3 pad=same", (1, 2, 4, 5), conv(2, (3, 3))),
    ("conv 2 2x2 pad=same", (1, 2, 4, 5), conv(2, (2, 2))),
    ("conv 2 3x3 stride=2 pad=same", (1, 2, 6, 6), conv(2, (3, 3), strides=2)),
    ("conv 2 3x3 stride=2 pad=same", (1, 2, 5, 7), conv(2, (3, 3), strides=2)),
    ("conv 2 4x5 stride=2 pad=same", (1, 1, 6, 8), conv(2, (4, 5), strides=2)),
    ("conv 2 2x1 stride=3 pad=same", (1, 1, 8, 7), conv(2, (2, 1), strides=3)),
    ("conv 2 2x3 dilation=2 pad=same", (1, 1, 5, 6), conv(2, (2, 3), dilation_rate=2)),
    ("maxpool 2 stride=2 pad=same", (1, 2, 5, 6), pool("MaxPooling2D", 2, 2)),
    ("maxpool 3 stride=2 pad=same", (1, 2, 6, 6), pool("MaxPooling2D", 3, 2)),
    ("maxpool 3 stride=1 pad=same", (1, 1, 4, 5), pool("MaxPooling2D", 3, 1)),
    ("maxpool 2 stride=1 pad=same", (1, 1, 4, 5), pool("MaxPooling2D", 2, 1)),
    ("avgpool 2 stride=2 pad=same", (1, 2, 5, 6), pool("AveragePooling2D", 2, 2)),
    ("avgpool 3 stride=2 pad=same", (1, 2, 6, 6), pool("AveragePooling2D", 3, 2)),
    ("avgpool 3 stride=1 pad=same", (1, 1, 4, 5), pool("AveragePooling2D", 3, 1)),
    ("avgpool 2 stride=1 pad=same", (1, 1, 4, 5), pool("AveragePooling2D", 2, 1)),
    ("lrn", (1, 13, 1, 2), lrn()),
    ("lrn 5 alpha=0.1 beta=0.75 k=2", (1, 7, 2, 2), lrn(depth_radius=2, bias=2, alpha=0.1, beta=0.75)),
]


def layers():
    for text, shape, run in LAYERS:
        yield f"layer {text} ; {cases.sizes(shape)} ; {2e-6 if text.startswith('lrn') else cases.EXACT:g}"
        yield cases.numbers("output", channels_first(run(channels_last(cases.picture(shape)))))


def batchnorm(text, shape, **settings):
    """Trained by plain SGD on mean((y - t)^2), then evaluated."""
    layer = keras.layers.BatchNormalization(**settings)
    optimizer = keras.optimizers.SGD(cases.BATCHNORM_RATE)
    yield f"batchnorm {text} ; {cases.sizes(shape)}"
    for step in range(cases.BATCHNORM_STEPS):
        with tf.GradientTape() as tape:
            y = layer(channels_last(cases.picture(shape, step)), training=True)
            loss = tf.reduce_mean((y - channels_last(cases.target(shape, step))) ** 2)
        variables = layer.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        yield cases.numbers("output", channels_first(y))
        yield cases.numbers("mean", layer.moving_mean)
        yield cases.numbers("variance", layer.moving_variance)
    yield cases.numbers("output", channels_first(layer(channels_last(cases.picture(shape, 0)), training=False)))


def decay(rate):
    """Keras computes a schedule in the type of its first rate, float32 unless told."""
    return keras.optimizers.schedules.InverseTimeDecay(tf.constant(rate, "float64"), decay_steps=1, decay_rate=0.5)


OPTIMIZERS = [  # in Brasa's words: clip, optimizer; and the same in Keras
    (0, "sgd", "SGD", {}),
    (0, "sgd lr=0.1 momentum=0.9", "SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    (0, "sgd lr=0.1 momentum=0.9 nesterov", "SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    (0, "sgd lr=0.1 decay=0.5", "SGD", {"learning_rate": decay(0.1)}),
    (0, "sgd lr=0.1 momentum=0.9 decay=0.5", "SGD", {"learning_rate": decay(0.1), "momentum": 0.9}),
    (0, "sgd lr=0.1 momentum=0.9 nesterov decay=0.5", "SGD",
     {"learning_rate": decay(0.1), "momentum": 0.9, "nesterov": True}),
    (0, "sgd lr=0.1 momentum=0.9 weight_decay=0.3", "SGD",
     {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.3}),
    (0, "rmsprop", "RMSprop", {}),
    (0, "rmsprop lr=0.02 rho=0.8 epsilon=1e-4", "RMSprop", {"learning_rate": 0.02, "rho": 0.8, "epsilon": 1e-4}),
    (0, "rmsprop lr=0.02 momentum=0.9", "RMSprop", {"learning_rate": 0.02, "momentum": 0.9}),
    (0, "rmsprop lr=0.02 momentum=0.9 decay=0.5", "RMSprop", {"learning_rate": decay(0.02), "momentum": 0.9}),
    (0, "adadelta", "Adadelta", {}),
    (0, "adadelta lr=0.5 rho=0.8 epsilon=1e-3 weight_decay=0.3", "Adadelta",
     {"learning_rate": 0.5, "rho": 0.8, "epsilon": 1e-3, "weight_decay": 0.3}),
    (0, "adam", "Adam", {}),
    (0, "adam lr=0.1 beta1=0.8 beta2=0.9 epsilon=1e-4", "Adam",
     {"learning_rate": 0.1, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-4}),
    (0, "adam lr=0.1 weight_decay=0.3", "Adam", {"learning_rate": 0.1, "weight_decay": 0.3}),
    (0, "adamw", "AdamW", {}),
    (0, "adamw lr=0.1 weight_decay=0.3 decay=0.5", "AdamW", {"learning_rate": decay(0.1), "weight_decay": 0.3}),
    (0.25, "sgd lr=0.1 momentum=0.9", "SGD", {"learning_rate": 0.1, "momentum": 0.9, "global_clipnorm": 0.25}),
    (1e-6, "sgd lr=1e6", "SGD", {"learning_rate": 1e6, "global_clipnorm": 1e-6}),
]


def widen(optimizer):
    """Keras turns a Python float into float32 on its way to float64; one of numpy's it takes as it is."""
    for name in ("momentum", "beta_1", "beta_2", "weight_decay"):
        if isinstance(getattr(optimizer, name, None), float):
            setattr(optimizer, name, numpy.float64(getattr(optimizer, name)))
    return optimizer


def optimizers():
    for clip, text, kind, settings in OPTIMIZERS:
        variables = [keras.Variable(v) for v in cases.start()]
        optimizer = widen(getattr(keras.optimizers, kind)(**settings))

        def apply(_, gradients):
            optimizer.apply([tf.constant(g) for g in gradients], variables)
            return [v.numpy() for v in variables]

        yield f"optimizer {clip:g} ; {text} ;"
        yield from cases.train(apply)


def inits():
    keras.utils.set_random_seed(1)
    made = [
        ("conv 64 3x3", (1, 16, 8, 8), lambda: keras.layers.Conv2D(64, 3), (1, 8, 8, 16)),
        ("conv 64 3x3 groups=4", (1, 16, 8, 8), lambda: keras.layers.Conv2D(64, 3, groups=4), (1, 8, 8, 16)),
        ("dense 200", (1, 50), lambda: keras.layers.Dense(200), (1, 50)),
    ]
    for text, shape, make, last in made:

        def draw(index):
            layer = make()
            layer.build(last)
            return numpy.asarray(layer.weights[index])

        weight, bias = cases.largest(lambda: draw(0)), cases.largest(lambda: draw(1))
        yield f"init {text} ; {cases.sizes(shape)} ; {weight:.6g} {bias:.6g}"


def main():
    lines = [f"default {name} {float(value):.17g}" for name, value in defaults().items()]
    lines += [*inits(), *layers()]
    lines += [*batchnorm("batchnorm", (3, 2, 2, 2)),
              *batchnorm("batchnorm momentum=0.3 epsilon=0.01", (2, 3, 1, 2), momentum=0.7, epsilon=0.01)]
    lines += [*optimizers()]
    cases.write(f"Keras {keras.__version__} on TensorFlow {tf.__version__}", "keras", lines)


if __name__ == "__main__":
    main()
