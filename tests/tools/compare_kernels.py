#!/usr/bin/env python3
"""Times kernels of our own, other than those of convolutions alone, against what does the same without them: tables for
docs/speed.md.

    python3 tests/tools/compare_kernels.py --batches 1 32 --threads 1
    python3 tests/tools/compare_kernels.py --only depthwise

Against ours stand oneDNN's primitives, and plain passes where ours does several things in one: the gradient of weights and
the update by it, two gradients, batch norm and ReLU. Where Brasa has nothing but its own kernel, as for pooling, its share
stands alone. Each figure is the fastest run of several rounds. The share is that of the peak that `brasa bench peak` finds, by
the operations of the layer's formula, or that of the memory's speed (the fastest of ReLU and an update, over a hundred
megabytes), by what must be read and written once: the larger one. What fits the caches may pass 100 % of the memory's speed.
"""
import os
import tempfile
from collections import namedtuple

from compare_convolutions import arguments, ask, bench

# Ours: how names of kernels begin, of which the fastest counts. Theirs: of each of these groups the fastest, one after the
# other. Merged: the same, where our kernel does that, too: then the program has no node for it, but where it is taken apart.
Comparison = namedtuple("Comparison", "kind word op ours theirs merged", defaults=((), ()))
GRADIENT = ("conv2d_grad_weights_onednn", "conv2d_grad_weights_winograd_onednn")
CONV_UPDATE = (Comparison("conv_update", "weights and update", "conv2d", ("conv2d_update_",), (GRADIENT, ("sgd_",))),)
DEPTHWISE = (Comparison("depthwise", "data and weights", "conv2d", ("depthwise_grad_",), (("conv2d_grad_data_onednn",), GRADIENT)),)
DENSE = (
    Comparison("dense", "forward", "dense", ("dense_small_",), (("dense_onednn",),)),
    Comparison("dense", "data", "dense", ("dense_grad_data_small_",), (("dense_grad_data_onednn",),)),
    Comparison("dense_update", "weights and update", "dense", ("dense_update_",), (("dense_grad_weights_onednn",), ("sgd_",)),
               ("dense_grad_data_onednn",)),
)
MAXPOOL = (Comparison("pool", "forward", "maxpool", ("maxpool_avx",)), Comparison("pool", "data", "maxpool", ("maxpool_grad_",)))
AVGPOOL = (Comparison("pool", "forward", "avgpool", ("avgpool_avx",)), Comparison("pool", "data", "avgpool", ("avgpool_grad_",)))
BATCHNORM = (Comparison("batchnorm", "forward", "batchnorm", ("batchnorm_train_avx",)),
             Comparison("batchnorm", "backward", "batchnorm", ("batchnorm_grad_", "batchnorm_train_grad_")))

LAYERS = (  # network, a sample's shape, settings, comparisons
    ("resnet50", "512x7x7", "512 3x3 pad=1 bias=no", CONV_UPDATE), ("resnet50", "512x7x7", "2048 1x1 bias=no", CONV_UPDATE),
    ("resnet50", "2048x7x7", "512 1x1 bias=no", CONV_UPDATE), ("resnet50", "256x14x14", "1024 1x1 bias=no", CONV_UPDATE),
    ("mobilenet_v2", "320x7x7", "1280 1x1 bias=no", CONV_UPDATE),
    ("mobilenet_v2", "32x112x112", "32 3x3 pad=1 groups=32 bias=no", DEPTHWISE),
    ("mobilenet_v2", "96x112x112", "96 3x3 stride=2 pad=1 groups=96 bias=no", DEPTHWISE),
    ("mobilenet_v2", "144x56x56", "144 3x3 pad=1 groups=144 bias=no", DEPTHWISE),
    ("mobilenet_v2", "384x14x14", "384 3x3 pad=1 groups=384 bias=no", DEPTHWISE),
    ("mobilenet_v2", "960x7x7", "960 3x3 pad=1 groups=960 bias=no", DEPTHWISE),
    ("vgg16", "25088", "4096 bias=no", DENSE), ("vgg16", "4096", "4096 bias=no", DENSE), ("alexnet", "9216", "4096 bias=no", DENSE),
    ("resnet50", "2048", "1000 bias=no", DENSE), ("mnist_cnn", "9216", "128 bias=no", DENSE),
    ("letter_mlp", "16", "50 bias=no", DENSE), ("letter_mlp", "50", "22 bias=no", DENSE),
    ("vgg16", "64x224x224", "2", MAXPOOL), ("resnet50", "64x112x112", "3 stride=2 pad=1", MAXPOOL),
    ("googlenet", "192x28x28", "3 stride=1 pad=1", MAXPOOL), ("mnist_cnn", "64x24x24", "2", MAXPOOL),
    ("googlenet_caffe", "512x14x14", "5 stride=3", AVGPOOL),
    ("resnet50", "64x112x112", "", BATCHNORM), ("resnet50", "256x56x56", "", BATCHNORM), ("resnet50", "1024x14x14", "", BATCHNORM),
    ("mobilenet_v2", "960x7x7", "", BATCHNORM),
)
# Batch norm and the ReLU behind it, which are one node where they may be.
SEQUENCES = (("resnet50", 64, 56), ("resnet50", 256, 56), ("mobilenet_v2", 144, 56))
LARGE = (("relu", "32x64x112x112", ""), ("dense", "1x8192", "4096 bias=no"))  # 103 and 134 MB


def fastest(o, op, shape, settings, threads):
    """{kernel: its fastest row}"""
    best = {}
    for _ in range(o.rounds):
        told = bench(o.brasa, "ops", op, shape, settings, "--threads", threads, "--seconds", o.seconds, "--quiet")
        for row in told["rows"]:
            old = best.get(row["kernel"])
            if not old or row["fastest_us"] < old["fastest_us"]:
                best[row["kernel"]] = row
    return best


def pick(rows, begins):
    """The fastest of the kernels whose names begin so, or None."""
    return min((row for name, row in rows.items() if name.startswith(begins)), key=lambda row: row["fastest_us"], default=None)


def rate(row, unit):
    """Of the fastest run."""
    return row[unit] * row["median_us"] / row["fastest_us"]


def memory_speed(o, threads):
    rows = [row for case in LARGE for row in fastest(o, *case, threads).values()]
    return max(rate(row, "gb_per_s") for row in rows if row["kernel"].startswith(("relu_", "sgd_")))


def share(row, peak, memory):
    products, bytes_moved = rate(row, "gflop_per_s") / peak, rate(row, "gb_per_s") / memory
    return f"{100 * max(products, bytes_moved):.0f} % of {'products' if products > bytes_moved else 'memory'}"


def line(layer, batch, word, theirs, ours, name, of_peak):
    network, sample, settings, _ = layer
    told, ratio = (f"{theirs / 1000:.3g}", f"{theirs / ours:.2f}") if theirs else ("-", "-")
    return (f"| {network} {sample.replace('x', ' x ')}{' -> ' * bool(settings)}{settings.replace(' bias=no', '')} | {batch} | {word} | "
            f"{told} | {ours / 1000:.3g} | {name} | {ratio} | {of_peak} |")


def compare(layer, batch, rows, c, peak, memory):
    """A line of the table; None: there is no kernel of ours, or nothing beside it that there should be."""
    ours, theirs, word = pick(rows, c.ours), [pick(rows, group) for group in c.theirs], c.word
    merged = pick(rows, c.merged) if c.merged else None
    if merged and merged["apart"]:
        theirs, word = theirs + [merged], "data, " + word
    if not ours or not all(theirs):
        return None
    return line(layer, batch, word, sum(row["fastest_us"] for row in theirs), ours["fastest_us"], ours["kernel"].rsplit("_", 1)[0],
                share(ours, peak, memory))


def sequence(o, folder, batch, channels, size, threads):
    """Microseconds that batch norm and ReLU take in a step, forward and backward: as they are, and each by itself."""
    path, took = os.path.join(folder, "sequence.net"), []
    with open(path, "w") as file:
        file.write(f"input {channels} {size} {size}\nconv {channels} 1x1 bias=no name=c\nbatchnorm name=b\nrelu name=r\n"
                   "global_avgpool\nflatten\nclassify 10\n")
    for more in [], ["--no-fusion"]:
        rounds = [ask(o.brasa, "explain", path, "--batch", batch, "--profile", 10, "--threads", threads, *more) for _ in range(o.rounds)]
        took.append(min(sum(n.get("min_us", 0) for n in told["nodes"] if n["layer"] in ("b", "r") and n["role"] != "update")
                        for told in rounds))
    return took


def main():
    kinds = sorted({c.kind for layer in LAYERS for c in layer[3]}) + ["sequence"]
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=", ".join(kinds))
    o = parser.parse_args()
    for threads in o.threads:
        peak = bench(o.brasa, "peak", "--threads", threads)["best_gflop_per_s"]
        memory = memory_speed(o, threads)
        print(f"\n{threads} thread{'s' * (threads > 1)}, peak {peak:.0f} GFLOP/s, memory {memory:.1f} GB/s\n\n"
              "| layer | batch | what | oneDNN or apart, ms | ours, ms | by | theirs / ours | share of peak |\n"
              "|---|---|---|---|---|---|---|---|")
        for batch in o.batches:
            for layer in LAYERS:
                wanted = [c for c in layer[3] if c.kind in o.only and (not o.networks or layer[0] in o.networks)]
                rows = fastest(o, wanted[0].op, f"{batch}x{layer[1]}", layer[2], threads) if wanted else {}
                for c in wanted:
                    text = compare(layer, batch, rows, c, peak, memory)
                    if text:
                        print(text, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                for network, channels, size in SEQUENCES if "sequence" in o.only else ():
                    if not o.networks or network in o.networks:
                        ours, apart = sequence(o, folder, batch, channels, size, threads)
                        print(line((network, f"{channels}x{size}x{size}", "", ()), batch, "batch norm and ReLU, both ways", apart, ours,
                                   "batchnorm", "-"), flush=True)


if __name__ == "__main__":
    main()
