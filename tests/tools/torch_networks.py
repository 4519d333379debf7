"""The large networks of src/models in PyTorch, for make_torch_fixtures.py: torchvision's, and those of Caffe and
TensorFlow slim written again with the names of their layers.

forward(x, dropout) gives logits, or those of the network and of its two auxiliary heads, in this order.
"""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F


class Masked(nn.Module):
    """Takes the place of nn.Dropout."""

    def __init__(self, p):
        super().__init__()
        self.p = p
        self.dropout = None

    def forward(self, x):
        return self.dropout(x, self.p)


def vision(make, **options):
    """A network of torchvision that takes the dropout function as a second argument."""

    def build(classes):
        net = make(num_classes=classes, **options)
        masked = []
        for module in list(net.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Dropout):
                    masked.append(Masked(child.p))
                    setattr(module, name, masked[-1])
        forward = net.forward

        def with_dropout(x, dropout):
            for m in masked:
                m.dropout = dropout
            if not options.get("aux_logits"):
                return forward(x)
            net.training = True  # of the whole alone, not of its parts: run the heads, also in evaluation
            logits, aux2, aux1 = forward(x)
            return logits, aux1, aux2

        net.forward = with_dropout
        return net

    return build


def norm(x):
    return F.local_response_norm(x, 5, 1e-4, 0.75, 1)


class AlexnetCaffe(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 96, 11, 4), nn.Conv2d(96, 256, 5, padding=2, groups=2)
        self.conv3, self.conv4 = nn.Conv2d(256, 384, 3, padding=1), nn.Conv2d(384, 384, 3, padding=1, groups=2)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1, groups=2)
        self.fc6, self.fc7, self.fc8 = nn.Linear(9216, 4096), nn.Linear(4096, 4096), nn.Linear(4096, classes)

    def forward(self, x, dropout):
        x = F.max_pool2d(norm(F.relu(self.conv1(x))), 3, 2, ceil_mode=True)
        x = F.max_pool2d(norm(F.relu(self.conv2(x))), 3, 2, ceil_mode=True)
        x = F.relu(self.conv5(F.relu(self.conv4(F.relu(self.conv3(x))))))
        x = F.max_pool2d(x, 3, 2, ceil_mode=True).flatten(1)
        x = dropout(F.relu(self.fc6(x)), 0.5)
        return self.fc8(dropout(F.relu(self.fc7(x)), 0.5))


class AlexnetV2(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 64, 11, 4), nn.Conv2d(64, 192, 5, padding=2)
        self.conv3, self.conv4 = nn.Conv2d(192, 384, 3, padding=1), nn.Conv2d(384, 384, 3, padding=1)
        self.conv5 = nn.Conv2d(384, 256, 3, padding=1)
        self.fc6, self.fc7, self.fc8 = nn.Conv2d(256, 4096, 5), nn.Conv2d(4096, 4096, 1), nn.Linear(4096, classes)

    def forward(self, x, dropout):
        x = F.max_pool2d(F.relu(self.conv1(x)), 3, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 3, 2)
        x = F.relu(self.conv5(F.relu(self.conv4(F.relu(self.conv3(x))))))
        x = dropout(F.relu(self.fc6(F.max_pool2d(x, 3, 2))), 0.5)
        return self.fc8(dropout(F.relu(self.fc7(x)), 0.5).flatten(1))


INCEPTIONS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


class GooglenetCaffe(nn.Module):
    """Layers are added under Caffe's names, which hold slashes."""

    def __init__(self, classes, heads):
        super().__init__()
        self.heads = heads
        self.add("conv1/7x7_s2", nn.Conv2d(3, 64, 7, 2, 3))
        self.add("conv2/3x3_reduce", nn.Conv2d(64, 64, 1))
        self.add("conv2/3x3", nn.Conv2d(64, 192, 3, padding=1))
        for name, (inputs, one, reduce3, three, reduce5, five, pooled) in INCEPTIONS.items():
            module = f"inception_{name}/"
            self.add(module + "1x1", nn.Conv2d(inputs, one, 1))
            self.add(module + "3x3_reduce", nn.Conv2d(inputs, reduce3, 1))
            self.add(module + "3x3", nn.Conv2d(reduce3, three, 3, padding=1))
            self.add(module + "5x5_reduce", nn.Conv2d(inputs, reduce5, 1))
            self.add(module + "5x5", nn.Conv2d(reduce5, five, 5, padding=2))
            self.add(module + "pool_proj", nn.Conv2d(inputs, pooled, 1))
            if heads and name in ("4a", "4d"):
                head = "loss1/" if name == "4a" else "loss2/"
                self.add(head + "conv", nn.Conv2d(512 if name == "4a" else 528, 128, 1))
                self.add(head + "fc", nn.Linear(2048, 1024))
                self.add(head + "classifier", nn.Linear(1024, classes))
        self.add("loss3/classifier", nn.Linear(1024, classes))

    def add(self, name, layer):
        self.add_module(name, layer)

    def layer(self, name, x):
        return F.relu(self._modules[name](x))

    def module(self, name, x):
        m = f"inception_{name}/"
        a = self.layer(m + "1x1", x)
        b = self.layer(m + "3x3", self.layer(m + "3x3_reduce", x))
        c = self.layer(m + "5x5", self.layer(m + "5x5_reduce", x))
        d = self.layer(m + "pool_proj", F.max_pool2d(x, 3, 1, 1))
        return torch.cat([a, b, c, d], 1)

    def head(self, name, x, dropout):
        x = self.layer(name + "conv", F.avg_pool2d(x, 5, 3, ceil_mode=True)).flatten(1)
        return self._modules[name + "classifier"](dropout(self.layer(name + "fc", x), 0.7))

    def forward(self, x, dropout):
        logits = []
        x = norm(F.max_pool2d(self.layer("conv1/7x7_s2", x), 3, 2, ceil_mode=True))
        x = norm(self.layer("conv2/3x3", self.layer("conv2/3x3_reduce", x)))
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        for name in INCEPTIONS:
            x = self.module(name, x)
            if name in ("3b", "4e"):
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
            elif self.heads and name in ("4a", "4d"):
                logits.append(self.head("loss1/" if name == "4a" else "loss2/", x, dropout))
        x = dropout(F.avg_pool2d(x, 7).flatten(1), 0.4)
        main = self._modules["loss3/classifier"](x)
        return (main, *logits) if self.heads else main


models = torchvision.models
IMAGE = (3, 224, 224)
NETWORKS = {  # name: what makes it, input, rate: such that the loss moves, but does not jump
    "alexnet": (vision(models.alexnet), IMAGE, 1e-4),
    "alexnet_caffe": (AlexnetCaffe, (3, 227, 227), 2e-5),
    "alexnet_v2": (AlexnetV2, IMAGE, 2e-5),
    "vgg16": (vision(models.vgg16, init_weights=False), IMAGE, 2e-6),
    "resnet18": (vision(models.resnet18), IMAGE, 1e-3),
    "resnet50": (vision(models.resnet50), IMAGE, 1e-4),
    "mobilenet_v2": (vision(models.mobilenet_v2), IMAGE, 1e-3),
    "googlenet": (vision(models.googlenet, aux_logits=False, init_weights=False), IMAGE, 1e-4),
    "googlenet_aux": (vision(models.googlenet, aux_logits=True, init_weights=False), IMAGE, 1e-4),
    "googlenet_caffe": (lambda classes: GooglenetCaffe(classes, False), IMAGE, 2e-5),
    "googlenet_caffe_aux": (lambda classes: GooglenetCaffe(classes, True), IMAGE, 2e-5),
}
