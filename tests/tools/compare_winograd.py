#!/usr/bin/env python3
"""Times Brasa's Winograd kernels and oneDNN's convolutions on layers of networks: the table of docs/speed.md.

    python3 tests/tools/compare_winograd.py --brasa build/brasa --batches 1 --threads 1 --peak 118

Each figure is the fastest run of several rounds, in which the kernels take turns. --peak is what the threads' cores can
do, in GFLOP/s. The share of it counts the operations of the plain convolution: Winograd's algorithm does about a quarter
of them, so that it may pass 100 %.
"""
import argparse
import json
import subprocess

LAYERS = (  # channels in, out, height and width
    ("VGG", 64, 64, 224), ("VGG", 128, 128, 112), ("VGG", 256, 256, 56), ("VGG", 512, 512, 28), ("VGG", 512, 512, 14),
    ("ResNet", 64, 64, 56), ("ResNet", 128, 128, 28), ("ResNet", 256, 256, 14), ("ResNet", 512, 512, 7),
    ("GoogLeNet", 64, 192, 56), ("GoogLeNet", 128, 192, 28), ("GoogLeNet", 112, 224, 14), ("GoogLeNet", 192, 384, 7),
    ("AlexNet", 192, 384, 13), ("AlexNet", 256, 256, 13),
)
PASSES = ("conv2d", "conv2d_grad_data", "conv2d_grad_weights")
KERNELS = ("onednn", "winograd_onednn", "winograd_avx")


def fastest(brasa, batch, layer, threads, seconds, rounds):
    """Microseconds of each pass by each kernel that takes it."""
    _, inputs, outputs, size = layer
    best = {}
    for _ in range(rounds):
        text = subprocess.run([brasa, "bench", "ops", "conv2d", f"{batch}x{inputs}x{size}x{size}", f"{outputs} 3x3 pad=1",
                               "--threads", str(threads), "--seconds", str(seconds), "--quiet", "--json"],
                              check=True, capture_output=True, text=True).stdout
        for row in json.loads(text)["rows"]:
            for name in PASSES:
                for kernel in KERNELS:
                    if row["kernel"].startswith(f"{name}_{kernel}"):
                        at = name, kernel
                        best[at] = min(best.get(at, row["fastest_us"]), row["fastest_us"])
    return best


def cell(best, name, kernel):
    return f"{best[name, kernel] / 1000:.2f}" if (name, kernel) in best else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brasa", default="build/brasa")
    parser.add_argument("--networks", nargs="+", default=sorted({layer[0] for layer in LAYERS}))
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peak", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    print("| layer | batch | pass | oneDNN direct ms | its Winograd ms | ours ms | best of its / ours | share of peak |")
    print("|---|---|---|---|---|---|---|---|")
    for batch in args.batches:
        for layer in (each for each in LAYERS if each[0] in args.networks):
            best = fastest(args.brasa, batch, layer, args.threads, args.seconds, args.rounds)
            network, inputs, outputs, size = layer
            flops = 18 * batch * inputs * outputs * size * size
            for name, word in zip(PASSES, ("forward", "data", "weights")):
                ours = best[name, "winograd_avx"]
                theirs = min(best[name, k] for k in KERNELS[:2] if (name, k) in best)
                print(f"| {network} {inputs} -> {outputs}, {size} x {size} | {batch} | {word} | "
                      f"{cell(best, name, 'onednn')} | {cell(best, name, 'winograd_onednn')} | {ours / 1000:.2f} | "
                      f"{theirs / ours:.2f} | {100 * flops / ours / 1000 / args.peak:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
