#!/usr/bin/env python3
"""The cases of all ops, and the tests of updates, parts and pictures, on this machine's GPU under compute-sanitizer.

    bench/gpu/sanitize.py --seconds 500     memcheck and racecheck, in floats and in 16 bits; again, until it ends with 0

Some ops at a time run in a process of their own, an op with many cases in several, a test program in one or more; --jobs of
them at once. What was covered is kept in --logs/sanitized.txt, a line for each op (or share of its cases, or program), tool and
precision, and is not done again until a source of kernels changes (sources.py lists them by tool); so a limit of time
leaves a list of what is there and what is left. Racecheck looks at our own kernels alone, with cuDNN and cuBLASLt out of the
way, and at each once in a case. Errors that calls of CUDA return are not counted: libraries ask for what may not be there.
Exit codes: 0 all is covered and clean; 1 something was found or did not work; 3 some is left for the next call.
"""
import argparse, contextlib, os, re, shutil, signal, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from sources import INSIDE, KERNELS, ROOT, hash_sources

TOGETHER = 6  # ops in a process, which takes a few seconds to start
HEAVY = {"conv2d": 8, "dense": 3, "batchnorm": 3, "maxpool": 2, "lrn": 2}  # these alone, in so many processes
FINER = {"memcheck": 1, "racecheck": 3}  # times as many: what takes longer is lost otherwise when the time is over
# Whole test programs, and the precisions that they know: None are all.
PROGRAMS = {"test_device_updates": ("bf16",), "test_parts": None, "test_pictures": None}
SHARED = {"test_device_updates": {"racecheck": 14}}  # these in so many processes
MOST_JOBS = 8
FOUND = 86  # exit code of the sanitizer
LEFT = 3
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}
SOURCES = {"memcheck": KERNELS, "racecheck": INSIDE}  # whose change makes it begin anew: races are within a kernel


def find_sanitizer():
    folders = [os.path.dirname(shutil.which("nvcc") or ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]
    return shutil.which("compute-sanitizer") or next(
        (path for path in (os.path.join(f, "compute-sanitizer") for f in folders if f) if os.access(path, os.X_OK)), None)


def list_ops(tests):
    env = {k: v for k, v in os.environ.items() if k != "BRASA_TEST_DEVICE"}
    said = subprocess.run([tests, "kernels"], env=dict(env, BRASA_TEST_OP="list"), capture_output=True, text=True).stdout
    return [line for line in said.splitlines() if re.fullmatch(r"\w+", line)]


def list_units(ops, tool, precision):
    """What is covered by itself: `test_parts`, `conv2d 2/8` (a share of its cases), `relu`; what takes long first."""
    counts = {name: SHARED.get(name, {}).get(tool, 1) for name, known in PROGRAMS.items() if not known or precision in known}
    counts.update({op: HEAVY[op] * FINER[tool] for op in ops if op in HEAVY})
    shares = [f"{name} {i + 1}/{count}" if count > 1 else name for name, count in counts.items() for i in range(count)]
    return shares + [op for op in ops if op not in HEAVY]


def group(units):
    """What a process does."""
    alone = [u for u in units if u in PROGRAMS or " " in u]
    few = [u for u in units if u not in alone]
    return [[u] for u in alone] + [few[i:i + TOGETHER] for i in range(0, len(few), TOGETHER)]


def count_cores():
    return len(os.sched_getaffinity(0))


class Job:
    """Some units under a tool, in a process."""
    running, stopping, lock = set(), False, threading.Lock()

    def __init__(self, o, tool, precision, units):
        self.o, self.tool, self.precision, self.units = o, tool, precision, units
        name = re.sub(r"\W", "-", units[0]) + (f"-and-{len(units) - 1}" if len(units) > 1 else "")
        self.log = os.path.join(o.logs, f"sanitize-{tool}-{precision}-{name}.log")
        self.seconds = 0.0  # that it took

    def command(self):
        options = ["--tool", self.tool, "--error-exitcode", str(FOUND), "--report-api-errors", "no", "--show-backtrace", "no"]
        if self.tool == "racecheck" and self.o.workers:
            # Without that it starts as many as the machine has threads, which also counts those that are not ours.
            options += ["--racecheck-num-workers", str(self.o.workers)]
        name = self.units[0].split()[0]
        program = [os.path.join(os.path.dirname(self.o.tests), name), "-v"]
        return [self.o.sanitizer, *options, *(program if name in PROGRAMS else [self.o.tests, "-v", "kernels"])]

    def environment(self):
        env = dict(os.environ, BRASA_TEST_DEVICE="cuda", BRASA_TEST_PRECISION=self.precision, BRASA_TUNE="off")
        for name in ("BRASA_TEST_OP", "BRASA_TEST_SHARE"):
            env.pop(name, None)
        name, _, share = self.units[0].partition(" ")
        if name not in PROGRAMS:
            env["BRASA_TEST_OP"] = ",".join([name, *self.units[1:]])
        if share:
            env["BRASA_TEST_SHARE"] = share
        if self.tool == "racecheck":
            env.update(BRASA_CUDNN="off", BRASA_CUBLASLT="off", BRASA_TEST_ONCE="yes")
        return env

    def run(self, end):
        """(Units that are clean, why the others are not or None: there was no time.)"""
        began = time.monotonic()
        if end - began < self.o.least:
            return [], None
        with open(self.log, "wb") as log:
            with Job.lock:
                if Job.stopping:
                    return [], None
                process = subprocess.Popen(self.command(), env=self.environment(), stdout=log, stderr=subprocess.STDOUT,
                                           start_new_session=True)
                Job.running.add(process)
            try:
                code = process.wait(end - began if self.o.seconds else None)
            except subprocess.TimeoutExpired:
                Job.stop(process)
                process.wait()
                code = None
            with Job.lock:
                Job.running.discard(process)
        self.seconds = time.monotonic() - began
        with open(self.log, errors="replace") as log:
            said = log.read()
        if code == 0 and CLEAN[self.tool] in said:
            return self.units, None
        if code is None:
            return self.ended(said), findings(said)
        return [], findings(said) or (f"{self.tool} did not look at it" if code == 0 else f"ended with {code}: {last(said)}")

    def ended(self, said):
        """Of a process that was stopped: ops whose last case is over, because one of another op has ended after it."""
        seen = []
        for line in said.splitlines():
            word = re.match(r"ok +kernels (\w+) ", line)
            if word and (not seen or seen[-1] != word.group(1)):
                seen.append(word.group(1))
        return [] if findings(said) or len(self.units) == 1 else seen[:-1]

    @staticmethod
    def stop(process):
        """With the program that is looked at."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    @staticmethod
    def stop_all():
        with Job.lock:
            Job.stopping = True
            for process in Job.running:
                Job.stop(process)


def findings(said):
    """The first thing that was found, with the case that it was found in or before; None: nothing."""
    lines = said.splitlines()
    bad = re.compile(r"========= (Invalid|Error|Misaligned|Race|Warning: Race|Program hit|Fatal|Uninitialized|Leaked)|FAILED ")
    for i, line in enumerate(lines):
        if bad.match(line):
            case = next((re.sub(r"^\w+ +", "", later) for later in lines[i:] if re.match(r"(ok|FAILED) +\w+", later)), "?")
            return f"{line.strip('= ')}, case {case}"
    return None


def last(said):
    return (said.strip().splitlines() or ["nothing was said"])[-1][:200]


def read_covered(path, sources):
    """What a file lists of the tools whose sources are still the same; it is written anew without the rest."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        lines = []
    heads = [f"sources {tool} {found}" for tool, found in sorted(sources.items())]
    known = [tool for tool, head in zip(sorted(sources), heads) if head in lines]
    covered = [line for line in lines if line.split()[0] in known]
    with open(path + ".new", "w") as file:
        file.writelines(line + "\n" for line in heads + covered)
    os.replace(path + ".new", path)  # hours of a GPU are in it
    return set(covered)


def count_workers(o):
    """Threads of racecheck that look for hazards, for each job; 0: this sanitizer has no such option."""
    said = subprocess.run([o.sanitizer, "--help"], capture_output=True, text=True).stdout
    return max(1, count_cores() // (2 * o.jobs)) if "--racecheck-num-workers" in said else 0


def parse_options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=0, help="the time it may take (no limit)")
    p.add_argument("--jobs", type=int, default=min(MOST_JOBS, max(1, count_cores() // 2)), metavar="N",
                   help=f"processes at once (half of the cores, at most {MOST_JOBS}: here %(default)s)")
    p.add_argument("--tools", nargs="+", choices=sorted(CLEAN), default=sorted(CLEAN))
    p.add_argument("--precisions", nargs="+", choices=("f32", "tf32", "bf16"), default=["f32", "bf16"])
    p.add_argument("--logs", default=os.path.join(ROOT, "build"), metavar="FOLDER", help="(build)")
    p.add_argument("--tests", default=os.path.join(ROOT, "build", "tests", "test_ops"), help=argparse.SUPPRESS)
    p.add_argument("--sources", help=argparse.SUPPRESS)
    p.add_argument("--least", type=float, default=20, metavar="SECONDS", help="with less left no process is started (20)")
    p.add_argument("--sanitizer", default=find_sanitizer(), metavar="PROGRAM")
    o = p.parse_args()
    if o.jobs < 1:
        p.error(f"--jobs: expected 1 or more, got {o.jobs}")
    return o


def find_missing(o, ops):
    """What it cannot begin without, or None."""
    missing = [name for name in PROGRAMS if not os.access(os.path.join(os.path.dirname(o.tests), name), os.X_OK)]
    if not ops:
        return f"{o.tests} lists no ops"
    return f"{', '.join(missing)}: not beside {o.tests}; ninja builds it" if missing else None


def run_jobs(o, jobs, end, kept):
    """(How many failed, the lines of what is left); tells of each job when it is over."""
    failed, left = 0, []
    with ThreadPoolExecutor(o.jobs) as pool:
        waiting = {pool.submit(job.run, end): job for job in jobs}
        try:
            for future in as_completed(waiting):
                job, (clean, why) = waiting[future], future.result()
                name = f"{job.tool} {job.precision}"
                others = [unit for unit in job.units if unit not in clean]
                with open(kept, "a") as file:
                    file.writelines(f"{name} {unit}\n" for unit in clean)
                if why:
                    failed += 1
                    print(f"{name} {', '.join(others)}: FAILED: {why}; see {job.log}", flush=True)
                else:
                    left += [f"{name} {unit}" for unit in others]
                if clean:
                    print(f"{name} {', '.join(clean)}: clean, {job.seconds:.0f} s", flush=True)
        except BaseException:  # a key, a signal, a disk that is full: nothing goes on behind it
            for future in waiting:
                future.cancel()
            Job.stop_all()
            raise
    return failed, left


def main():
    o = parse_options()
    end = time.monotonic() + o.seconds if o.seconds else float("inf")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not o.sanitizer:
        print("sanitize.py: there is no compute-sanitizer here; it comes with CUDA's toolkit", file=sys.stderr)
        return 1
    ops = list_ops(o.tests)
    missing = find_missing(o, ops)
    if missing:
        print(f"sanitize.py: {missing}", file=sys.stderr)
        return 1
    o.workers = count_workers(o)
    os.makedirs(o.logs, exist_ok=True)
    kept = os.path.join(o.logs, "sanitized.txt")
    covered = read_covered(kept, {tool: o.sources or hash_sources(places) for tool, places in SOURCES.items()})
    jobs, total = [], 0
    for tool in o.tools:
        for precision in o.precisions:
            units = list_units(ops, tool, precision)
            total += len(units)
            jobs += [Job(o, tool, precision, some)
                     for some in group([u for u in units if f"{tool} {precision} {u}" not in covered])]
    failed, left = run_jobs(o, jobs, end, kept)
    for line in sorted(left):
        print(f"left: {line}")
    print(f"sanitizer: {total - len(left)} of {total} looked at, {failed} processes with findings, {len(left)} left")
    return 1 if failed else LEFT if left else 0


if __name__ == "__main__":
    sys.exit(main())
