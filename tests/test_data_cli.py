"""`brasa data` from outside: info, make and get, downloads from a server on loopback, and what is said of bad data."""
import functools, http.server, json, os, shutil, subprocess, sys, tempfile, threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, DATA, check, finish, skip


def run(*words):
    environment = dict(os.environ, no_proxy="127.0.0.1")
    return subprocess.run([BRASA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=500,
                          env=environment)


def works(*words):
    r = run(*words)
    check(" ".join(words), r.returncode == 0 and not r.stderr, (r.returncode, r.stdout, r.stderr))
    return r.stdout


def info(spec):
    text = works("data", "info", spec, "--json")
    return json.loads(text) if text else {}


def refuses(code, parts, *words):
    """One line on standard error that holds all the parts, nothing on standard output."""
    r = run(*words)
    lines = r.stderr.splitlines()
    ok = r.returncode == code and not r.stdout and len(lines) == 1 and all(part in lines[0] for part in parts)
    check("refused: " + " ".join(words), ok, (r.returncode, r.stdout[:200], r.stderr))


def test_info(folder):
    digits = info("synth:digits,n=70")
    check("counts", digits["samples"] == 70 and digits["parts"] == {"train": 60, "test": 10}, digits)
    check("classes", [c["samples"] for c in digits["classes"]] == [7] * 10, digits)
    check("sizes", (digits["channels"], digits["height"], digits["width"]) == (1, [28, 28], [28, 28]), digits)
    check("no warnings", digits["warnings"] == [] and digits["duplicates"] == 0, digits)
    table = os.path.join(folder, "table.csv")
    with open(table, "w") as file:
        file.write("kind,x\n" + "a,1\n" * 10 + "b,2\n")
    letters = info("csv:%s,label=kind" % table)
    check("warnings", len(letters["warnings"]) == 2 and "out of balance: 'a' has 10" in letters["warnings"][0] and
          "9 samples" in letters["warnings"][1], letters["warnings"])
    text = works("data", "info", "csv:%s,label=kind" % table)
    check("as text", "samples   11\n" in text and "header    yes\n" in text and letters["header"] == "yes" and "warning   9 samples" in text and letters["sha256"] in text, text)
    names = os.path.join(folder, "names.csv")
    with open(names, "w", encoding="utf-8") as file:
        file.write("kind,x\nfogo,1\nfumaça,2\n不明,3\n")
    rows = works("data", "info", "csv:%s,label=kind" % names).partition("classes   3\n")[2].splitlines()
    check("columns of letters, not of bytes", len(rows) == 3 and all(len(row) == 36 for row in rows), rows)
    refuses(2, ["no source 'imagse'", "did you mean 'images'"], "data", "info", "imagse:x")
    refuses(1, ["nowhere"], "data", "info", "images:" + os.path.join(folder, "nowhere"))
    refuses(2, ["label: column 3"], "data", "info", "csv:%s,label=3" % table)
    refuses(2, ["DATA is missing"], "data", "info")
    with open(table, "a") as file:
        file.write("b,two\n")
    refuses(1, ["table.csv: line 13: column 2: 'two' is not a number"], "data", "info", "csv:%s,label=kind" % table)


def peak(*words):
    """Megabytes, of the program and of what started it."""
    child = subprocess.Popen([BRASA, *words], stdout=subprocess.DEVNULL)
    return os.wait4(child.pid, 0)[2].ru_maxrss / 1024


def test_make(folder, doctor):
    spec = works("data", "make", "synth:digits,n=70", os.path.join(folder, "digits")).strip()
    check("made", spec == "idx:" + os.path.join(folder, "digits"), spec)
    check("the same data", info(spec)["sha256"] == info("synth:digits,n=70")["sha256"])
    refuses(1, ["not empty"], "data", "make", "synth:digits,n=70", os.path.join(folder, "digits"))
    refuses(2, ["only drawn sets"], "data", "make", spec, os.path.join(folder, "again"))
    if not doctor["data"]["JPEG"]:
        return skip("pictures", "no libjpeg")
    photos = os.path.join(folder, "photos")
    spec = works("data", "make", "synth:fire,n=3,size=4000", photos).strip()  # 12 million pixels each
    fire = info(spec)
    check("photos", fire["height"] == [3000, 3000] and fire["width"] == [4000, 4000] and fire["unreadable"] == 0, fire)
    used = peak("data", "info", spec)
    check("decoded in less than 40 MB", used < 40, used)
    whole = os.path.join(photos, "smoke", "000002.jpg")
    os.truncate(whole, os.path.getsize(whole) // 2)
    fire = info(spec)
    check("broken", fire["unreadable"] == 1 and "smoke/000002.jpg: JPEG: Premature end" in fire["unreadable_files"][0],
          fire)
    check("counted", fire["warnings"] == ["1 of 3 samples cannot be read"], fire)
    if os.geteuid() != 0:  # whom no right is refused
        os.chmod(whole, 0)
        check("no rights", "Permission denied" in info(spec)["unreadable_files"][0])
        os.chmod(folder, 0o500)
        refuses(1, ["Permission denied"], "data", "make", "synth:letter", os.path.join(folder, "letter"))
        os.chmod(folder, 0o700)


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked = []

    def log_message(self, *words):
        Quiet.asked.append(self.path)


def test_get(folder, doctor):
    if not doctor["data"]["http"]:
        return skip("downloads", "no libcurl")
    served, got = os.path.join(folder, "served"), os.path.join(folder, "got")
    os.makedirs(served)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=served))
    server.handle_error = lambda *words: None  # a client that goes away
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://127.0.0.1:%d" % server.server_port
    refuses(1, [url + "/letter-recognition.data", "404"], "data", "get", "letter", got, "--from", url)
    with open(os.path.join(served, "letter-recognition.data"), "wb") as file:
        file.write(b"T,2,8\n" * 100 + b"x" * (712565 - 600))  # of the right length
    refuses(1, ["SHA-256 is", "expected 2b89f3602c", "not kept"], "data", "get", "letter", got, "--from", url)
    check("nothing kept", not any(name.startswith("letter-recognition.data") and
                                  os.path.getsize(os.path.join(got, name)) for name in os.listdir(got)), os.listdir(got))
    refuses(2, ["no published set 'letters'", "did you mean 'letter'"], "data", "get", "letters", got)
    refuses(1, ["127.0.0.1:1"], "data", "get", "mnist", got, "--from", "http://127.0.0.1:1")
    if not os.path.isdir(os.path.join(DATA, "mnist")):
        server.shutdown()
        return skip("real files", "no real data (BRASA_DATA)")
    for name in os.listdir(os.path.join(DATA, "mnist")):
        shutil.copy(os.path.join(DATA, "mnist", name), served)
    shutil.copy(os.path.join(DATA, "letter", "letter-recognition.data"), served)
    with open(os.path.join(served, "train-images-idx3-ubyte.gz"), "rb") as file:
        part = file.read(1000000)
    with open(os.path.join(got, "train-images-idx3-ubyte.gz.part"), "wb") as file:
        file.write(part)  # this server knows no ranges: it begins anew
    for name, samples in (("mnist", 70000), ("letter", 20000)):
        spec = works("data", "get", name, got, "--from", url).strip()
        check(name, info(spec)["samples"] == samples, spec)
        Quiet.asked.clear()
        works("data", "get", name, got, "--from", url)
        check("not again: " + name, not Quiet.asked, Quiet.asked)
    check("no part is left", not [name for name in os.listdir(got) if name.endswith(".part")])
    server.shutdown()


with tempfile.TemporaryDirectory() as folder:
    doctor = json.loads(run("doctor", "--json").stdout)
    test_info(folder)
    test_make(folder, doctor)
    test_get(folder, doctor)
finish()
