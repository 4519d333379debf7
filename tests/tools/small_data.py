"""Small data sets in files, for tests: IDX, PNG folders. Everything is drawn from a seed."""
import os, random, struct, zlib


def png(path, height, width, pixel):
    """pixel(y, x) -> (r, g, b)"""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in pixel(y, x)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pictures(folder, count, seed=0):
    """Two classes, red and blue, with noise; sizes vary."""
    draw = random.Random(seed)
    for i in range(count):
        name = ("red", "blue")[i % 2]
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        noise = [draw.randrange(120) for _ in range(997)]
        strong = (120, 0, 0) if i % 2 == 0 else (0, 0, 120)
        png(os.path.join(folder, name, "%03d.png" % i), 14 + i % 5, 18 + i % 3,
            lambda y, x: tuple(s + noise[(y * 31 + x * 7 + c * 3) % 997] for c, s in enumerate(strong)))


def idx(folder, count, side=8, classes=10, seed=0):
    """MNIST's four files: a bright column for each class, with noise. A third of the samples test."""
    draw = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    for part, n in (("train", count - count // 3), ("t10k", count // 3)):
        labels = bytes(draw.randrange(classes) for _ in range(n))
        pixels = bytes(draw.randrange(100) + (140 if x == label % side and y % 2 == label // side else 0)
                       for label in labels for y in range(side) for x in range(side))
        with open(os.path.join(folder, part + "-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, n, side, side) + pixels)
        with open(os.path.join(folder, part + "-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 0x801, n) + labels)
