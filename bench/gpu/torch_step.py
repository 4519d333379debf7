#!/usr/bin/env python3
"""Training steps of PyTorch on a GPU, in a process of their own: the other side of measure.py, which starts and asks it.

    torch_step.py NETWORK BATCH eager|graph|compiled [--autocast] [--mode MODE] [--device DEVICE]

The step is that of `brasa bench step --device cuda`: forward, softmax cross-entropy, backward, SGD with momentum 0.9, on
one batch of random numbers that lies on the GPU; 3 classes, pictures of 224 x 224, channels_last. All is bf16, weights
and momentum too; with --autocast these are floats, as Brasa's are. A CPU, for tests, takes floats. `graph` is the whole step recorded as a CUDA graph;
its SGD is the fused one, which is the faster. A line of JSON tells that torch is loaded; the first turn builds the
network. For every line "SECONDS STEPS" it runs steps for so many seconds, and so many at least, and prints what they took.
"""
import argparse, json, math, statistics, sys, time

import torch, torchvision

CLASSES, SIZE = 3, 224
SHORT_BATCH, GROUP = 32, 5  # steps of smaller batches are timed so many at once, as `brasa bench step` does
WARM_UP = 4


def build(network):
    options = {"aux_logits": False, "init_weights": False} if network == "googlenet" else {}
    return getattr(torchvision.models, network)(num_classes=CLASSES, **options)


class Stepper:
    def __init__(self, o):
        self.o, self.cuda = o, o.device != "cpu"
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model = build(o.network).to(o.device).to(memory_format=torch.channels_last).train()
        self.images = torch.rand(o.batch, 3, SIZE, SIZE, device=o.device).to(memory_format=torch.channels_last)
        if not o.autocast and self.cuda:
            self.model, self.images = self.model.bfloat16(), self.images.bfloat16()
        self.labels = torch.randint(0, CLASSES, (o.batch,), device=o.device)
        graph = o.form == "graph"
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001, momentum=0.9, foreach=not graph, fused=graph)
        self.loss_of = torch.nn.CrossEntropyLoss()
        self.forward = torch.compile(self.model, mode=o.mode) if o.form == "compiled" else self.model
        self.loss, self.run = None, self.step
        self.warm_up()
        self.tried = 0  # the peak while cuDNN's kernels were tried, which is no part of a step
        if self.cuda:
            self.tried = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        if graph:
            self.record()  # what its steps take is counted now: to PyTorch they allocate nothing later

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.o.device.split(":")[0], torch.bfloat16, enabled=self.o.autocast):
            self.loss = self.loss_of(self.forward(self.images), self.labels)
        self.loss.backward()
        self.optimizer.step()

    def warm_up(self):
        """On a stream of its own, as must be before a step is recorded."""
        if not self.cuda:
            return self.step()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.wait()

    def record(self):
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        self.run = graph.replay

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def memory(self):
        if not self.cuda:
            return {"memory": 0, "memory_tried": 0, "reserved": 0, "total": 1}
        return {"memory": torch.cuda.max_memory_allocated(), "memory_tried": self.tried, "reserved": torch.cuda.max_memory_reserved(),
                "total": torch.cuda.get_device_properties(self.o.device).total_memory}

    def turn(self, seconds, least):
        group = 1 if self.o.batch >= SHORT_BATCH else GROUP
        for _ in range(3 if self.cuda else 0):  # a GPU that has rested is slow at first
            self.run()
        self.wait()
        times, start = [], time.perf_counter()
        while len(times) < least or time.perf_counter() - start < seconds:
            before = time.perf_counter()
            for _ in range(group):
                self.run()
            self.wait()
            times.append((time.perf_counter() - before) / group)
        loss = self.loss.item()
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is {loss}")
        low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
        return {"median_s": median, "spread_s": high - low, "min_s": min(times), "max_s": max(times),
                "steps": len(times) * group, "loss": loss, **self.memory()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("network")
    p.add_argument("batch", type=int)
    p.add_argument("form", choices=("eager", "graph", "compiled"))
    p.add_argument("--autocast", action="store_true")
    p.add_argument("--mode", default="default", help="of torch.compile")
    p.add_argument("--device", default="cuda")
    o = p.parse_args()
    if o.device != "cpu" and not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} finds no GPU")
    if o.form == "graph" and o.device == "cpu":
        sys.exit("a CPU records no graphs")
    print(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__,
                      "cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda}), flush=True)
    stepper = None
    for line in sys.stdin:
        seconds, least = line.split()
        stepper = stepper or Stepper(o)
        print(json.dumps(stepper.turn(float(seconds), int(least))), flush=True)


if __name__ == "__main__":
    main()
