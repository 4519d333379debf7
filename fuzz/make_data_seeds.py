"""Writes first files for the targets that read data into a folder: idx/, cifar/, csv/ and picture/ (PNG; JPEG files
come from `brasa data make synth:fire`). The first bytes of some choose the form, as the targets' files tell."""
import gzip, os, struct, sys, zlib


def idx(*dims):
    count = 1
    for dim in dims:
        count *= dim
    return struct.pack(">HBB%dI" % len(dims), 0, 8, len(dims), *dims) + bytes(i % 3 for i in range(count))


def png(width, height, depth=8, colour=2, extra=b""):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    rows = b"".join(b"\0" + bytes((x * y) % 251 for x in range(width * samples * depth // 8)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def seeds():
    yield "idx/plain", b"\0" + idx(3, 2, 2)
    yield "idx/packed", b"\1" + gzip.compress(idx(3, 2, 2), mtime=0)
    yield "idx/labels", b"\2" + idx(3)
    yield "idx/short", b"\0" + idx(3, 2, 2)[:-1]
    names = b"".join(b"name%d\n" % i for i in range(10))
    yield "cifar/ten", b"\0\4\0" + bytes([1, 2, 3, 9]) + names
    yield "cifar/hundred", b"\1\2\0" + bytes([1, 2, 3, 99])
    yield "cifar/coarse", b"\2\2\0" + bytes([1, 2, 19, 99])
    yield "csv/letters", b"\0T,2,8\nI,5,12\nD,4,-1.5e2\n"
    yield "csv/numbers", b"\x011,2,3\r\n4,5,6\r\n"
    yield "csv/header", b"\2a,b\n\"x, \"\"y\"\"\",1\n\nz,2"
    yield "csv/tabs", b"\3a\tb\nc\t1\n"
    yield "csv/semicolons", b"\4a;1\nb;2\n"
    for colour, depth in ((0, 8), (2, 8), (2, 16), (4, 8), (6, 8)):
        yield "picture/png%d_%d" % (colour, depth), png(9, 7, depth, colour)


if __name__ == "__main__":
    for name, data in seeds():
        path = os.path.join(sys.argv[1], name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
