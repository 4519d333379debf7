"""What tests written in Python share: where the program is, checks, and their count as the last line."""
import os, sys

SOURCE = os.environ.get("BRASA_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("BRASA_BUILD", os.path.join(SOURCE, "build"))
BRASA = os.path.join(BUILD, "brasa")
DATA = os.environ.get("BRASA_DATA", "")  # a folder of real data

passed = failed = skipped = 0


def check(name, ok, said=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED: %s\n%s" % (name, str(said)[:2000]), flush=True)


def skip(name, why, count=1):
    global skipped
    skipped += count
    print("skipped %s: %s" % (name, why), flush=True)


def finish():
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    sys.exit(failed > 0)
