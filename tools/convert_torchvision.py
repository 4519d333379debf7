#!/usr/bin/env python3
"""Weights between PyTorch and Brasa: a state dict (.pth or .pt) to safetensors, and back.

    convert_torchvision.py resnet50.pth resnet50.safetensors
    convert_torchvision.py resnet50.safetensors resnet50.pth
    convert_torchvision.py --model resnet50 start.safetensors    # torchvision's network with its initial weights

Names and shapes stay as they are, and so do float types; whole numbers and truth values become I64. Needs PyTorch and
numpy (torchvision for --model), not the safetensors package. A state dict is read with weights_only: nothing in the
file is executed. The new file appears under its name only when all of it is written.
"""
import argparse, json, os, pickle, struct, sys, warnings

import numpy
import torch

# BF16, which numpy does not have, passes through numpy as its bits.
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
NAMES = {kind: name for name, kind in TYPES.items()}
RAW = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<i2", "I64": "<i8"}
MOST_HEADER = 16 << 20  # bytes; Brasa reads no larger ones


def array_of(tensor):
    """A tensor as (type's name, numpy array of its elements in plain order)."""
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.int64)
    name = NAMES.get(tensor.dtype)
    if name is None:
        raise ValueError("the type %s cannot be converted" % tensor.dtype)
    bits = tensor.contiguous().view(torch.int16) if name == "BF16" else tensor.contiguous()
    return name, bits.numpy().astype(RAW[name], copy=False)


def replace_file(path, write):
    """Calls write(file) on a temporary file in the same folder, and puts that in the place of `path`."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def write_safetensors(path, state):
    """A dict of tensors as a safetensors file; wide elements come first, so that all are aligned."""
    arrays = {name: array_of(tensor) for name, tensor in state.items()}
    order = sorted(arrays, key=lambda name: -arrays[name][1].itemsize)  # a stable sort
    places, end = {}, 0
    for name in order:
        places[name] = [end, end + arrays[name][1].nbytes]
        end = places[name][1]
    header = {"__metadata__": {"format": "pt"}}
    for name, (kind, array) in arrays.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places[name]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)

    def write(file):
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(arrays[name][1].tobytes())

    replace_file(path, write)


def read_safetensors(path):
    """A safetensors file as a dict of tensors."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else size
        if length > min(size - 8, MOST_HEADER):
            raise ValueError("not a safetensors file")
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        state, begin, data = {}, 8 + length, size - 8 - length
        for name, entry in header.items():
            kind, shape, (first, last) = entry["dtype"], entry["shape"], entry["data_offsets"]
            if kind not in TYPES:
                raise ValueError("'%s': the type %s cannot be converted" % (name, kind))
            count = 1
            for dim in shape:
                count *= dim
            if not 0 <= first <= last <= data or last - first != count * numpy.dtype(RAW[kind]).itemsize:
                raise ValueError("'%s': the offsets do not fit shape and file" % name)
            file.seek(begin + first)
            array = numpy.frombuffer(bytearray(file.read(last - first)), RAW[kind]).reshape(shape)
            tensor = torch.from_numpy(array.astype(RAW[kind].replace("<", "="), copy=False))
            state[name] = tensor.view(torch.bfloat16) if kind == "BF16" else tensor
    return state


def read_state_dict(path):
    """A .pth file: a state dict, or a training script's checkpoint that holds one."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError("not a state dict, or one that cannot be read without executing what it holds")
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise ValueError("not a state dict: expected names and tensors, nothing else")
    return dict(state)


def build(name, classes, seed, auxiliary):
    """The state dict of one of torchvision's networks as it is made, without downloading anything."""
    import torchvision
    torch.manual_seed(seed)
    options = {"num_classes": classes} if classes else {}
    if not auxiliary:
        options["aux_logits"] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GoogLeNet's about its own initialization
        return dict(torchvision.models.get_model(name, weights=None, **options).state_dict())


def convert(options):
    if options.model:
        state = build(options.model, options.classes, options.seed, not options.no_aux)
    elif options.source.endswith(".safetensors"):
        state = read_safetensors(options.source)
    else:
        state = read_state_dict(options.source)
    if options.target.endswith(".safetensors"):
        write_safetensors(options.target, state)
    else:
        replace_file(options.target, lambda file: torch.save(state, file))
    elements = sum(tensor.numel() for tensor in state.values())
    print("%s: %d tensors, %d elements" % (options.target, len(state), elements))


def main():
    parser = argparse.ArgumentParser(description="PyTorch's state dicts to safetensors, and back.",
                                     epilog="a name that ends in .safetensors is one; others are .pth files")
    parser.add_argument("source", nargs="?", help="the file to read; none with --model")
    parser.add_argument("target", help="the file to write")
    parser.add_argument("--model", metavar="NAME", help="take torchvision's network of this name, untrained")
    parser.add_argument("--classes", type=int, default=0, metavar="N", help="of --model; its own number if not given")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of --model's initial weights")
    parser.add_argument("--no-aux", action="store_true", help="--model without its auxiliary heads (googlenet)")
    options = parser.parse_args()
    if bool(options.source) == bool(options.model):
        parser.error("give a file to read, or --model NAME")
    try:
        convert(options)
    except Exception as error:  # whatever is wrong with a file: one line
        sys.exit("convert_torchvision.py: %s: %s" % (options.source or options.model, str(error).split("\n")[0]))


if __name__ == "__main__":
    main()
