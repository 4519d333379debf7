"""Writes first files for the targets that read data into a folder: idx/, cifar/, csv/, lists/, words/, model/,
experiment/ and picture/ (PNG; JPEG files come from `brasa data make synth:fire`). The first bytes of some choose the form, as the targets' files tell."""
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


# In the order of fuzz_words.c.
WORDS = [["resize=256 crop=224 flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225", "crop=3x5 random_crop channels=1"],
         ["sgd lr=0.01 momentum=0.9 nesterov", "adam 1e-3 beta1=0.9 eps=1e-8", "adadelta rho=0.95", "rmsprop lr=0.1 decay=1e-6"],
         ["constant warmup=5", "step every=3 gamma=0.5", "cosine steps=10 warmup=2 floor=1e-4"],
         ["a.*, b.weight", "*"],
         ["1,2.5,0.1", "1,2"],
         ["70/30", "all", "parts"],
         ["label=kind", "label=2,header=yes,separator=semicolon"],
         ["fire,n=6,size=32,seed=7", "cifar100,coarse,n=240", "letter"]]
NETWORKS = ["input 1 28 28\nconv 32 3x3 name=conv1\nrelu\nmaxpool 2\ndropout 0.25\nflatten\nclassify 10 name=fc\n",
            "# branches\ndialect keras2\nx = input 3 8 8\na = conv $x 4 1x1 pad=same\nb = avgpool $x 3 stride=1 pad=1\n"
            "y = concat $a $b\nbatchnorm\nrelu6\noutput mid\nadaptive_avgpool 1\nflatten\nclassify features=5 bias=no\n",
            "input 16 name=x\ny = labels 4\nz = dense $x 4\nl = softmax_cross_entropy $z $y\nloss\n",
            "input 4 6 6\nconv 4 3x3 pad=1,0,1,0 groups=4 dilation=2\nlrn 5 alpha=1e-4\ngelu\nflatten\ndense 3\n"]
EXPERIMENTS = ["title One # two\nnetwork alexnet my.net\ndata a=synth:fire,n=791 \"images:b c\"\nbatch 1 2..8 10..100/10\n"
               "threads 1..all\nsmall.data synth:fire,n=3\nsmall.batch 2\nsplit 70/30\nmem 1.5Gi\non doubling\n",
               "device cpu cuda\nprecision f32 bf16\ndata synth:letter\nexperiment a\nnetwork letter_mlp\nfolds 10\nview size\n"
               "experiment b-2\nnetwork mnist_cnn\nepochs 3\nrepeats 1\nseed 0\nlimit 60\noptimizer adam lr=1\ndialect keras2\n"]


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
    yield "lists/groups", b"\0file,scene\na/1.jpg,x\na/2.jpg,y\nb/1.png,\"x\"\n"
    yield "lists/split", b"\1train 2\n0\n2\ntest 1\n1\n"
    for kind, text in enumerate(WORDS):
        for i, words in enumerate(text):
            yield "words/%d_%d" % (kind, i), bytes([kind]) + words.encode()
    for i, text in enumerate(NETWORKS):
        yield "model/%d" % i, text.encode()
    for i, text in enumerate(EXPERIMENTS):
        yield "experiment/%d" % i, text.encode()
    for colour, depth in ((0, 8), (2, 8), (2, 16), (4, 8), (6, 8)):
        yield "picture/png%d_%d" % (colour, depth), png(9, 7, depth, colour)


if __name__ == "__main__":
    for name, data in seeds():
        path = os.path.join(sys.argv[1], name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
