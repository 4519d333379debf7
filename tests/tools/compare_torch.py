#!/usr/bin/env python3
"""Times training steps of Brasa and PyTorch in turn, in one run: the figures of docs/speed.md.

    python3 tests/tools/compare_torch.py --brasa build/brasa --networks resnet50 vgg16 mobilenet_v2 --batches 1 32

Run it with a Python that has torch and torchvision. Both do the same step (forward, softmax cross-entropy, backward,
SGD with momentum 0.9, 1000 classes, 224 x 224) with the same number of threads, each in a process of its own. PyTorch
is tried in its two memory formats, and compiled where --compile is given; its best form counts. Rounds alternate,
because machines change their speed; a figure is the median of the rounds' medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

FORMS = ("contiguous", "channels_last")


def torch_steps(network, batch, form, threads, steps, compiled):
    """In a process of its own: prints the seconds of each step as JSON."""
    import time

    import torch
    import torchvision

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    extra = {"aux_logits": False, "init_weights": True} if network == "googlenet" else {}
    model = getattr(torchvision.models, network)(num_classes=1000, **extra).train()
    images = torch.rand(batch, 3, 224, 224)
    labels = torch.randint(0, 1000, (batch,))
    if form == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    if compiled:
        model = torch.compile(model)
    times = []
    for i in range(steps + 2):  # two warm up, as in `brasa bench step`
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        if i >= 2:
            times.append(time.perf_counter() - start)
    import resource
    print(json.dumps({"times": times, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      "version": torch.__version__}))


def run(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)


def compare(o, network, batch):
    ours, rss = [], 0
    theirs = {}
    steps = max(o.steps, 20) if batch == 1 else o.steps
    forms = [(f, False) for f in FORMS] + ([(f, True) for f in FORMS] if o.compile else [])
    torch_rss, version = {}, ""
    for _ in range(o.rounds):
        r = run([o.brasa, "bench", "step", network, "--batch", str(batch), "--threads", str(o.threads), "--steps",
                 str(steps), "--json", "--quiet"], o.threads)
        ours.append(r["median_s"])
        rss = max(rss, r["peak_rss_bytes"])
        for form, compiled in forms:
            r = run([sys.executable, __file__, "--one", network, str(batch), form, str(o.threads), str(steps),
                     str(int(compiled))], o.threads)
            theirs.setdefault((form, compiled), []).append(statistics.median(r["times"]))
            torch_rss[form, compiled] = max(torch_rss.get((form, compiled), 0), r["rss"])
            version = r["version"]
    best = min(theirs, key=lambda k: statistics.median(theirs[k]))
    a, b = statistics.median(ours), statistics.median(theirs[best])
    name = best[0] + (", compiled" if best[1] else "")
    print(f"| {network} | {batch} | {a * 1e3:.1f} | {b * 1e3:.1f} | {name} | {b / a:.2f} | {rss / 1e6:.0f} "
          f"| {torch_rss[best] / 1e6:.0f} |", flush=True)
    return version


def main():
    if sys.argv[1:2] == ["--one"]:
        network, batch, form, threads, steps, compiled = sys.argv[2:]
        torch_steps(network, int(batch), form, int(threads), int(steps), compiled == "1")
        return
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--brasa", default="build/brasa")
    p.add_argument("--networks", nargs="+", default=["resnet50", "vgg16", "mobilenet_v2"])
    p.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--compile", action="store_true", help="torch.compile as well")
    o = p.parse_args()
    print("| network | batch | Brasa ms | PyTorch ms | its best form | ratio | Brasa MB | PyTorch MB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    version = ""
    for network in o.networks:
        for batch in o.batches:
            version = compare(o, network, batch)
    print(f"PyTorch {version}, {o.threads} threads, medians of {o.rounds} rounds")


if __name__ == "__main__":
    main()
