"""Writes first files for fuzz_safetensors.c into a folder: whole ones for its network, and some that are wrong."""
import json, os, struct, sys

WEIGHTS = {"a.weight": [2, 1, 1, 1], "a.bias": [2], "n.weight": [2], "n.bias": [2], "b.weight": [2, 8], "b.bias": [2],
           "n.running_mean": [2], "n.running_var": [2]}
TRAINED = [name for name in WEIGHTS if "running" not in name]
BYTES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8}


def made(tensors, metadata=None):
    """A file of (name, type, shape)."""
    header, end = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, kind, shape in tensors:
        begin, count = end, 1
        for size in shape:
            count *= size
        end += count * BYTES[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(i % 7 for i in range(end))


def seeds():
    weights = [(name, "F32", shape) for name, shape in WEIGHTS.items()]
    tracked = [("n.num_batches_tracked", "I64", [])]
    slots = [(name + "/momentum", "F32", WEIGHTS[name]) for name in TRAINED] + [("steps", "I64", [])]
    yield "weights", made(weights)
    yield "torch", made(tracked + weights, {"format": "pt"})
    notes = {"model": "a.net", "network": "input 1 2 2\n", "dialect": "torch", "classes": '["a","\u00e4"]', "transform": ""}
    yield "notes", made(weights, {"brasa." + key: text for key, text in notes.items()})
    yield "checkpoint", made(weights + slots)
    for kind in ("F64", "F16", "BF16"):
        yield kind.lower(), made([(name, kind, shape) for name, _, shape in weights])
    yield "missing", made(weights[2:])
    yield "unknown", made(weights + [("c \u00e4\U0001f600", "F32", [3, 0]), ("d", "I64", [1])])
    yield "shapes", made([(name, kind, shape[::-1]) for name, kind, shape in weights])
    yield "empty", made([])
    yield "hole", made(weights) + b"0123"
    yield "short", made(weights)[:-1]


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, data in seeds():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)
