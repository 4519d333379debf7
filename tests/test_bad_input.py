"""Bad input from outside: whatever is wrong with a file is told in one line with the file and the place in it, the exit
code is not 0, and nothing is left behind that looks like a run. The tables of each format are in the C tests."""
import ctypes, json, os, resource, shutil, struct, subprocess, sys, tempfile, zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, check, finish, skip

NET = "input 3 10 10\nconv 4 3x3 name=c\nrelu\nflatten\nclassify 2 name=f\n"


def run(*words, **how):
    return subprocess.run([BRASA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **how)


def refuses(name, parts, *words, **how):
    """One line that holds all the parts; a training leaves no folder."""
    if words[0] == "train":
        words += ("--epochs", "1", "--threads", "1", "--quiet")
        words += () if "--out" in words else ("--out", "refused")
    r = run(*words, **how)
    lines = r.stderr.splitlines()
    check("%s: %s" % (name, " ".join(words)), r.returncode == 1 and len(lines) == 1 and lines[0].startswith("brasa: ")
          and all(part in lines[0] for part in parts), (r.returncode, r.stdout[:200], r.stderr))
    check(name + ": nothing is left", not os.path.exists("refused"))
    shutil.rmtree("refused", ignore_errors=True)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def spoilt(path, rows, *words):
    """Each row: a name, what becomes of the file's bytes, what is said beside its name."""
    whole = read(path)
    for name, change, part in rows:
        write(path, change(whole))
        refuses(name, [path, part], *words)
    write(path, whole)


def png(width, height, rows=None):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    pixels = b"".join(b"\0" + bytes((x * x + y) % 251 for x in range(3 * width)) for y in range(height if rows is None else rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


def test_idx():
    run("data", "make", "synth:digits,n=70", "idx")
    train = ("train", "mnist_cnn", "--data", "idx:idx")
    spoilt("idx/train-images-idx3-ubyte",
           [("cut", lambda b: b[:-1], "announces 47040 bytes"),
            ("too long", lambda b: b + b"x", "47057 bytes long, expected 47056"),
            ("cut in the header", lambda b: b[:6], "ends at byte 6"),
            ("wrong magic", lambda b: b"\x1f" + b[1:], "it begins with 1f 00 08 03, expected 00 00 08 03")], *train)
    spoilt("idx/train-labels-idx1-ubyte",
           [("labels cut", lambda b: b[:-1], "byte 67"), ("labels too long", lambda b: b + b"x", "byte 68"),
            ("a label out of range", lambda b: b[:20] + b"\xc8" + b[21:], "byte 20: the label 200, but there are only 11")], *train)
    labels = read("idx/train-labels-idx1-ubyte")
    write("idx/train-labels-idx1-ubyte", labels[:20] + b"\xc8" + labels[21:])
    refuses("told", ["labels-idx1-ubyte: byte 20: the label 200, expected 0 to 9"], "data", "info", "idx:idx,classes=10")
    r = run("data", "info", "idx:idx,classes=201", "--json")
    check("a label that is right", r.returncode == 0 and len(json.loads(r.stdout)["classes"]) == 201, r)
    write("idx/train-labels-idx1-ubyte", labels)


def test_cifar():
    run("data", "make", "synth:cifar10,n=66", "cifar")
    spoilt("cifar/data_batch_1.bin",
           [("cut", lambda b: b[:-1], "bytes long, expected a multiple of 3073"),
            ("too long", lambda b: b + b"x", "bytes long, expected a multiple of 3073"),
            ("a label out of range", lambda b: b[:3073] + b"\x0a" + b[3074:], "byte 3073: the label 10, expected 0 to 9")],
           "train", "cifar10_cnn", "--data", "cifar10:cifar")


def test_csv():
    write("t.csv", b"".join(b"%c,%s\n" % (65 + i % 2, b",".join(b"%d" % (i * k % 7) for k in range(16))) for i in range(20)))
    spoilt("t.csv",
           [("cut", lambda b: b[:-3], "line 20: 16 cells, but the first line has 17"),
            ("too long", lambda b: b + b"A" + b",1" * 17, "line 21: 18 cells"),
            ("no number", lambda b: b.replace(b"A,0,2,4", b"A,0,two,4", 1), "column 3: 'two' is not a number"),
            ("bytes of something else", lambda b: b"\x89PNG\r\n\x1a\n\0\0" + b, "byte")],
           "train", "letter_mlp", "--data", "csv:t.csv")


def test_pictures(doctor):
    write("my.net", NET.encode())
    train = ("train", "my.net", "--data", "images:photos")
    for kind in ("a", "b"):
        for i in range(4):
            write("photos/%s/%d.png" % (kind, i), png(12, 11))
    bad = [("cut", "photos/b/x.png", png(12, 11)[:100], "PNG: "),
           ("cut behind the pixels", "photos/b/x.png", png(12, 11)[:-12], "PNG: cut off: its end is missing"),
           ("too few rows", "photos/b/x.png", png(12, 11, rows=4), "PNG: "),
           ("1 x 1", "photos/b/x.png", png(1, 1), "1 x 1 pixels"),
           ("30,000 x 30,000", "photos/b/x.png", png(30000, 30000, rows=0), "30000 x 30000"),
           ("wrong magic", "photos/b/x.png", b"GIF89a" + bytes(100), "neither JPEG nor PNG"),
           ("empty", "photos/b/x.png", b"", "the file is empty")]
    if doctor["data"]["JPEG"]:
        run("data", "make", "synth:fire,n=3,size=64", "fire")
        photo = read("fire/fire/000000.jpg")
        bad.append(("a JPEG cut", "photos/b/x.jpg", photo[:len(photo) // 2], "JPEG: Premature end"))
    else:
        skip("JPEG", "no libjpeg")
    for name, path, data, part in bad:
        write(path, data)
        refuses(name, [path, part], *train, "--batch", "9")
        os.remove(path)
    for i, (name, path, data, part) in enumerate(bad):
        write(path.replace("x", "x%d" % i), data)
    r = run(*train, "--skip-bad", "--epochs", "1", "--json", "--out", "rest")
    notes = [e["text"] for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "note"]
    check("--skip-bad lists them", r.returncode == 0 and len(notes) == len(bad) and
          all(any("x%d." % i in note and bad[i][3] in note for note in notes) for i in range(len(bad))), notes)
    check("and counts them", json.loads(read("rest/run.json"))["data"]["unreadable"] == len(bad))
    info = json.loads(run("data", "info", "images:photos", "--json").stdout)
    os.rename("photos/b/x0.png", "photos/b/x0\033[2J.png")
    check("data info keeps a terminal safe", "x0?[2J.png: PNG: " in run("data", "info", "images:photos").stdout)
    os.rename("photos/b/x0\033[2J.png", "photos/b/x0.png")
    check("so does data info", info["unreadable"] == len(bad) and len(info["unreadable_files"]) == len(bad), info)
    os.makedirs("photos/c")
    refuses("an empty class", ["photos/c", "this class has no picture"], *train)
    shutil.rmtree("photos/c")


def test_weights_and_models():
    train = ("train", "my.net", "--data", "images:good")
    for kind in ("a", "b"):
        for i in range(4):
            write("good/%s/%d.png" % (kind, i), png(12, 11))
    run(*train, "--epochs", "1", "--out", "run")
    shutil.copy("run/weights.safetensors", "w.safetensors")
    spoilt("w.safetensors",
           [("cut", lambda b: b[:-1], "byte"), ("too long", lambda b: b + b"x", "byte"),
            ("cut in the header", lambda b: b[:30], "header"), ("empty", lambda b: b"", "byte"),
            ("wrong magic", lambda b: b"PK\3\4" + b[4:], "header")], *train, "--weights", "w.safetensors")
    spoilt("run/weights.safetensors", [("of a run", lambda b: b[:-1], "byte")], "eval", "run")
    spoilt("my.net",
           [("cut", lambda b: b[:b.index(b"classify") + 5], ":5: there is no layer 'class'"),
            ("too long", lambda b: b + b"#" * (1 << 20), "larger than 1048576 bytes"),
            ("a long line", lambda b: b + b"#" * 1000, ":6: a line of 1000 letters"),
            ("bytes of something else", lambda b: bytes(100), "zero byte"), ("empty", lambda b: b"", "no layer")], *train)


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))


def test_full_disk():
    """Trainings are in test_train_cli.py."""
    refuses("full disk", ["made/", "File too large"], "data", "make", "synth:digits,n=70", "made", preexec_fn=limited)


def without_rights():
    """Root is refused nothing, unless it gives up the capabilities that say so."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if libc.prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
                os._exit(77)


def test_rights():
    if run("--version", preexec_fn=without_rights).returncode == 77:
        return skip("no rights", "root, and it cannot give up its rights")
    write("letters.csv", b"A,1\nB,2\n" * 9)
    train = ("train", "my.net", "--data", "images:good")
    rows = [("letters.csv", ("data", "info", "csv:letters.csv")), ("idx/train-images-idx3-ubyte", ("data", "info", "idx:idx")),
            ("cifar/data_batch_1.bin", ("data", "info", "cifar10:cifar")), ("good/a", train), ("good/b/2.png", train + ("--batch", "8")),
            ("my.net", train), ("w.safetensors", train + ("--weights", "w.safetensors")), ("run/run.json", ("eval", "run"))]
    for path, words in rows:
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        refuses("no right to read", [path, "Permission denied"], *words, preexec_fn=without_rights)
        os.chmod(path, mode)
    os.makedirs("closed")
    os.chmod("closed", 0o500)
    refuses("no right to write", ["closed/run", "Permission denied"], *train, "--out", "closed/run", preexec_fn=without_rights)
    refuses("no right to write", ["closed/made", "Permission denied"], "data", "make", "synth:letter", "closed/made",
            preexec_fn=without_rights)


with tempfile.TemporaryDirectory() as temporary:
    os.chdir(temporary)
    doctor = json.loads(run("doctor", "--json").stdout)
    test_idx()
    test_cifar()
    test_csv()
    if doctor["data"]["PNG"]:
        test_pictures(doctor)
        test_weights_and_models()
        test_rights()
    else:
        skip("pictures", "no libspng")
    test_full_disk()
    os.chdir("/")
finish()
