"""What a program was made of, as a short text: figures and proofs of other sources are of another program."""
import hashlib, os, re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALL = ("CMakeLists.txt", "cmake", "cli", "include", "src")
# What decides which kernels run with which arguments; the rest says on what and when.
KERNELS = ("CMakeLists.txt", "cmake", "src/device", "src/core", "src/graph", "src/ops")
# What our own kernels do inside, and on which cases.
INSIDE = ("src/ops", "src/device/cuda/cuda.cuh", "src/device/cuda/elementwise.cuh", "src/device/cuda/many.cuh",
          "src/device/cuda/quads.cuh", "src/device/cuda/rows.cuh", "src/device/cuda/totals.cuh")


CODE = (".c", ".h", ".cu", ".cuh", ".def")
# Words in quotes stay; of the rest comments, and whether there is one blank or line break or several, do not count.
QUOTED = re.compile(r'''("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/''', re.DOTALL)
BLANKS = re.compile(r'''("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(\s*\n\s*)|\s+''')


def strip_code(text):
    """What a compiler reads of C: no comments, and lines as they are, for the preprocessor."""
    text = QUOTED.sub(lambda found: found.group(1) or " ", text)
    return BLANKS.sub(lambda found: found.group(1) or ("\n" if found.group(2) else " "), text).strip()


def hash_sources(places=ALL, root=ROOT):
    """Of whatever is compiled there; what is said about it does not count."""
    h = hashlib.sha256()
    for top in places:
        path = os.path.join(root, top)
        files = [path] if os.path.isfile(path) else [os.path.join(f, n) for f, _, names in os.walk(path) for n in names]
        for name in sorted(files):
            with open(name, errors="surrogateescape") as file:
                text = file.read()
            text = strip_code(text) if name.endswith(CODE) else text
            h.update(os.path.relpath(name, root).encode() + b"\0" + text.encode(errors="surrogateescape"))
    return h.hexdigest()[:16]
