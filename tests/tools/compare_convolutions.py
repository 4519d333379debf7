#!/usr/bin/env python3
"""Times Brasa's convolutions and oneDNN's on layers of networks, in turn: the tables of docs/speed.md.

    python3 tests/tools/compare_convolutions.py --batches 1 32 --threads 1
    python3 tests/tools/compare_convolutions.py --layers "3x3 pad=1" --batches 32

Each figure is the fastest run of several rounds. The share is that of the peak that `brasa bench peak` finds, by the
products of the plain convolution: algorithms that need fewer may pass 100 %.
"""
import argparse
import json
import subprocess

LAYERS = (  # network, channels in, height and width, channels out and settings
    ("vgg16", 64, 224, "64 3x3 pad=1"), ("vgg16", 128, 112, "128 3x3 pad=1"), ("vgg16", 256, 56, "256 3x3 pad=1"),
    ("vgg16", 512, 28, "512 3x3 pad=1"), ("vgg16", 512, 14, "512 3x3 pad=1"),
    ("resnet50", 64, 56, "64 3x3 pad=1"), ("resnet50", 128, 28, "128 3x3 pad=1"), ("resnet50", 256, 14, "256 3x3 pad=1"),
    ("resnet50", 512, 7, "512 3x3 pad=1"),
    ("googlenet", 64, 56, "192 3x3 pad=1"), ("googlenet", 128, 28, "192 3x3 pad=1"), ("googlenet", 112, 14, "224 3x3 pad=1"),
    ("googlenet", 192, 7, "384 3x3 pad=1"),
    ("alexnet", 192, 13, "384 3x3 pad=1"), ("alexnet", 256, 13, "256 3x3 pad=1"),
    ("cifar10_cnn", 32, 32, "32 3x3"), ("cifar10_cnn", 64, 15, "64 3x3"),
    ("resnet50", 128, 56, "128 3x3 stride=2 pad=1"), ("resnet50", 256, 28, "256 3x3 stride=2 pad=1"),
    ("resnet50", 512, 14, "512 3x3 stride=2 pad=1"),
    ("alexnet", 64, 27, "192 5x5 pad=2"), ("googlenet_caffe", 32, 28, "96 5x5 pad=2"), ("googlenet_caffe", 24, 14, "64 5x5 pad=2"),
    ("resnet50", 3, 224, "64 7x7 stride=2 pad=3"), ("alexnet", 3, 224, "64 11x11 stride=4 pad=2"),
    ("resnet50", 256, 14, "1024 1x1"), ("resnet50", 1024, 14, "256 1x1"), ("resnet50", 128, 28, "512 1x1"),
    ("resnet50", 512, 28, "128 1x1"), ("resnet50", 512, 7, "2048 1x1"), ("resnet50", 2048, 7, "512 1x1"),
)
PASSES = (("conv2d", "forward"), ("conv2d_grad_data", "data"), ("conv2d_grad_weights", "weights"))


def ask(brasa, *words):
    done = subprocess.run([brasa, *map(str, words), "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def bench(brasa, *words):
    return ask(brasa, "bench", *words)


def fastest(o, batch, layer, threads):
    """{pass: {kernel without the name of its pass: its row}}"""
    _, channels, size, settings = layer
    best = {}
    for _ in range(o.rounds):
        told = bench(o.brasa, "ops", "conv2d", f"{batch}x{channels}x{size}x{size}", settings + " bias=no", "--threads", threads,
                     "--seconds", o.seconds, "--quiet")
        for row in told["rows"]:
            which = max((p for p, _ in PASSES if row["kernel"].startswith(p + "_")), key=len, default=None)
            if not which or row["kernel"].startswith("conv2d_update"):  # reorders; or an update, which is more than a gradient
                continue
            kernels = best.setdefault(which, {})
            name = row["kernel"][len(which) + 1:]
            if name not in kernels or row["fastest_us"] < kernels[name]["fastest_us"]:
                kernels[name] = row
    return best


def milliseconds(kernels, name):
    return f"{kernels[name]['fastest_us'] / 1000:.3g}" if name in kernels else "-"


def line(layer, batch, word, kernels, peak):
    network, channels, size, settings = layer
    own = {name: row["fastest_us"] for name, row in kernels.items() if "onednn" not in name}
    theirs = [row["fastest_us"] for name, row in kernels.items() if "onednn" in name]
    if not own or not theirs:
        return None
    name = min(own, key=own.get)
    rate = kernels[name]["gflop_per_s"] * kernels[name]["median_us"] / own[name]
    return (f"| {network} {channels} -> {settings}, {size} x {size} | {batch} | {word} | {milliseconds(kernels, 'onednn')} | "
            f"{milliseconds(kernels, 'winograd_onednn')} | {own[name] / 1000:.3g} | {name.rsplit('_', 1)[0]} | "
            f"{min(theirs) / own[name]:.2f} | {100 * rate / peak:.0f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brasa", default="build/brasa")
    parser.add_argument("--networks", nargs="+", help="these alone")
    parser.add_argument("--layers", metavar="TEXT", default="", help="those whose settings hold this text")
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    o = parser.parse_args()
    for threads in o.threads:
        peak = bench(o.brasa, "peak", "--threads", threads)["best_gflop_per_s"]
        print(f"\n{threads} thread{'s' * (threads > 1)}, peak {peak:.0f} GFLOP/s\n\n"
              "| layer | batch | pass | oneDNN direct ms | its Winograd ms | ours ms | by | best of its / ours | share of peak |\n"
              "|---|---|---|---|---|---|---|---|---|")
        for batch in o.batches:
            for layer in LAYERS:
                if o.layers in layer[3] and (not o.networks or layer[0] in o.networks):
                    best = fastest(o, batch, layer, threads)
                    for which, word in PASSES:
                        text = line(layer, batch, word, best.get(which, {}), peak)
                        if text:
                            print(text, flush=True)


if __name__ == "__main__":
    main()
