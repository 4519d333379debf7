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
PASSES = ("conv2d", "conv2d_grad_data", "conv2d_grad_weights")


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
            which = max((p for p in PASSES if row["kernel"].startswith(p + "_")), key=len, default=None)
            if not which or row["kernel"].startswith("conv2d_update"):  # reorders; or an update, which is more than a gradient
                continue
            kernels = best.setdefault(which, {})
            name = row["kernel"][len(which) + 1:]
            if name not in kernels or row["fastest_us"] < kernels[name]["fastest_us"]:
                kernels[name] = row
    return best


def of(kernels, *words):
    """The fastest of kernels whose name has such a word; None: there is none."""
    rows = [row for name, row in kernels.items() if any(word in name for word in words)]
    return min(rows, key=lambda row: row["fastest_us"], default=None)


def own(kernels):
    return of({name: row for name, row in kernels.items() if "onednn" not in name}, "")


def join(best, figure):
    return " / ".join(figure(best.get(which, {})) or "-" for which in PASSES)


def milliseconds(row):
    return f"{row['fastest_us'] / 1000:.3g}" if row else None


def line(layer, batch, best, peak):
    """A row of the table, or None where one side has no kernel."""
    network, channels, size, settings = layer
    best = {which: kernels for which, kernels in best.items() if own(kernels) and of(kernels, "onednn")}
    if not best:
        return None
    by = min(best.items(), key=lambda b: own(b[1])["fastest_us"])
    name = own(by[1])["kernel"][len(by[0]) + 1:].rsplit("_", 1)[0]

    def share(kernels):
        row = own(kernels)
        return f"{100 * row['gflop_per_s'] * row['median_us'] / row['fastest_us'] / peak:.0f}" if row else None

    return (f"| {network} {channels} -> {settings}, {size} x {size} | {batch} | "
            f"{join(best, lambda k: milliseconds(k.get('onednn')))} | "
            f"{join(best, lambda k: milliseconds(k.get('winograd_onednn')))} | "
            f"{join(best, lambda k: milliseconds(own(k)))} | {name} | "
            f"{join(best, lambda k: k and '%.2f' % (of(k, 'onednn')['fastest_us'] / own(k)['fastest_us']))} | "
            f"{join(best, share)} % |")


def arguments(text):
    """What both tools of this kind are asked for."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brasa", default="build/brasa")
    parser.add_argument("--networks", nargs="+", help="these alone")
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    return parser


def main():
    parser = arguments(__doc__)
    parser.add_argument("--layers", metavar="TEXT", default="", help="those whose settings hold this text")
    o = parser.parse_args()
    for threads in o.threads:
        peak = bench(o.brasa, "peak", "--threads", threads)["best_gflop_per_s"]
        print(f"\n{threads} thread{'s' * (threads > 1)}, peak {peak:.0f} GFLOP/s\n\n"
              "Milliseconds: forward / gradient of the data / of the weights.\n\n"
              "| layer | batch | oneDNN direct | its Winograd | ours | by | best of its / ours | share of peak |\n"
              "|---|---|---|---|---|---|---|---|")
        for batch in o.batches:
            for layer in LAYERS:
                if o.layers in layer[3] and (not o.networks or layer[0] in o.networks):
                    text = line(layer, batch, fastest(o, batch, layer, threads), peak)
                    if text:
                        print(text, flush=True)


if __name__ == "__main__":
    main()
