#!/usr/bin/env python3
"""Training steps on a GPU: Brasa and PyTorch in turns, in one run.

    bench/gpu/measure.py --networks alexnet resnet50 --batches 1 100        rows are added to build/bench-gpu.jsonl
    bench/gpu/measure.py --table                                           the table of what is there

The step is forward, softmax cross-entropy, backward, SGD with momentum, 3 classes, 224 x 224, on one batch that lies on
the GPU. PyTorch runs in bf16 and channels_last, each form in a process of its own: eager, and the step recorded as a CUDA
graph; --compiled adds torch.compile. Its weights are bf16 too, which is less work than Brasa's, whose master weights are
floats; --autocast measures it with floats, as Brasa does it. A round asks every side once; the median of the rounds counts.
"""
import argparse, json, os, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("alexnet", "mobilenet_v2", "resnet50", "vgg16", "googlenet")


def torch_step(network, batch, form, autocast, seconds):
    """In a process of its own: prints a line of JSON."""
    import torch, torchvision
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    options = {"aux_logits": False, "init_weights": True} if network == "googlenet" else {}
    model = getattr(torchvision.models, network)(num_classes=3, **options).cuda().to(memory_format=torch.channels_last).train()
    images = torch.rand(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    if not autocast:
        model, images = model.bfloat16(), images.bfloat16()
    labels = torch.randint(0, 3, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, foreach=True)
    loss_of = torch.nn.CrossEntropyLoss()
    forward = torch.compile(model, mode="max-autotune") if form == "compiled" else model

    def step():
        optimizer.zero_grad(set_to_none=form != "graph")
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = loss_of(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    if form == "graph":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    else:
        run = step
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds or len(times) < 5:
        count = 1 if batch >= 32 else 5
        before = time.perf_counter()
        for _ in range(count):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - before) / count)
    print(json.dumps({"median_s": statistics.median(times), "memory": torch.cuda.max_memory_allocated(),
                      "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}))


def ask(command, limit):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {limit} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def ask_torch(a, network, batch, form, seconds):
    return ask([sys.executable, os.path.abspath(__file__), "--torch-step", network, str(batch), form, str(seconds)] +
               (["--autocast"] if a.autocast else []), 240)


def ask_brasa(a, network, batch, seconds):
    return ask([a.brasa, "bench", "step", network, "--classes", "3", "--batch", str(batch), "--seconds", str(seconds), "--device",
                "cuda", "--precision", a.precision, "--json", "--quiet"], 240)


def cell(a, network, batch):
    forms = ["eager", "graph"] + (["compiled"] if a.compiled else [])
    sides = {form: [] for form in forms} | {"brasa": []}
    for _ in range(a.rounds):
        for form in forms:
            sides[form].append(ask_torch(a, network, batch, form, a.seconds))
        sides["brasa"].append(ask_brasa(a, network, batch, a.seconds))
    return {"network": network, "batch": batch, "precision": a.precision, "autocast": a.autocast, "time": time.time(),
            "sides": sides}


def rate(row, side):
    times = [s["median_s"] for s in row["sides"].get(side, []) if "median_s" in s]
    return row["batch"] / statistics.median(times) if times else None


def text(x):
    return "-" if x is None else f"{x:,.0f}" if x >= 100 else f"{x:.2f}"


def table(rows):
    print("| network | batch | eager | graph | compiled | brasa | of best | of eager | MB | PyTorch MB | memory |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        torch = {f: rate(row, f) for f in ("eager", "graph", "compiled")}
        ours, best = rate(row, "brasa"), max((x for x in torch.values() if x), default=None)
        memory = [s["memory"] for f in torch for s in row["sides"].get(f, []) if "memory" in s]
        plan = [s["plan_bytes"] for s in row["sides"]["brasa"] if "plan_bytes" in s]
        cells = [text(torch[f]) for f in torch] + [text(ours), text(ours and best and ours / best),
                 text(ours and torch["eager"] and ours / torch["eager"]), text(plan and plan[0] / 1e6 or None),
                 text(memory and min(memory) / 1e6 or None), text(plan and memory and plan[0] / min(memory) or None)]
        print(f"| {row['network']} | {row['batch']} | " + " | ".join(cells) + " |")
        for side, answers in row["sides"].items():
            for answer in answers[:1]:
                if "error" in answer:
                    print(f"  {side}: {answer['error']}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--networks", nargs="+", default=NETWORKS)
    p.add_argument("--batches", nargs="+", type=int, default=[1, 100])
    p.add_argument("--precision", default="bf16")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--compiled", action="store_true")
    p.add_argument("--autocast", action="store_true")
    p.add_argument("--brasa", default="build/brasa")
    p.add_argument("--out", default="build/bench-gpu.jsonl")
    p.add_argument("--table", action="store_true")
    p.add_argument("--torch-step", nargs=4, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch_step:
        network, batch, form, seconds = a.torch_step
        return torch_step(network, int(batch), form, a.autocast, float(seconds))
    if not a.table:
        for network in a.networks:
            for batch in a.batches:
                row = cell(a, network, batch)
                with open(a.out, "a") as file:
                    file.write(json.dumps(row) + "\n")
                table([row])
                sys.stdout.flush()
    with open(a.out) as file:
        table([json.loads(line) for line in file])


if __name__ == "__main__":
    main()
