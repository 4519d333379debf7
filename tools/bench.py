#!/usr/bin/env python3
"""`./run bench`: training steps of Brasa and, where it is installed, of PyTorch, in turn and in one run.

    ./run bench                    in ten minutes: batch 1 and 32, all threads
    ./run bench --full             batch 1, 8, 32, 100, one and all threads; takes hours, goes on where it was stopped
    ./run bench --full --markdown  the table of what was measured so far

A cell is a network, a batch size and a number of threads. In its rounds Brasa and PyTorch take turns, each in a process
of its own, and the machine's peak (`brasa bench peak`) is taken in every round, because machines change their speed.
The figure is the median of the rounds' medians. PyTorch counts with the fastest of its forms: eager or compiled,
contiguous or channels_last. With --full all four are tried; else those that there is time for, or the one that a full
run found the fastest. Each cell is a line of JSON in --out, with all that was measured, versions and kernels.
"""
import argparse, hashlib, json, os, select, shutil, signal, statistics, subprocess, sys, tempfile, time

from bench_rows import (COLUMNS, LARGE, SMALL, append_row, can_show, figures, key_of, maker, markdown, pick_rows, read_all,
                        terminal_line)

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_BATCH = 128
FORMS = ("channels_last eager", "channels_last compiled", "contiguous eager", "contiguous compiled")
LONG_STEP = 5  # seconds; two such steps are enough
SHORT_STEP = 0.5  # with such ones there is time for more rounds, as machines change their speed within seconds
START = 60  # seconds that a worker of PyTorch may take to be ready, before it is compiled and but for its steps
GRACE = 40  # seconds that a quick run may take beyond its time to end what it is at
CLOSE = 1.1  # forms that were at most so much slower than the fastest at first take part in all rounds
SETTLE = 0.5  # seconds: after their last step the threads of a waiting worker spin for a while
FAR = 1.4  # forms whose warm-up was so much slower, with long steps, are not measured further


class Failed(Exception):
    """A measurement that did not come about; the text says why."""


# --- the two sides ---------------------------------------------------------------------------------------------------


class Brasa:
    def __init__(self, program):
        self.program, self.end = program, None  # end: when it must have answered, on the clock
        with open(program, "rb") as file:
            self.hash = hashlib.sha256(file.read()).hexdigest()[:16]
        self.machine = self.peak(0, 0)["machine"]

    def ask(self, *words, needs, threads=0):
        """What `brasa bench ...` says, with these members at least; threads 0: all that may be used."""
        command = [self.program, "bench", *map(str, words), "--json"] + (["--threads", str(threads)] if threads else [])
        limit = max(1, self.end - time.monotonic()) if self.end else None
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failed("there was not enough time; --minutes or --full gives more")
        if done.returncode:
            raise Failed(done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode}")
        told = read_json(done.stdout)
        missing = [name for name in needs if name not in told]
        if missing:
            raise Failed(f"{' '.join(command)} says no '{missing[0]}': is it Brasa, and as new as this script?")
        return told

    def peak(self, threads, seconds=0.2):
        return self.ask("peak", "--seconds", seconds, threads=threads,
                        needs=("machine", "isa", "best_gflop_per_s", "median_gflop_per_s"))

    def step(self, network, batch, threads, seconds):
        return self.ask("step", network, "--batch", batch, "--seconds", seconds, "--quiet", threads=threads,
                        needs=("median_s", "spread_s", "steps", "first_step_s", "gflop", "peak_rss_bytes", "plan_bytes", "kernels"))

    def sum_of_onednn(self, network, batch, threads, repeats):
        return self.ask("ops", "--sum", network, "--batch", batch, "--kernels", "onednn", "--steps", repeats, "--quiet",
                        threads=threads, needs=("sum_s", "repeats", "kernels"))


def read_json(text):
    """What a process said of itself, {} where that is nothing of the kind."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


class Worker:
    """A process that measures PyTorch, waiting for its next turn. Started again after close()."""

    def __init__(self, command, **environment):
        self.command, self.environment, self.process, self.said = command, environment, None, None

    def launch(self):
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
                                        errors="replace", start_new_session=True, env=dict(os.environ, **self.environment))

    def start(self, seconds):
        """Gives what the worker says of itself once it is warm."""
        self.launch()
        return self.answer(seconds)

    def answer(self, seconds):
        ready = select.select([self.process.stdout], [], [], seconds)[0]
        line = self.process.stdout.readline() if ready else ""
        if read_json(line):
            return read_json(line)
        reason = f"not ready after {seconds:.0f} s" if not ready else f"says '{line.strip()[:200]}'" if line else self.last_words()
        self.close()
        raise Failed(reason)

    def last_words(self):
        code = self.process.wait()
        self.said.seek(0)
        lines = self.said.read().strip().splitlines()
        return lines[-1] if lines else f"ended with {code}"

    def turn(self, seconds, steps, limit):
        if not self.process:
            self.start(limit)
        try:
            self.process.stdin.write(f"{seconds} {steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it is over: the answer says why
        return self.answer(limit)

    def close(self):
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)  # with the compilers that it may have started
            except ProcessLookupError:
                pass
            self.process.wait()
            try:
                self.process.stdin.close()
            except BrokenPipeError:  # of a line that nobody reads any more
                pass
            self.process.stdout.close()
            self.said.close()
        self.process = None


def find_torch(wanted):
    """A Python that has torch and torchvision, and the version of torch; (None, why not)."""
    asks = ("import importlib.util as u, importlib.metadata as m, sys\n"
            "sys.exit(1) if not all(map(u.find_spec, ('torch', 'torchvision'))) else print(m.version('torch'))")
    for python in [wanted] if wanted else ["python3", "python"]:
        path = shutil.which(python)
        if not path:
            continue
        done = subprocess.run([path, "-c", asks], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip():
            return path, done.stdout.strip()
    return None, (f"{wanted} has no torch and torchvision" if wanted else
                  "no Python with torch and torchvision on the PATH; --torch-python or BRASA_TORCH_PYTHON names one")


def available_bytes():
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


# --- a cell ----------------------------------------------------------------------------------------------------------


class Cell:
    def __init__(self, network, batch, threads):
        self.network, self.batch, self.threads = network, batch, threads
        self.gflop = {**LARGE, **SMALL}[network] * batch

    def key(self):
        return {"network": self.network, "batch": self.batch, "threads": self.threads}

    def weight(self):
        """Its share of the time: starting everything costs about as much as 900 GFLOP."""
        return 3 + self.gflop / 300 / self.threads * 2

    def __str__(self):
        return f"{self.network}, batch {self.batch}, {self.threads} thread{'s' * (self.threads > 1)}"


class Measurement:
    """One cell on its way to a row. In a quick run it keeps to `seconds` as well as it can."""

    def __init__(self, bench, cell, seconds):
        self.bench, self.cell, self.full = bench, cell, bench.full
        self.deadline = time.monotonic() + seconds
        self.turn = bench.turn or (3 if self.full else min(2, seconds / 12))
        self.peaks, self.ours, self.onednn, self.theirs, self.refused, self.workers = [], [], None, {}, {}, {}

    def left(self):
        return self.deadline - time.monotonic()

    def limit(self, seconds):
        """How long to wait for an answer: it may take so many seconds, but not longer than the run."""
        return 7200 if self.full else max(1, min(seconds, self.bench.end - time.monotonic()))

    def brasa_turn(self):
        c = self.cell
        self.bench.show(f"{c}: Brasa")
        if self.workers:
            time.sleep(SETTLE)
        self.peaks.append(self.bench.brasa.peak(c.threads))
        self.ours.append(self.bench.brasa.step(c.network, c.batch, c.threads, self.turn))

    def torch_turn(self, form, seconds):
        """A round of one form; closes the worker where it would take the memory that Brasa needs."""
        worker = self.workers[form]
        self.bench.show(f"{self.cell}: PyTorch, {form}")
        step = self.theirs[form][-1]["median_s"] if self.theirs[form] else 0
        least = 2 if step > LONG_STEP else 3
        limit = START + seconds + 4 * least * max(step, self.ours[0]["median_s"])
        self.theirs[form].append(worker.turn(seconds, least, self.limit(limit)))
        if available_bytes() < 1.2 * self.ours[0]["peak_rss_bytes"]:
            worker.close()

    def try_form(self, form):
        c, step = self.cell, self.ours[0]["median_s"]
        self.bench.show(f"{c}: PyTorch, {form}, from its start")
        limit = START * (2 if "compiled" in form else 1) + 20 * step
        worker = Worker([self.bench.python, os.path.join(HERE, "bench_torch.py"), c.network, str(c.batch), str(c.threads),
                         *form.split()], OMP_NUM_THREADS=str(c.threads))
        try:
            warm = worker.start(self.limit(limit))["step_s"]
            best = min((t[0]["median_s"] for t in self.theirs.values()), default=warm)
            if warm > LONG_STEP and warm > FAR * best:
                worker.close()
                self.refused[form] = f"far slower: {warm:.1f} s to warm up"
                return
            self.workers[form], self.theirs[form] = worker, []
            self.torch_turn(form, self.turn / 2)
        except Failed as reason:
            self.refused[form] = str(reason)
            self.theirs.pop(form, None)
            self.workers.pop(form, None)

    def try_forms(self):
        """All of them, or those that there is time for; keeps the workers of the fastest."""
        known = None if self.full else self.bench.known_form(self.cell)
        forms = [known] if known else list(FORMS)
        if self.cell.network == "letter_mlp":  # has no pictures: one format
            forms = [f for f in forms if "contiguous" in f]
        longest = 0
        for form in forms:
            if not self.full and self.left() < 2.5 * longest:
                self.refused[form] = "no time"
                continue
            started = time.monotonic()
            self.try_form(form)
            longest = max(longest, time.monotonic() - started)
            self.keep_fast()

    def keep_fast(self):
        best = min((t[0]["median_s"] for t in self.theirs.values()), default=0)
        for form in list(self.workers):
            if self.theirs[form][0]["median_s"] > best * (CLOSE if self.full else 1):
                self.workers.pop(form).close()

    def sum_of_onednn(self):
        c, step = self.cell, self.ours[0]["median_s"]
        repeats = 3 if step < LONG_STEP else 1
        if not self.bench.brasa.machine["onednn"] or (not self.full and self.left() < (8 * repeats + 12) * step):
            return
        self.bench.show(f"{c}: oneDNN's primitives, one by one")
        total = self.bench.brasa.sum_of_onednn(c.network, c.batch, c.threads, repeats)
        self.onednn = {key: total[key] for key in ("sum_s", "repeats", "kernels")}

    def rounds(self):
        """Further turns, while there is time."""
        longest = max([self.ours[0]["median_s"]] + [t[0]["median_s"] for t in self.theirs.values()])
        most = 3 if longest < LONG_STEP else 2 if self.full else 1
        if self.full and longest < SHORT_STEP:
            most = 7
        while len(self.ours) < most:
            started = time.monotonic()
            self.brasa_turn()
            for form in self.workers:
                self.torch_turn(form, self.turn)
            if not self.full and self.left() < 1.2 * (time.monotonic() - started):
                break

    def run(self):
        """The row."""
        cut = None
        try:
            self.brasa_turn()
            if self.bench.python:
                self.try_forms()
            try:
                self.sum_of_onednn()
                self.rounds()
            except Failed as reason:  # what was measured before counts
                cut = str(reason)
            return {**self.row(), **({"cut_short": cut} if cut else {})}
        finally:
            for worker in self.workers.values():
                worker.close()

    def row(self):
        brasa, first = self.bench.brasa, self.ours[0]
        ours = summary(self.ours)
        row = {**self.cell.key(), "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "program": brasa.hash,
               "torch": self.bench.torch, "machine": brasa.machine, "full": self.full, "gflop": first["gflop"],
               "peak": {"isa": self.peaks[0]["isa"], "best_gflop_per_s": max(p["best_gflop_per_s"] for p in self.peaks),
                        "median_gflop_per_s": [p["median_gflop_per_s"] for p in self.peaks]},
               "brasa": {**ours, "first_step_s": min(o["first_step_s"] for o in self.ours),
                         "kernels": first["kernels"], "plan_bytes": first["plan_bytes"]},
               "onednn": self.onednn, "pytorch": None}
        forms = {form: summary(turns) for form, turns in self.theirs.items()}
        if forms:
            best = min(forms, key=lambda form: forms[form]["median_s"])
            row["pytorch"] = {"form": best, **forms[best], "forms": {f: s["median_s"] for f, s in forms.items()},
                              "not_tried": self.refused}
        elif self.refused:
            row["pytorch_failed"] = self.refused
        return row


def summary(turns):
    medians = [t["median_s"] for t in turns]
    return {"median_s": statistics.median(medians), "low_s": min(medians), "high_s": max(medians),
            "spread_s": statistics.median(t["spread_s"] for t in turns), "steps": sum(t["steps"] for t in turns),
            "rounds": medians, "peak_rss_bytes": max(t["peak_rss_bytes"] for t in turns)}


# --- the run -----------------------------------------------------------------------------------------------------------


def check_old(path):
    """A quick run begins its file anew: that must be one of a quick run, nothing that took hours, or somebody's own."""
    with open(path, errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
                fine = "network" in row and not row.get("full")
            except (ValueError, TypeError):
                fine = False
            if not fine:
                sys.exit(f"{path} is no file of a quick run, which would be begun anew: give --out another name, or --full")


def full_path(o):
    return os.path.join(os.path.dirname(os.path.abspath(o.brasa)), "bench-full.jsonl")


def out_path(o):
    return o.out or (full_path(o) if o.full else os.path.join(os.path.dirname(full_path(o)), "bench.jsonl"))


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text}")
    return number


def number_up_to(most, least=0):
    """For argparse, which would take nan, and -1 as well."""
    def read(text):
        number = float(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected a number from {least:g} to {most:g}, got {text}")
        return number
    return read


def check_writable(path):
    """Told before anything is measured that could not be kept then."""
    there = os.path.exists(path)
    with open(path, "ab"):
        pass
    if not there:
        os.remove(path)


class Bench:
    def __init__(self, o):
        self.full, self.seconds, self.turn, self.python, self.torch = o.full, o.minutes * 60, o.turn, None, None
        self.full_path, self.path = full_path(o), out_path(o)
        check_writable(self.path)
        self.brasa = Brasa(o.brasa)
        all_threads = self.brasa.machine["threads"]
        threads = o.threads or ([all_threads, 1] if o.full and all_threads > 1 else [all_threads])
        batches = o.batches or ([1, 8, 32, 100] if o.full else [1, 32])
        names = o.networks or [*SMALL, *LARGE]
        self.cells = [Cell(n, b, t) for n in names for t in threads for b in (batches if n in LARGE else [SMALL_BATCH])]
        self.cells.sort(key=Cell.weight)  # what is long comes last, and gets what time the others left
        self.terminal, self.shown, self.place, self.ends, self.known = sys.stderr.isatty(), False, "", "", {}
        self.end = 0  # on the clock

    def find_torch(self, o):
        if o.no_torch:
            return
        self.python, version = find_torch(o.torch_python)
        if self.python:
            self.torch = version
            self.known = {key_of(row): row["pytorch"]["form"] for row in read_all(self.full_path)
                          if row.get("torch") == version and can_show(row) and row["pytorch"]}
        else:
            print(f"note: Brasa alone: {version}", file=sys.stderr)

    def has_all(self, row):
        """Whether a row is of this program and this processor, whole and, where there is a PyTorch, beside that one."""
        beside = row.get("pytorch") and row.get("torch") == self.torch
        return (maker(row) == (self.brasa.hash, self.brasa.machine["cpu"]) and can_show(row) and not row.get("cut_short")
                and bool(beside or not self.torch))

    def known_form(self, cell):
        return self.known.get(tuple(cell.key().values()))

    def show(self, text):
        if self.terminal:
            sys.stderr.write(f"\r\033[K{self.place} {text}{self.ends}")
            sys.stderr.flush()
            self.shown = True

    def clear(self):
        if self.shown:
            sys.stderr.write("\r\033[K")
            self.shown = False

    def run(self):
        start = time.monotonic()
        self.end = start + self.seconds + GRACE
        self.brasa.end = None if self.full else self.end
        if not self.full and os.path.exists(self.path):
            check_old(self.path)
            os.remove(self.path)
        done = {key_of(row) for row in read_all(self.path) if self.has_all(row)}
        left = [c for c in self.cells if tuple(c.key().values()) not in done]
        if len(left) < len(self.cells):
            print(f"{len(self.cells) - len(left)} of {len(self.cells)} cells are in {self.path}", file=sys.stderr)
        print(terminal_line(COLUMNS).rstrip(), flush=True)
        weights, failed = sum(map(Cell.weight, left)), 0
        for i, cell in enumerate(left):
            passed, rest = time.monotonic() - start, sum(map(Cell.weight, left[i:]))
            expected = self.seconds - passed if not self.full else passed * rest / (weights - rest) if i else 0
            self.place = f"[{i + 1}/{len(left)}]"
            self.ends = f"; about {expected / 60:.0f} min left" if expected > 0 else ""
            failed += not self.measure(cell, max(self.seconds - passed, 0) * cell.weight() / rest)
        print(f"all of it, with versions, kernels and spread: {self.path}")
        return 1 if failed else 0

    def measure(self, cell, seconds):
        """One cell, into the file and on the screen; tells whether all went well."""
        try:
            if not self.full and seconds <= 0:
                raise Failed("no time was left; --minutes or --full gives more")
            row = Measurement(self, cell, seconds).run()
        except Failed as reason:
            self.clear()
            print(f"{cell}: {reason}", file=sys.stderr)
            return False
        append_row(self.path, row)
        self.clear()
        theirs = row["pytorch"]
        print(terminal_line(figures(row), theirs["median_s"] / row["brasa"]["median_s"] if theirs else 0).rstrip(), flush=True)
        missing = ["PyTorch: " + reason for reason in sorted(set(row.get("pytorch_failed", {}).values()))]
        missing += ["cut short: " + row["cut_short"]] if "cut_short" in row else []
        for reason in missing:
            print(f"{cell}: {reason}" + ("; the same command tries it again" if self.full else ""), file=sys.stderr)
        return not missing


def main():
    p = argparse.ArgumentParser(prog="./run bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--full", action="store_true", help="all cells, all forms of PyTorch, no limit of time")
    p.add_argument("--markdown", action="store_true", help="measure nothing: the table of what is in --out")
    p.add_argument("--networks", nargs="+", choices=[*SMALL, *LARGE], metavar="NAME", help="these alone")
    p.add_argument("--batches", nargs="+", type=positive, metavar="N", help=f"of large networks; the small ones have {SMALL_BATCH}")
    p.add_argument("--threads", nargs="+", type=positive, metavar="N")
    p.add_argument("--minutes", type=number_up_to(100000), default=9, help="without --full: the time it may take (9)")
    p.add_argument("--turn", type=number_up_to(3600, 0.001), metavar="SECONDS", help="of one side in one round (2, or 3 with --full)")
    p.add_argument("--out", metavar="FILE", help="JSON lines (bench.jsonl, or bench-full.jsonl, beside the program)")
    p.add_argument("--brasa", default="build/brasa", metavar="PROGRAM", help="(build/brasa)")
    p.add_argument("--torch-python", default=os.environ.get("BRASA_TORCH_PYTHON"), metavar="PYTHON",
                   help="one with torch and torchvision (BRASA_TORCH_PYTHON, or what is on the PATH)")
    p.add_argument("--no-torch", action="store_true", help="Brasa alone")
    o = p.parse_args()
    try:
        if o.markdown:
            rows = read_all(out_path(o))
            fine = [row for row in rows if can_show(row)]
            if len(fine) < len(rows):
                print(f"note: {len(rows) - len(fine)} of {len(rows)} rows in {out_path(o)} cannot be shown", file=sys.stderr)
            print(markdown(pick_rows(fine)), end="")
            return 0
        bench = Bench(o)
        bench.find_torch(o)
        return bench.run()
    except (Failed, OSError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped" + (": the same command goes on from here" if o.full else ""), file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
