#!/usr/bin/env python3
"""Training steps on a GPU: Brasa and PyTorch in turns, the floor, and where the time goes, in one run.

    bench/gpu/measure.py --minutes 9       measures; again, until it ends with 0: each call goes on where the last one stopped
    bench/gpu/measure.py --table           what was measured, as Markdown
    bench/gpu/measure.py --profile         where the time goes, network by network
    bench/gpu/measure.py --fusion-table    which of cuDNN's fusions had an engine, by shape

A cell is a network and a batch size. The step is forward, softmax cross-entropy, backward, SGD with momentum; 3 classes,
224 x 224, on one batch that lies on the GPU. PyTorch (torch_step.py) runs in bf16 and channels_last, each form in a process
of its own: eager, and the step recorded as a CUDA graph; --compile adds torch.compile at batch 100. Its weights are bf16 too,
which is less work than Brasa's, whose master weights are floats; --autocast measures it with floats, as Brasa does it. In
each round every side has a turn; the median of the rounds counts. The floor of a step is `brasa bench ops --sum`: the
libraries' convolutions and products alone, and one pass over memory for the rest.

Each cell is a line of JSON in --out, with all that was measured. Exit codes: 0 all cells are there; 1 something failed;
3 cells are left for the next call.
"""
import argparse, json, os, signal, statistics, subprocess, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tools")]
sys.dont_write_bytecode = True
from bench import Failed, Worker, check_writable, find_torch, positive
from bench_rows import append_row, read_rows
from sources import hash_sources
from tables import Figures, errors, fusion_text, number, profile_text, table_text

NETWORKS = ("alexnet", "mobilenet_v2", "resnet50", "vgg16", "googlenet")
BATCHES = (1, 100, 512)
COMPILED_BATCH = 100
LEAST_STEPS = 5
USUAL_CELL = 60  # seconds; what the first cell of a call is expected to take
PROFILED_STEPS = 10
LEFT = 3  # exit code
MACHINE = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit")
CLOCKS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")


class OutOfTime(Exception):
    """The call must end: the cell is measured anew in the next one."""


# --- the machine -------------------------------------------------------------------------------------------------------


def query_gpu(names, *more):
    return ["nvidia-smi", "-i", "0", "--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits", *more]


def read_line(names, line):
    """The values of nvidia-smi's line by their names, numbers where they are; None: it is no such line."""
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(names):
        return None
    values = {}
    for name, word in zip(names, words):
        try:
            values[name] = float(word)
        except ValueError:
            values[name] = word
    return values


def read_machine():
    try:
        done = subprocess.run(query_gpu(MACHINE), capture_output=True, text=True, timeout=30)
        return read_line(MACHINE, done.stdout.strip()) or {"name": None}
    except (OSError, subprocess.TimeoutExpired):
        return {"name": None}


class Clocks:
    """What nvidia-smi says once a second, while the turns are taken."""

    def __enter__(self):
        self.seen, self.process = [], None
        try:
            self.process = subprocess.Popen(query_gpu(CLOCKS, "-lms", "1000"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                            text=True)
        except OSError:
            return self
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        return self

    def read(self):
        for line in self.process.stdout:
            values = read_line(CLOCKS, line)
            if values:
                self.seen.append(values)

    def __exit__(self, *reason):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.thread.join()
            self.process.stdout.close()

    def summary(self):
        columns = {name: [v[name] for v in self.seen if isinstance(v[name], float)] for name in CLOCKS}
        return {name: {"min": min(c), "median": statistics.median(c), "max": max(c)} for name, c in columns.items() if c}


# --- a cell ------------------------------------------------------------------------------------------------------------


def error_of(text, otherwise):
    return {"error": (text.strip().splitlines() or [otherwise])[-1][:500]}


class Cell:
    def __init__(self, run, network, batch):
        self.run, self.network, self.batch = run, network, batch
        self.forms = run.forms + (["compiled"] if run.o.compile and batch == COMPILED_BATCH else [])
        self.workers, self.sides, self.torch = {}, {"brasa": [], **{form: [] for form in self.forms}}, None

    def __str__(self):
        return f"{self.network}, batch {self.batch}"

    def left(self):
        seconds = self.run.end - time.monotonic()
        if seconds <= 1:
            raise OutOfTime()
        return seconds

    def ask_brasa(self, *words):
        """What it says in JSON, or {"error": why not}."""
        o = self.run.o
        command = [o.brasa, *words, "--classes", "3", "--batch", str(self.batch), "--device", "cuda", "--precision", o.precision,
                   "--json", "--quiet"]
        left = self.left()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=min(left, o.limit))
        except subprocess.TimeoutExpired:
            if left <= o.limit:
                raise OutOfTime()
            return {"error": f"took more than {o.limit} s"}
        if done.returncode:
            return error_of(done.stderr, f"ended with {done.returncode}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return error_of("", "said what is no JSON")

    def step_brasa(self, *words):
        return self.ask_brasa("bench", "step", self.network, *words)

    def ask_torch(self, form, seconds, least):
        """A turn of a form; it is over with one that has failed."""
        worker, left = self.workers[form], self.left()
        try:
            answer = worker.turn(seconds, least, min(left, self.run.o.limit))
        except (Failed, OSError, ValueError) as reason:
            worker.close()
            del self.workers[form]
            if self.run.end - time.monotonic() <= 1:
                raise OutOfTime()
            return {"error": str(reason)[:500]}
        if answer.get("reserved", 0) * 3 > answer.get("total", 1):
            worker.close()  # the others need the memory; it starts anew for its next turn
        return answer

    def start_torch(self):
        """Loading torch takes seconds, and the GPU is not needed for it: all at once, while Brasa times its kernels."""
        o = self.run.o
        for form in self.forms:
            command = [self.run.python, o.torch_step, self.network, str(self.batch), form, "--device", o.torch_device]
            self.workers[form] = Worker(command + (["--autocast"] if o.autocast else []) +
                                        (["--mode", o.compile] if form == "compiled" else []))
            self.workers[form].launch()

    def warm_torch(self):
        for form in self.forms:
            try:
                self.torch = self.workers[form].answer(min(self.left(), self.run.o.limit))
            except (Failed, ValueError) as reason:
                self.sides[form].append({"error": str(reason)[:500]})
                del self.workers[form]
                self.left()
                continue
            first = self.ask_torch(form, 0, 1)
            if "error" in first:
                self.sides[form].append(first)

    def rounds(self):
        o = self.run.o
        for i in range(o.rounds):
            self.run.show(f"{self}: round {i + 1} of {o.rounds}")
            for form in self.forms:
                if form in self.workers:
                    self.sides[form].append(self.ask_torch(form, o.seconds, LEAST_STEPS))
            self.sides["brasa"].append(self.step_brasa("--seconds", str(o.seconds)))

    def account(self):
        """Where the time goes: the floor, the nodes, cuDNN's engines."""
        self.run.show(f"{self}: the floor")
        floor = self.ask_brasa("bench", "ops", "--sum", self.network)
        self.run.show(f"{self}: a profile")
        profile = self.ask_brasa("explain", self.network, "--profile", str(PROFILED_STEPS))
        engines = self.ask_brasa("explain", self.network, "--tuned")
        return {"floor": floor if "error" in floor else floor.get("floor"), "profile": short_profile(profile),
                "engines": engines if "error" in engines else engines.get("engines")}

    def measure(self):
        """The row."""
        o = self.run.o
        try:
            if self.run.python:
                self.start_torch()
            self.run.show(f"{self}: Brasa chooses kernels")
            first = self.step_brasa("--steps", "3")
            if self.run.python:
                self.run.show(f"{self}: PyTorch")
                self.warm_torch()
            with Clocks() as clocks:
                if "error" in first:
                    self.sides["brasa"].append(first)
                else:
                    self.rounds()
            for worker in self.workers.values():
                worker.close()
            account = {} if "error" in first else self.account()
        finally:
            for worker in self.workers.values():
                worker.close()
        ours = next((s for s in self.sides["brasa"] if "error" not in s), {})
        return {"network": self.network, "batch": self.batch, **self.run.identity(), "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "gpu": self.run.gpu, "clocks": clocks.summary(), "torch": self.torch,
                "brasa": {"device": ours.get("device"), "about": ours.get("device_about"), "versions": ours.get("versions"),
                          "kernels": ours.get("kernels"), "plan_bytes": ours.get("plan_bytes")},
                "sides": {side: [{k: v for k, v in turn.items() if k not in ("kernels", "versions", "device", "device_about")}
                                 for turn in turns] for side, turns in self.sides.items()}, **account}


def short_profile(profile):
    """Of each node that ran: [op, layer, role, kernel, microseconds, bytes, floating-point operations]."""
    if "error" in profile:
        return profile
    return [[n["op"], n["layer"], n["role"], n["kernel"], n["mean_us"], n["traffic_bytes"], n["flops"]]
            for n in profile.get("nodes", []) if "mean_us" in n]


# --- the run -----------------------------------------------------------------------------------------------------------


class Run:
    def __init__(self, o):
        self.o, self.forms = o, ["eager", "graph"] if o.torch_device != "cpu" else ["eager"]
        self.start = time.monotonic()
        self.end = self.start + 60 * o.minutes if o.minutes else float("inf")
        self.gpu, self.sources, self.python, self.version = read_machine(), hash_sources(), None, None
        if not o.no_torch:
            self.python, self.version = find_torch(o.torch_python or sys.executable)
            if not self.python:
                print(f"note: Brasa alone: {self.version}", file=sys.stderr)
                self.version = None
        if not self.python:
            self.forms = []

    def identity(self):
        """What a row must have in common with this call to count as measured."""
        return {"precision": self.o.precision, "autocast": self.o.autocast, "sources": self.sources}

    def is_done(self, row, cell):
        same = all(row.get(k) == v for k, v in self.identity().items() if k != "sources" or not self.o.keep)
        same = same and row["gpu"]["name"] == self.gpu["name"]
        if self.python:
            same = same and all(form in row["sides"] for form in cell.forms)
            same = same and (not row["torch"] or row["torch"]["torch"] == self.version)
        return same and not (self.o.retry and errors(row))

    def show(self, text):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()

    def clear(self):
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def measure(self, cell):
        """Tells whether all of it went well."""
        started = time.monotonic()
        row = cell.measure()
        append_row(self.o.out, row)
        self.clear()
        f = Figures(row)
        print(f"{cell}: Brasa {number(f.ours)} images/s, PyTorch {number(f.torch['eager'])} eager, {number(f.torch['graph'])} graph"
              + (f", {number(f.torch['compiled'])} compiled" if f.torch["compiled"] else "")
              + f"; floor {number(f.floor)}; {time.monotonic() - started:.0f} s", flush=True)
        for side, reason in errors(row):
            print(f"{cell}: {side}: {reason}", file=sys.stderr, flush=True)
        return not errors(row)

    def run(self):
        o = self.o
        check_writable(o.out)
        old = read_file(o)
        cells = [Cell(self, n, b) for b in o.batches for n in o.networks]
        todo = [c for c in cells if not ((c.network, c.batch) in old and self.is_done(old[c.network, c.batch], c))]
        if len(todo) < len(cells):
            print(f"{len(cells) - len(todo)} of {len(cells)} cells are in {o.out}", file=sys.stderr)
        longest, failed = USUAL_CELL, 0
        for i, cell in enumerate(todo):
            began = time.monotonic()
            try:
                if i and self.end - began < longest:
                    raise OutOfTime()
                failed += not self.measure(cell)
            except OutOfTime:
                self.clear()
                print(f"{len(todo) - i} of {len(cells)} cells are left, the next one {cell}: "
                      + ("the same command goes on" if i else "none was ended in time: give more --minutes"), flush=True)
                return LEFT
            longest = max(longest if i else 0, 1.1 * (time.monotonic() - began))
        return 1 if failed else 0


def read_file(o):
    """The rows by their cells; those of other tools are none."""
    rows = read_rows(o.out, ("network", "batch"))
    return {key: row for key, row in rows.items() if {"sides", "gpu", "brasa", "sources"} <= set(row)}


def wanted_rows(o):
    """Those of --networks and --batches, in their order."""
    rows = read_file(o)
    return [rows[n, b] for n in o.networks for b in o.batches if (n, b) in rows]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--table", action="store_true", help="measure nothing: the table of what is in --out")
    p.add_argument("--profile", action="store_true", help="the same for the time of kernels and nodes")
    p.add_argument("--fusion-table", action="store_true", help="the same for cuDNN's engines")
    p.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help=f"({' '.join(NETWORKS)})")
    p.add_argument("--batches", nargs="+", type=positive, default=BATCHES, metavar="N", help=f"({' '.join(map(str, BATCHES))})")
    p.add_argument("--minutes", type=float, default=0, help="no cell is begun that would not end in time (no limit)")
    p.add_argument("--rounds", type=positive, default=3, metavar="N", help="(3)")
    p.add_argument("--seconds", type=float, default=1.0, help="of a turn (1)")
    p.add_argument("--limit", type=float, default=240, metavar="SECONDS", help="of one answer; more is a failure (240)")
    p.add_argument("--precision", default="bf16", help="Brasa's (bf16)")
    p.add_argument("--autocast", action="store_true", help="PyTorch's weights in floats")
    p.add_argument("--compile", nargs="?", const="default", metavar="MODE", help=f"torch.compile too, at batch {COMPILED_BATCH}")
    p.add_argument("--retry", action="store_true", help="measure cells again in which something failed")
    p.add_argument("--keep", action="store_true", help="cells that were measured with other sources count, too")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "bench-gpu.jsonl"), metavar="FILE", help="(build/bench-gpu.jsonl)")
    p.add_argument("--brasa", default=os.path.join(ROOT, "build", "brasa"), metavar="PROGRAM", help="(build/brasa)")
    p.add_argument("--torch-python", metavar="PYTHON", help="one that has torch and torchvision (this one)")
    p.add_argument("--no-torch", action="store_true", help="Brasa alone")
    p.add_argument("--torch-step", default=os.path.join(HERE, "torch_step.py"), help=argparse.SUPPRESS)
    p.add_argument("--torch-device", default="cuda", help=argparse.SUPPRESS)
    o = p.parse_args()
    try:
        if not (o.table or o.profile or o.fusion_table):
            return Run(o).run()
        rows = wanted_rows(o)
        if not rows:
            print(f"measure.py: nothing is in {o.out} yet", file=sys.stderr)
            return 1
        parts = [table_text(rows)] if o.table else []
        parts += [profile_text(row) for row in rows] if o.profile else []
        parts += [fusion_text(row) for row in rows] if o.fusion_table else []
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader may have seen enough
        print("\n\n".join(parts))
        return 0
    except (Failed, OSError) as reason:
        print(f"measure.py: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped: the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
