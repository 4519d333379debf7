"""What a program was made of, as a short text: figures and proofs of other sources are of another program."""
import hashlib, os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def hash_sources(without=()):
    """Of whatever is compiled, but for these folders."""
    h = hashlib.sha256()
    for top in ("CMakeLists.txt", "cmake", "cli", "include", "src"):
        path = os.path.join(ROOT, top)
        files = [path] if os.path.isfile(path) else [os.path.join(f, n) for f, _, names in os.walk(path) for n in names]
        for name in sorted(files):
            relative = os.path.relpath(name, ROOT)
            if relative.startswith(tuple(folder + os.sep for folder in without)):
                continue
            with open(name, "rb") as file:
                h.update(relative.encode() + b"\0" + file.read())
    return h.hexdigest()[:16]
