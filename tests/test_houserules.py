"""The house's rules, by reading its files: who may include whom, that nobody asks which device there is, and sizes.

What breaks a rule today stands in a list of exceptions here, which only gets shorter: one that is gone must go, too."""
import os, re, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import SOURCE as ROOT, check, finish

FOLDERS = ("include", "src", "cli", "lab", "tests", "examples", "bench", "fuzz")
MOST_LINES, MOST_OF_FUNCTION, MOST_OF_HEADER = 700, 70, 560

# In the order of docs/architecture.md: a room includes headers of the rooms before it.
ROOMS = ("core", "tune", "graph", "ops", "device", "models", "session", "data", "train", "report", "lab")

LONG_FILES = {"lab/peers/runner.py"}
LONG_FUNCTIONS = set()
# graph/ and ops/ know each other's types; kernels are the ops', and devices' headers are what kernels agree on.
UPWARDS = {("graph", "ops"), ("graph", "device"), ("ops", "device"), ("session", "train"), ("session", "data"),
           ("train", "report")}
OF_PRODUCT = set()

WHETHER = re.compile(r"(ctx|s|t|u|p)->device *(\)|&&|\|\||\?|==|!=)|->device *\?|if \((.*->)?device\)")
NAMES = re.compile(r"str(n?cmp|str|n?casecmp)\([^;]*\"(cpu|cuda)\b")
VENDORS = re.compile(r"#include [<\"](cuda|cudnn|cublas|oneapi/|dnnl)")
OF_VENDOR = re.compile(r"src/device/\w+/|src/ops/.*_(cuda|cudnn|cublaslt|onednn)\.")

def files():
    for folder in FOLDERS:
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [f for f in folders if not f.startswith((".", "__"))]
            for name in names:
                if re.search(r"\.(c|h|cu|cuh|py|sh)$", name):
                    with open(os.path.join(at, name), encoding="utf-8", errors="replace") as f:
                        yield os.path.relpath(os.path.join(at, name), ROOT), f.read()

def longest_function(text):
    longest, start = 0, None
    for i, line in enumerate(text.split("\n")):
        if line == "{":
            start = i
        elif line.startswith("}") and start is not None:
            longest, start = max(longest, i - start + 1), None
    return longest

def tests_a_device(text):
    """A variable that holds the device, and is asked whether there is one."""
    return any(re.search(rf"if \(!?{v}\)|[(!& |=]{v} (\?|&&|\|\||[!=]=)|!{v} ", text)
               for v in re.findall(r"\bdevice \*(\w+) = [^;]*->device;", text))

read = dict(files())
code = {f: t for f, t in read.items() if f.endswith((".c", ".h", ".cu", ".cuh"))}

def none(what, found, known=frozenset()):
    check(what, not set(found) - set(known), sorted(set(found) - set(known)))
    check(what + ": each exception is one still", not set(known) - set(found), sorted(set(known) - set(found)))

asked = {f: t for f, t in code.items() if f.startswith(("src/", "cli/")) and not f.startswith(("src/device/", "src/lab/"))}
none("nobody asks whether there is a device", [f for f, t in asked.items() if WHETHER.search(t) or tests_a_device(t)])
none("nobody compares devices' names", [f for f, t in asked.items() if NAMES.search(t)], {"cli/lab_install.c", "src/data/memory.c"})
none("vendors' headers are in their own files", [f for f, t in code.items() if f.startswith(("src/", "cli/")) and
                                                 VENDORS.search(t) and not OF_VENDOR.match(f)])
none("a room includes those before it", {
    (room, other) for f, t in code.items() for room in re.findall(r"^src/(\w+)/", f)
    for other in re.findall(r"#include \"(\w+)/", t)
    if room in ROOMS and other in ROOMS and ROOMS.index(other) > ROOMS.index(room)}, UPWARDS)
none(f"no file has more than {MOST_LINES} lines", [f for f, t in read.items() if t.count("\n") > MOST_LINES], LONG_FILES)
none(f"no function has more than {MOST_OF_FUNCTION} lines",
     [f for f, t in code.items() if longest_function(t) > MOST_OF_FUNCTION], LONG_FUNCTIONS)
check("the installed header is short enough", read["include/brasa.h"].count("\n") <= MOST_OF_HEADER)
none("no test includes a .c file of the product",
     [f for f, t in code.items() if f.startswith("tests/") and re.search(r"#include \"[^\"]*\.c\"", t)], OF_PRODUCT)
finish()
