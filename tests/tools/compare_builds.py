#!/usr/bin/env python3
"""Compares two builds of the program, on the CPU in f32: the same bits, and no slower.

    compare_builds.py bits OLD NEW [--models A,B] [--dialects torch,caffe]
    compare_builds.py speed OLD NEW [--models A,B] [--batches 1,32] [--rounds 5] [--seconds 2]

`bits` trains every network in every dialect for 20 seeded steps and compares hashes of all tensors in the
checkpoint: weights, buffers and the optimizer's state. `speed` runs `bench step` of both programs in turns and
compares medians, the start to the first step, the bytes of the plan and the peak of resident memory.
Exit status 1: some differ, or the new program is slower than it may be."""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

LEAST_RATIO = 0.99  # of the medians of all cells: old seconds / new seconds
DATA = {(1, 28, 28): "synth:digits", (3, 32, 32): "synth:cifar10", (16,): "synth:letter"}
SIZES = {"synth:cifar100": (400, 20)}  # samples and batch size, where 40 are fewer than a set must have
QUIET = dict(os.environ, BRASA_TUNE="off", BRASA_CACHE="off")


def models(program):
    listed = json.loads(subprocess.run([program, "models", "--json"], capture_output=True, check=True).stdout)
    return {m["name"]: tuple(m["input"]) for m in (listed if isinstance(listed, list) else listed["models"])}


def tensors(path):
    """The hash of every tensor of a safetensors file, by its name."""
    with open(path, "rb") as f:
        length = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(length))
        data = f.read()
    return {
        name: (t["dtype"], t["shape"], hashlib.sha256(data[slice(*t["data_offsets"])]).hexdigest())
        for name, t in header.items()
        if name != "__metadata__"
    }


def train(program, model, shape, dialect, folder):
    data = "synth:cifar100" if model == "cifar100_cnn" else DATA.get(shape, "synth:fire")
    samples, batch = SIZES.get(data, (40, 2))
    command = [program, "train", model, "--data", f"{data},n={samples}", "--split", "all", "--keep", "last", "--epochs", "1",
               "--batch", str(batch), "--seed", "7", "--dialect", dialect, "--optimizer", "sgd lr=0.001 momentum=0.9",
               "--threads", "2", "--quiet", "--out", folder]
    run = subprocess.run(command, capture_output=True, env=QUIET, text=True)
    if run.returncode != 0:
        sys.exit(f"{program} train {model}: {run.stderr.strip()}")
    return tensors(os.path.join(folder, "checkpoint.safetensors"))


def compare_bits(o):
    bad = 0
    for model, shape in chosen(o).items():
        for dialect in o.dialects.split(","):
            with tempfile.TemporaryDirectory() as work:
                old, new = (train(p, model, shape, dialect, f"{work}/{i}") for i, p in enumerate((o.old, o.new)))
            differ = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
            bad += bool(differ)
            print(f"{model:20} {dialect:8} {len(old):4} tensors  "
                  f"{'same' if not differ else 'DIFFER: ' + ', '.join(differ[:4])}", flush=True)
    return bad


def bench(program, model, batch, seconds):
    command = [program, "bench", "step", model, "--batch", str(batch), "--seconds", str(seconds), "--json", "--quiet"]
    return json.loads(subprocess.run(command, capture_output=True, env=QUIET, check=True).stdout)


def compare_speed(o):
    ratios, larger = [], 0
    print(f"{'model':20} {'batch':>5} {'old ms':>9} {'new ms':>9} {'ratio':>6} {'start':>6} {'plan MB':>17} {'RSS MB':>17}")
    for model in chosen(o):
        for batch in (int(b) for b in o.batches.split(",")):
            rows = ([], [])
            for turn in range(o.rounds):
                for which in (0, 1) if turn % 2 == 0 else (1, 0):
                    rows[which].append(bench((o.old, o.new)[which], model, batch, o.seconds))
            old, new = ([statistics.median(r[key] for r in side) for key in
                         ("median_s", "first_step_s", "plan_bytes", "peak_rss_bytes")] for side in rows)
            ratios.append(old[0] / new[0])
            larger += new[2] > old[2]
            print(f"{model:20} {batch:5} {old[0] * 1e3:9.3f} {new[0] * 1e3:9.3f} {ratios[-1]:6.3f} {old[1] / new[1]:6.3f} "
                  f"{old[2] / 1e6:8.1f} {new[2] / 1e6:8.1f} {old[3] / 1e6:8.1f} {new[3] / 1e6:8.1f}", flush=True)
    middle = statistics.median(ratios)
    print(f"median of {len(ratios)} ratios: {middle:.3f} (at least {LEAST_RATIO}); larger plans: {larger}")
    return middle < LEAST_RATIO or larger > 0


def chosen(o):
    known = models(o.new)
    return {name: known[name] for name in (o.models.split(",") if o.models else known)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("bits", "speed"))
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--models", help="names with commas between them (all)")
    p.add_argument("--dialects", default="torch,tfkeras,keras2,caffe")
    p.add_argument("--batches", default="1,32")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=2)
    o = p.parse_args()
    sys.exit(1 if (compare_bits if o.what == "bits" else compare_speed)(o) else 0)


if __name__ == "__main__":
    main()
