"""What a program was made of, as a short text: figures and proofs of other sources are of another program."""
import hashlib, os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALL = ("CMakeLists.txt", "cmake", "cli", "include", "src")
# What decides which kernels run with which arguments; the rest says on what and when.
KERNELS = ("CMakeLists.txt", "cmake", "src/backend", "src/core", "src/graph", "src/ops")
# What our own kernels do inside, and on which cases.
INSIDE = ("src/ops", "src/backend/cuda/cuda.cuh", "src/backend/cuda/elementwise.cuh", "src/backend/cuda/many.cuh",
          "src/backend/cuda/quads.cuh", "src/backend/cuda/rows.cuh", "src/backend/cuda/totals.cuh")


def hash_sources(places=ALL):
    """Of whatever is compiled there."""
    h = hashlib.sha256()
    for top in places:
        path = os.path.join(ROOT, top)
        files = [path] if os.path.isfile(path) else [os.path.join(f, n) for f, _, names in os.walk(path) for n in names]
        for name in sorted(files):
            with open(name, "rb") as file:
                h.update(os.path.relpath(name, ROOT).encode() + b"\0" + file.read())
    return h.hexdigest()[:16]
