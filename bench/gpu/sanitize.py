#!/usr/bin/env python3
"""The cases of all ops on this machine's GPU under compute-sanitizer.

    bench/gpu/sanitize.py --seconds 500     memcheck and racecheck, in floats and in 16 bits; again, until it ends with 0

Some ops at a time run in a process of their own. What was covered is kept in --logs/sanitized.txt, a line for each op, tool
and precision, and is not done again until a source changes; so a limit of time leaves a list of what is there and what is
left. Racecheck looks at our own kernels alone, with cuDNN and cuBLASLt out of the way. Errors that calls of CUDA return are not counted: libraries
ask for what may not be there. Exit codes: 0 all is covered and clean; 1 something was found or did not work; 3 ops are left
for the next call.
"""
import argparse, os, re, shutil, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from sources import ROOT, hash_sources

TOGETHER = 6  # ops in a process, which takes a few seconds to start
HEAVY = ("conv2d", "dense", "batchnorm", "maxpool", "lrn")  # these alone
FOUND = 86  # exit code of the sanitizer
LEFT = 3
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}


def find_sanitizer():
    folders = [os.path.dirname(shutil.which("nvcc") or ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]
    return shutil.which("compute-sanitizer") or next(
        (path for path in (os.path.join(f, "compute-sanitizer") for f in folders if f) if os.access(path, os.X_OK)), None)


def list_ops(tests):
    env = {k: v for k, v in os.environ.items() if k != "BRASA_TEST_DEVICE"}
    said = subprocess.run([tests, "kernels"], env=dict(env, BRASA_TEST_OP="list"), capture_output=True, text=True).stdout
    return [line for line in said.splitlines() if re.fullmatch(r"\w+", line)]


def group(ops):
    few = [op for op in ops if op not in HEAVY]
    return [[op] for op in ops if op in HEAVY] + [few[i:i + TOGETHER] for i in range(0, len(few), TOGETHER)]


class Job:
    def __init__(self, o, tool, precision, ops, number):
        self.o, self.tool, self.precision, self.ops = o, tool, precision, ops
        self.log = os.path.join(o.logs, f"sanitize-{tool}-{precision}-{number}.log")

    def command(self):
        return [self.o.sanitizer, "--tool", self.tool, "--error-exitcode", str(FOUND), "--report-api-errors", "no", self.o.tests,
                "-v", "kernels"]

    def environment(self):
        env = dict(os.environ, BRASA_TEST_DEVICE="cuda", BRASA_TEST_PRECISION=self.precision, BRASA_TEST_OP=",".join(self.ops),
                   BRASA_TUNE="off")
        if self.tool == "racecheck":
            env.update(BRASA_CUDNN="off", BRASA_CUBLASLT="off")
        return env

    def run(self, seconds):
        """(Ops that are clean, why the others are not or None: there was no time.)"""
        with open(self.log, "wb") as log:
            process = subprocess.Popen(self.command(), env=self.environment(), stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the program that is looked at
                process.wait()
                code = None
        with open(self.log, errors="replace") as log:
            said = log.read()
        if code == 0 and CLEAN[self.tool] in said:
            return self.ops, None
        if code is None:
            return self.ended(said), None if not findings(said) else findings(said)
        return [], findings(said) or (f"{self.tool} did not look at it" if code == 0 else f"ended with {code}: {last(said)}")

    def ended(self, said):
        """Of a process that was stopped: ops whose last case is over, because one of another op has ended after it."""
        seen = []
        for line in said.splitlines():
            word = re.match(r"ok +kernels (\w+) ", line)
            if word and (not seen or seen[-1] != word.group(1)):
                seen.append(word.group(1))
        return [] if findings(said) else seen[:-1]


def findings(said):
    """The first thing that was found, with the case that it was found in or before; None: nothing."""
    lines = said.splitlines()
    bad = re.compile(r"========= (Invalid|Error|Misaligned|Race|Warning: Race|Program hit|Fatal|Uninitialized|Leaked)|FAILED ")
    for i, line in enumerate(lines):
        if bad.match(line):
            case = next((re.sub(r"^\w+ +", "", later) for later in lines[i:] if re.match(r"(ok|FAILED) +kernels ", later)), "?")
            return f"{line.strip('= ')}, case {case}"
    return None


def last(said):
    return (said.strip().splitlines() or ["nothing was said"])[-1][:200]


def read_covered(path, sources):
    """What a file lists behind the line of its sources; it begins anew where these are others."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        lines = []
    if lines[:1] == [f"sources {sources}"]:
        return set(lines[1:])
    with open(path, "w") as file:
        file.write(f"sources {sources}\n")
    return set()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=0, help="the time it may take (no limit)")
    p.add_argument("--tools", nargs="+", choices=sorted(CLEAN), default=sorted(CLEAN))
    p.add_argument("--precisions", nargs="+", choices=("f32", "tf32", "bf16"), default=["f32", "bf16"])
    p.add_argument("--logs", default=os.path.join(ROOT, "build"), metavar="FOLDER", help="(build)")
    p.add_argument("--tests", default=os.path.join(ROOT, "build", "tests", "test_ops"), help=argparse.SUPPRESS)
    p.add_argument("--sources", default=hash_sources(), help=argparse.SUPPRESS)
    p.add_argument("--least", type=float, default=20, metavar="SECONDS", help="with less left no process is started (20)")
    p.add_argument("--sanitizer", default=find_sanitizer(), metavar="PROGRAM")
    o = p.parse_args()
    end = time.monotonic() + o.seconds if o.seconds else float("inf")
    if not o.sanitizer:
        print("sanitize.py: there is no compute-sanitizer here; it comes with CUDA's toolkit", file=sys.stderr)
        return 1
    os.makedirs(o.logs, exist_ok=True)
    kept = os.path.join(o.logs, "sanitized.txt")
    covered, failed, left = read_covered(kept, o.sources), 0, []
    ops = list_ops(o.tests)
    if not ops:
        print(f"sanitize.py: {o.tests} lists no ops", file=sys.stderr)
        return 1
    for tool in o.tools:
        for precision in o.precisions:
            todo = [op for op in ops if f"{tool} {precision} {op}" not in covered]
            for number, some in enumerate(group(todo)):
                if end - time.monotonic() < o.least:
                    left += [f"{tool} {precision} {op}" for op in some]
                    continue
                began = time.monotonic()
                clean, why = Job(o, tool, precision, some, number).run(end - began if o.seconds else None)
                with open(kept, "a") as file:
                    file.writelines(f"{tool} {precision} {op}\n" for op in clean)
                others = [op for op in some if op not in clean]
                if why:
                    failed += 1
                    print(f"{tool} {precision} {' '.join(others)}: FAILED: {why}", flush=True)
                else:
                    left += [f"{tool} {precision} {op}" for op in others]
                if clean:
                    print(f"{tool} {precision} {' '.join(clean)}: clean, {time.monotonic() - began:.0f} s", flush=True)
    for line in left:
        print(f"left: {line}")
    print(f"sanitizer: {len(ops) * len(o.tools) * len(o.precisions) - len(left)} of "
          f"{len(ops) * len(o.tools) * len(o.precisions)} looked at, {failed} with findings, {len(left)} left")
    return 1 if failed else LEFT if left else 0


if __name__ == "__main__":
    sys.exit(main())
