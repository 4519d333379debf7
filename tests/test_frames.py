"""The way from `brasa train` to a CPU kernel, without inlining: at most 9 frames in at most 5 files."""
import os
import shutil
import subprocess
import sys
import tempfile

program = os.path.join(os.environ["BRASA_BUILD"], "tests", "frames")
if not os.path.exists(program) or not shutil.which("addr2line"):
    print("skipped: there is no addr2line, or no program with frames")
    sys.exit(77)
passed = failed = 0


def check(good, what):
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    if not good:
        print("test_frames.py:", what)


with tempfile.TemporaryDirectory() as folder:
    stacks = os.path.join(folder, "stacks")
    done = subprocess.run([program, "train", "letter_mlp", "--data", "synth:letter,n=300", "--split", "70/30",
                           "--epochs", "1", "--threads", "1", "--out", os.path.join(folder, "run")],
                          env=dict(os.environ, FRAMES=stacks), capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, done.stderr)
    lines = [line.split() for line in open(stacks)] if os.path.exists(stacks) else []
trained = 0
for addresses in lines:
    out = subprocess.run(["addr2line", "-f", "-e", program] + addresses, capture_output=True, text=True).stdout.split("\n")
    stack = [(out[i], out[i + 1].split(":")[0]) for i in range(0, 2 * len(addresses), 2)]
    names = [name for name, _ in stack]
    if "train_epoch" not in names or "main" not in names:
        continue
    way = stack[names.index("program_run") - 1:names.index("main") + 1]  # what a kernel calls is its own business
    told = f"{len(way)} frames: " + " <- ".join(f"{name} ({os.path.basename(path)})" for name, path in way)
    print(told)
    trained += 1
    check(len(way) <= 9, told)
    check(len({path for _, path in way}) <= 5, told)
    check(way[2][0] == "session_step" and way[-2][0] == "run_train", told)
check(trained > 0, f"no step of training was seen in {len(lines)} stacks")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
