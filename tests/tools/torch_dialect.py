"""The numbers of PyTorch that the dialect `torch` is checked against; called by make_torch_fixtures.py."""
import inspect

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

import dialect_cases as cases


def default(function, name):
    return inspect.signature(function).parameters[name].default


def defaults():
    optim = torch.optim
    return {
        "sgd_rate": default(optim.SGD, "lr"),
        "rmsprop_rate": default(optim.RMSprop, "lr"),
        "rmsprop_rho": default(optim.RMSprop, "alpha"),
        "rmsprop_epsilon": default(optim.RMSprop, "eps"),
        "adadelta_rate": default(optim.Adadelta, "lr"),
        "adadelta_rho": default(optim.Adadelta, "rho"),
        "adadelta_epsilon": default(optim.Adadelta, "eps"),
        "adam_rate": default(optim.Adam, "lr"),
        "adam_epsilon": default(optim.Adam, "eps"),
        "adamw": hasattr(optim, "AdamW"),
        "adamw_decay": default(optim.AdamW, "weight_decay"),
        "batchnorm_momentum": default(nn.BatchNorm2d, "momentum"),
        "batchnorm_epsilon": default(nn.BatchNorm2d, "eps"),
        "lrn_alpha": default(nn.LocalResponseNorm, "alpha"),
        "lrn_beta": default(nn.LocalResponseNorm, "beta"),
        "lrn_k": default(nn.LocalResponseNorm, "k"),
        "avgpool_counts_padding": default(nn.AvgPool2d, "count_include_pad"),
    }


def conv(*args, **settings):
    def run(x):
        layer = nn.Conv2d(x.shape[1], *args, **settings).double()
        for i, p in enumerate(layer.parameters()):
            p.data = torch.from_numpy(cases.parameter(i, p.shape))
        return layer(x)

    return run


LAYERS = [  # in Brasa's words, the input, and the same in PyTorch
    ("conv 2 3x3 pad=same", (1, 2, 5, 4), conv(2, 3, padding="same")),
    ("conv 2 2x2 pad=same", (1, 2, 4, 5), conv(2, 2, padding="same")),
    ("conv 2 4x3 pad=same", (1, 2, 5, 5), conv(2, (4, 3), padding="same")),
    ("conv 2 2x3 pad=same dilation=3x2", (1, 1, 5, 6), conv(2, (2, 3), padding="same", dilation=(3, 2))),
    ("conv 2 3x3 stride=2 pad=1", (1, 2, 6, 5), conv(2, 3, stride=2, padding=1)),
    ("conv 4 3x3 pad=1 groups=2 bias=no", (1, 4, 4, 4), conv(4, 3, padding=1, groups=2, bias=False)),
    ("maxpool 3 stride=2 pad=1", (1, 2, 6, 5), lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("maxpool 2 stride=2 ceil", (1, 2, 5, 7), lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True)),
    ("avgpool 3 stride=2 pad=1", (1, 2, 6, 5), lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("avgpool 3 stride=2 pad=1 ceil", (1, 2, 6, 6), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    ("avgpool 3 stride=2 pad=1 count_pad=no", (1, 2, 6, 5),
     lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    ("lrn", (1, 7, 2, 2), lambda x: F.local_response_norm(x, 5)),
    ("lrn 3 alpha=0.5 beta=0.6 k=2", (2, 5, 1, 2), lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2)),
    ("lrn 4 alpha=0.5", (1, 7, 1, 2), lambda x: F.local_response_norm(x, 4, 0.5)),
    ("lrn 2 alpha=0.5", (1, 3, 1, 2), lambda x: F.local_response_norm(x, 2, 0.5)),
    ("gelu", (1, 1, 3, 4), F.gelu),
    ("gelu approximate=tanh", (1, 1, 3, 4), lambda x: F.gelu(x, approximate="tanh")),
]


def layers():
    for text, shape, run in LAYERS:
        yield f"layer {text} ; {cases.sizes(shape)} ; {cases.EXACT:g}"
        yield cases.numbers("output", run(torch.from_numpy(cases.picture(shape))).detach().numpy())


def batchnorm(text, shape, **settings):
    """Trained by plain SGD on mean((y - t)^2), then evaluated."""
    layer = nn.BatchNorm2d(shape[1], **settings).double()
    optimizer = torch.optim.SGD(layer.parameters(), lr=cases.BATCHNORM_RATE)
    yield f"batchnorm {text} ; {cases.sizes(shape)}"
    for step in range(cases.BATCHNORM_STEPS):
        y = layer(torch.from_numpy(cases.picture(shape, step)))
        yield cases.numbers("output", y.detach().numpy())
        optimizer.zero_grad()
        ((y - torch.from_numpy(cases.target(shape, step))) ** 2).mean().backward()
        optimizer.step()
        yield cases.numbers("mean", layer.running_mean.numpy())
        yield cases.numbers("variance", layer.running_var.numpy())
    layer.eval()
    yield cases.numbers("output", layer(torch.from_numpy(cases.picture(shape, 0))).detach().numpy())


OPTIMIZERS = [  # in Brasa's words: clip, optimizer, schedule; and the same in PyTorch
    (0, "sgd", "", torch.optim.SGD, {}, None),
    (0, "sgd lr=0.1 momentum=0.9", "", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, None),
    (0, "sgd lr=0.1 momentum=0.9 nesterov", "", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9, "nesterov": True}, None),
    (0, "sgd lr=0.1 weight_decay=0.3", "", torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.3}, None),
    (0, "sgd lr=0.1 momentum=0.9 decay=0.5", "", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "decay"),
    (0, "rmsprop", "", torch.optim.RMSprop, {}, None),
    (0, "rmsprop lr=0.02 rho=0.8 epsilon=1e-4 weight_decay=0.3", "", torch.optim.RMSprop,
     {"lr": 0.02, "alpha": 0.8, "eps": 1e-4, "weight_decay": 0.3}, None),
    (0, "rmsprop lr=0.02 momentum=0.9 decay=0.5", "", torch.optim.RMSprop, {"lr": 0.02, "momentum": 0.9}, "decay"),
    (0, "adadelta", "", torch.optim.Adadelta, {}, None),
    (0, "adadelta lr=0.5 rho=0.8 epsilon=1e-3 weight_decay=0.3", "", torch.optim.Adadelta,
     {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.3}, None),
    (0, "adam", "", torch.optim.Adam, {}, None),
    (0, "adam lr=0.1 beta1=0.8 beta2=0.9 epsilon=1e-4 weight_decay=0.3", "", torch.optim.Adam,
     {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.3}, None),
    (0, "adamw", "", torch.optim.AdamW, {}, None),
    (0, "adamw lr=0.1 weight_decay=0.3 decay=0.5", "", torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.3}, "decay"),
    (0.25, "sgd lr=0.1 momentum=0.9 weight_decay=0.3", "", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.3}, None),
    (1e-6, "sgd lr=1e6", "", torch.optim.SGD, {"lr": 1e6}, None),  # where the 1e-6 in the divisor is seen
    (0, "sgd lr=0.1 momentum=0.9", "cosine steps=6 warmup=2 floor=0.01", torch.optim.SGD,
     {"lr": 0.1, "momentum": 0.9}, "cosine"),
    (0, "sgd lr=0.1 momentum=0.9", "step every=2 gamma=0.5", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "step"),
]

SCHEDULES = {
    "decay": lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + 0.5 * t)),
    "step": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "cosine": lambda o: lr_scheduler.SequentialLR(
        o,
        [lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=1),
         lr_scheduler.CosineAnnealingLR(o, 4, eta_min=0.01)],
        [2],
    ),
}


def optimizers():
    for clip, text, schedule_text, kind, settings, schedule in OPTIMIZERS:
        variables = [nn.Parameter(torch.from_numpy(v)) for v in cases.start()]
        optimizer = kind(variables, **settings)
        rates = SCHEDULES[schedule](optimizer) if schedule else None

        def apply(_, gradients):
            for v, g in zip(variables, gradients):
                v.grad = torch.from_numpy(g)
            if clip:
                nn.utils.clip_grad_norm_(variables, clip)
            optimizer.step()
            if rates:
                rates.step()
            return [v.detach().numpy().copy() for v in variables]

        yield f"optimizer {clip:g} ; {text} ; {schedule_text}".rstrip()
        yield from cases.train(apply)


def inits():
    torch.manual_seed(1)
    made = [
        ("conv 64 3x3", (1, 16, 8, 8), lambda: nn.Conv2d(16, 64, 3)),
        ("conv 64 3x3 groups=4", (1, 16, 8, 8), lambda: nn.Conv2d(16, 64, 3, groups=4)),
        ("dense 200", (1, 50), lambda: nn.Linear(50, 200)),
    ]
    for text, shape, make in made:
        weight = cases.largest(lambda: make().weight.detach().numpy())
        bias = cases.largest(lambda: make().bias.detach().numpy())
        yield f"init {text} ; {cases.sizes(shape)} ; {weight:.6g} {bias:.6g}"


def write():
    lines = [f"default {name} {float(value):.17g}" for name, value in defaults().items()]
    lines += [*inits(), *layers()]
    lines += [*batchnorm("batchnorm", (3, 2, 2, 2)),
              *batchnorm("batchnorm momentum=0.3 epsilon=0.01", (2, 3, 1, 2), momentum=0.3, eps=0.01)]
    lines += [*optimizers()]
    cases.write(f"PyTorch {torch.__version__}", "torch", lines)
