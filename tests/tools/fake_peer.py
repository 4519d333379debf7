"""A runner that computes nothing: it prints the lines of a peer, and fails in the way that its variant says.

    python3 tests/tools/fake_peer.py EXPERIMENT.json

It reads "mode", "variant", "epochs", "device", "profile" and, in check mode, "graph" (for the nodes' names), all of which
may be missing.
Variants:
    good            what a peer prints if all goes well; the default
    slow            as good, and every epoch takes "fake_s" seconds (0.2)
    refused         says why it cannot do it, and exits with 0
    failed          an error that the runner caught, exit 1;    memory_failed   the same, for want of memory
    exit3           all of its lines, then exit status 3
    early           exits with 0 after the first lines;         nothing         exits with 0, no line at all
    garbage         text between the lines, and bytes that are no UTF-8
    halfline        ends in the middle of a line
    nan             a loss that is no number
    only_done       nothing but that it is done;                one_epoch       done after the first epoch
    few_images      7 images in the second epoch;               few_tests       5 of them tested
    again           the first epoch twice;                      after_done      an epoch behind "done"
    untested        no evaluation of the second epoch;          twice_tested    two of it
    accuracy        3.5, of the second epoch;                   no_accuracy     none of it
    diverged        a loss that is null;                        no_time         an epoch of 0 seconds
    flood           50 MB of lines
    stderr          as good, with 1 MB on standard error
    hang            prints the first lines, then sleeps;        silent          sleeps, no line at all
    stubborn        as hang, and ignores SIGTERM
    eats            allocates without end, up to "fake_bytes" (8 GB), touching every page
    crash           SIGSEGV;                                    killed          SIGKILL, by itself
    children        as good, with ten short-lived children and one that would stay behind for a minute
"""
import json, os, signal, sys, time

GARBAGE = b"Traceback (most recent call last):\n{\"event\": \"epoch\", \"at\": \n\xff\xfe\0 [1, 2\n12\n\"text\"\n"


def say(event, **more):
    os.write(1, (json.dumps({"event": event, "at": time.monotonic(), **more}) + "\n").encode())


def sleep():
    while True:
        time.sleep(60)


def eat(limit):
    held = []
    while sum(map(len, held)) < limit:
        held.append(bytearray(os.urandom(1)) * (16 << 20))  # not zero, so that every page is really there
    sleep()


def check(e):
    nodes = [{"name": "logits", "shape": [3]}]
    if "graph" in e:
        with open(e["graph"]) as file:
            nodes = json.load(file)["nodes"]
    for step in range(e.get("steps", 3)):
        say("batch", step=step, sum=12.5, labels=[0, 1])
        for node in nodes if step == 0 else []:
            say("output", node=node["name"], shape=node["shape"], mean=0.5, rms=1.0)
        say("loss", step=step, loss=1.5 - step / 8)
        if step in (0, 2):
            say("param", step=step, name="logits.weight", rms=0.1, mean=0.0)


# What a variant changes in the lines of the second epoch and its evaluation.
CHANGED = {"few_images": {"images": 7}, "again": {"epoch": 1}, "diverged": {"loss": None}, "no_time": {"seconds": 0}}
TESTED = {"few_tests": {"images": 5}, "accuracy": {"accuracy": 3.5}, "no_accuracy": {"accuracy": None}}


def train(e, pause, variant):
    say("phase", phase="load", epoch=0)
    say("phase", phase="first_step", epoch=0)
    say("first_step", seconds=0.01)
    for epoch in range(1, e.get("epochs", 2) + 1):
        say("phase", phase="epoch", epoch=epoch)
        time.sleep(pause)
        more = {} if e.get("device", "cpu") == "cpu" else {"device_peak": 1000000 * epoch}
        line = {"epoch": epoch, "seconds": 0.02 * epoch, "images": 48, "steps": 12, "loss": 1 / epoch, "accuracy": None}
        say("epoch", **{**line, **more, **(CHANGED.get(variant, {}) if epoch == 2 else {})})
        say("phase", phase="evaluation", epoch=epoch)
        line = {"epoch": epoch, "seconds": 0.01, "images": 12, "accuracy": 0.75, "loss": 0.5}
        for _ in range({"untested": 0, "twice_tested": 2}.get(variant, 1) if epoch == 2 else 1):
            say("evaluation", **{**line, **(TESTED.get(variant, {}) if epoch == 2 else {})})
        if variant == "one_epoch":
            break
    if e.get("profile"):
        say("phase", phase="profile", epoch=0)
        say("profile", steps=4, seconds=0.5)
        say("function", name="multiply", seconds=0.3, calls=8)
        say("function", name="add", seconds=0.2, calls=4)


def fault(variant, e):
    """What happens in the place of the rest; returns where the rest follows."""
    if variant == "refused":
        say("refused", why="no such device here")
        sys.exit(0)
    if variant in ("failed", "memory_failed"):
        say("failed", why="it did not work", kind="memory" if variant == "memory_failed" else "error")
        sys.exit(1)
    if variant == "early":
        sys.exit(0)
    if variant == "only_done":
        say("done")
        sys.exit(0)
    if variant == "garbage":
        os.write(1, GARBAGE)
        sys.exit(0)
    if variant == "halfline":
        os.write(1, b'{"event": "epoch", "epoch": 1, "sec')
        sys.exit(0)
    if variant == "nan":
        os.write(1, b'{"event": "epoch", "at": 1, "epoch": 1, "seconds": 1, "images": 48, "steps": 12, '
                    b'"loss": NaN}\n')
    if variant == "flood":
        line = b'{"event": "phase", "at": 1, "phase": "epoch", "epoch": 1}\n' * 1000
        for _ in range(50_000_000 // len(line)):
            os.write(1, line)
    if variant == "stderr":
        os.write(2, b"a warning that nobody reads, and \xff\n" * 30000)
    if variant == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if variant in ("hang", "stubborn"):
        sleep()
    if variant == "eats":
        eat(e.get("fake_bytes", 8 << 30))
    if variant in ("crash", "killed"):
        os.kill(os.getpid(), signal.SIGSEGV if variant == "crash" else signal.SIGKILL)
    if variant == "children":
        import subprocess  # takes longer than all the rest
        for _ in range(10):
            subprocess.run(["sleep", "0.04"])
        subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    with open(sys.argv[1]) as file:
        e = json.load(file)
    variant = e.get("variant") or "good"
    if variant == "silent":
        sleep()
    if variant == "nothing":
        sys.exit(0)
    say("start")
    say("imported", framework="Fake", version="1.0", python=sys.version.split()[0],
        detail={"threads": e.get("threads", 1)})
    if variant != "refused":
        say("built", parameters=100, trainable=100, layers=1)
    fault(variant, e)
    if e.get("mode") == "check":
        check(e)
    else:
        train(e, e.get("fake_s", 0.2) if variant == "slow" else 0, variant)
    say("done")
    if variant == "after_done":
        say("epoch", epoch=3, seconds=0.02, images=48, steps=12, loss=1, accuracy=None)
    sys.exit(3 if variant == "exit3" else 0)


if __name__ == "__main__":
    main()
