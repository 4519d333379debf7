"""`brasa lab peers` and `brasa lab install` from outside, without a network: a framework of one line in a wheel made
here, which pip finds because PIP_NO_INDEX and PIP_FIND_LINKS say so. What fails must leave nothing behind.

Making an environment takes seconds, most of them for pip. It is done once, where all goes well; for what fails behind it
the Python in PATH is one whose venv makes copies of that one."""
import base64, hashlib, http.server, json, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, SOURCE, check, finish, skip

HERE = "%d.%d" % sys.version_info[:2]
COPIES = """[ "$2 $3" != "-m venv" ] || exec cp -Rpl '%s/.' "$4"\n"""
NAMES = ["brasa", "pytorch", "tensorflow", "paddle", "mxnet", "jax", "aesara", "singa", "caffe"]


def wheel(folder, version, code):
    """mxnet, as far as this test is concerned."""
    info = "mxnet-%s.dist-info/" % version
    files = {"mxnet/__init__.py": code,
             info + "METADATA": "Metadata-Version: 2.1\nName: mxnet\nVersion: %s\n" % version,
             info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        record += "%s,sha256=%s,%d\n" % (name, digest, len(text))
    with zipfile.ZipFile(os.path.join(folder, "mxnet-%s-py3-none-any.whl" % version), "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
        file.writestr(info + "RECORD", record + info + "RECORD,,\n")


class Lab:
    """A folder of runners and locks, one of wheels, and one where environments go."""

    def __init__(self, work):
        self.lab, self.wheels, self.peers, self.programs, self.whole = (
            os.path.join(work, name) for name in ("lab", "wheels", "peers", "programs", "whole"))
        for folder in (self.lab, self.wheels, self.programs):
            os.mkdir(folder)
        self.put_python()
        open(os.path.join(self.lab, "mxnet.py"), "w").close()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        self.environment.update(BRASA_LAB=self.lab, BRASA_PEERS=self.peers, PIP_NO_INDEX="1",
                                PIP_FIND_LINKS=self.wheels, PIP_CONFIG_FILE=os.devnull,
                                PATH=self.programs + ":" + os.environ["PATH"])

    def put_python(self, first=""):
        """Into PATH: this one, which need not be looked for, and what it is to do before."""
        for name in ("python3", "python" + HERE):
            path = os.path.join(self.programs, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\n%sexec '%s' \"$@\"\n" % (first, sys.executable))
            os.chmod(path, 0o755)

    def keep(self):
        """From here on environments are copies of the one that is there, as it was before pip."""
        subprocess.run(["cp", "-Rpl", os.path.join(self.peers, "mxnet"), self.whole], check=True)
        for folder, names, _ in os.walk(self.whole):
            for name in [n for n in names if n.startswith("mxnet")]:
                shutil.rmtree(os.path.join(folder, name))
                names.remove(name)
        self.put_python(COPIES % self.whole)

    def lock(self, pin, head="# python: %s\n# disk: 20M\n" % HERE):
        with open(os.path.join(self.lab, "mxnet.lock"), "w") as file:
            file.write(head + pin + "\n")

    def run(self, *words, **more):
        environment = dict(self.environment, **more)
        return subprocess.run([BRASA, "lab", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=200, env=environment, stdin=subprocess.DEVNULL)

    def left(self):
        """What is in the folder of environments but its lock."""
        return sorted(set(os.listdir(self.peers)) - {".lock"}) if os.path.isdir(self.peers) else []

    def refuses(self, code, parts, *words, **more):
        r = self.run(*words, **more)
        lines = r.stderr.splitlines()
        ok = r.returncode == code and len(lines) == 1 and all(part in lines[0] for part in parts)
        check("refused: %s: %s" % (" ".join(words), parts), ok, (r.returncode, r.stdout, r.stderr))

    def row(self, *words):
        r = self.run("peers", "--json", *words)
        check("lab peers --json", r.returncode == 0, (r.stdout, r.stderr))
        return {row["name"]: row for row in json.loads(r.stdout or "[]")}


def test_peers(lab):
    rows = lab.row()
    check("all peers, Brasa first", list(rows) == NAMES, list(rows))
    check("brasa is here", rows["brasa"]["there"] and rows["brasa"]["version"], rows["brasa"])
    check("how to get it", "brasa lab install mxnet" in rows["mxnet"]["why"], rows["mxnet"])
    for name, part in (("singa", "nusdbsystem::singa"), ("caffe", "python3-caffe")):
        check("why not " + name, part in rows[name]["why"] and not rows[name]["there"], rows[name])
    text = lab.run("peers").stdout
    check("as text", all(name in text for name in NAMES) and max(map(len, text.splitlines())) <= 80, text)
    other = lab.row("--peers", "mxnet=%s" % sys.executable)["mxnet"]
    check("a Python without it", not other["there"] and "it has no module mxnet" in other["why"], other)
    by_path = lab.row("--peers", "mxnet=python3")["mxnet"]
    check("a Python by its name, along PATH", "it has no module mxnet" in by_path["why"], by_path)
    lab.refuses(2, ["no peer 'mxnte', did you mean 'mxnet'"], "peers", "--peers", "mxnte")
    lab.refuses(2, ["no variant 'fast', only: contiguous channels_last"], "peers", "--peers", "pytorch:fast")
    lab.refuses(2, ["nowhere/python is no program"], "peers", "--peers", "mxnet=nowhere/python")
    lab.refuses(2, ["expected all, or NAME"], "peers", "--peers", "mxnet,,jax")
    lab.refuses(2, ["brasa needs no Python"], "peers", "--peers", "brasa=" + sys.executable)


def test_refused(lab):
    lab.lock("mxnet==9.1")
    lab.refuses(2, ["--yes installs"], "install", "mxnet")
    lab.refuses(2, ["no peer 'mxnte'"], "install", "mxnte", "--yes")
    lab.refuses(1, ["brasa is this program"], "install", "brasa", "--yes")
    lab.refuses(1, ["caffe cannot be installed", "Debian 11"], "install", "caffe", "--yes")
    lab.refuses(1, ["jax.lock: No such file"], "install", "jax", "--yes")
    lab.refuses(1, ["mxnet is not installed"], "install", "mxnet", "--remove")
    lab.lock("mxnet==9.1", "# python: 2.1 2.2\n")
    lab.refuses(1, ["work on Python 2.1 2.2, and none"], "install", "mxnet", "--yes")
    lab.lock("mxnet==9.1", "")
    lab.refuses(1, ["has no line '# python: VERSIONS'"], "install", "mxnet", "--yes")
    lab.lock("mxnet==9.1", "# python: %s\n# disk: 9000000G\n" % HERE)
    lab.refuses(1, ["mxnet takes 9.00 PB", "has room for"], "install", "mxnet", "--yes")
    lab.refuses(2, ["--device: expected cpu or cuda, got 'tpu'"], "install", "mxnet", "--yes", "--device", "tpu")


def test_gpu(lab):
    """The pins for GPUs count where they are asked for, and only there."""
    lab.lock("mxnet==9.1", "# python: 2.1\n")
    lab.refuses(1, ["work on Python 2.1,"], "install", "mxnet", "--yes", "--device", "cuda")
    other = os.path.join(lab.lab, "mxnet.gpu.lock")
    with open(other, "w") as file:
        file.write("# python: 2.2\n# disk: 20M\nmxnet==9.2\n")
    lab.refuses(1, ["work on Python 2.2,"], "install", "mxnet", "--yes", "--device", "cuda")
    lab.refuses(1, ["work on Python 2.1,"], "install", "mxnet", "--yes", "--device", "cpu")
    with open(other, "w") as file:
        file.write("# python: %s\n# disk: 20M\nmxnet==9.2\n" % HERE)
    said = lab.run("install", "mxnet", "mxnet", "--device", "cuda").stdout
    check("planned once", said.count("mxnet: Python") == 1 and "20.0 MB in all" in said, said)
    check("says that it is for GPUs", "the build for GPUs" in said.replace("\n", " "), said)
    os.remove(other)
    check("nothing was made", lab.left() == [], lab.left())


class Index(http.server.BaseHTTPRequestHandler):
    """Has a build of mxnet 9.1 for the CPU."""

    def do_GET(self):
        self.send_response(200 if self.path == "/cpu/mxnet/" else 404)
        self.end_headers()
        self.wfile.write(b"<a href='mxnet-9.1%2Bcpu-py3-none-any.whl'>mxnet-9.1+cpu</a>")

    def log_message(self, *words):
        pass


def test_index(lab):
    """Builds for the CPU are taken where an index is there that has them; else it goes on without, and soon."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    silent = socket.socket()  # takes no connection, and refuses none
    silent.bind(("127.0.0.1", 0))
    silent.listen(0)
    here, nobody = ("http://127.0.0.1:%d/cpu" % port for port in (server.server_port, silent.getsockname()[1]))
    head = "# python: %s\n# disk: 20M\n# cpu-index: %s\n# cpu-disk: 7M\n"
    for index, pin, more, smaller in ((here, "9.1", {}, True), (here + "/", "9.1", {}, True), (here, "9.2", {}, False),
                                      (here + "/x", "9.1", {}, False), (nobody, "9.1", {}, False),
                                      (nobody, "9.1", {"BRASA_CPU_INDEX": here}, True),
                                      (here, "9.1", {"BRASA_CPU_INDEX": "off"}, False)):
        lab.lock("mxnet==" + pin, head % (HERE, index))
        begun = time.monotonic()
        said = " ".join(lab.run("install", "mxnet", "--device", "cpu", no_proxy="*", **more).stdout.split())
        case = "an index: %s %s %s" % (index, pin, more)
        check(case, ("up to 7.00 MB" in said and "the build for the CPU" in said) if smaller else
              ("up to 20.0 MB" in said and "the build" not in said), said)
        check(case + ", soon", time.monotonic() - begun < 15)
    lab.lock("mxnet==9.1", head % (HERE, here))
    said = " ".join(lab.run("install", "mxnet", "--device", "cuda").stdout.split())
    check("not for a GPU", "up to 20.0 MB" in said, said)
    server.shutdown()
    silent.close()


def test_failures(lab):
    """Of pip, and of the framework."""
    lab.lock("mxnet==9.9")
    lab.refuses(1, ["mxnet: pip: ", "9.9", "mxnet.log"], "install", "mxnet", "--yes")
    check("a log is kept", lab.left() == ["mxnet.log"], lab.left())
    wheel(lab.wheels, "9.2", "raise ImportError('libgone.so is missing')\n")
    lab.lock("mxnet==9.2")
    lab.refuses(1, ["importing it", "libgone.so is missing"], "install", "mxnet", "--yes")
    check("what cannot be imported is not installed", lab.left() == ["mxnet.log"], lab.left())


def test_interrupted(lab):
    """Ctrl-C while it is imported."""
    mark = os.path.join(lab.lab, "importing")
    wheel(lab.wheels, "9.3", "import time\nopen(%r, 'w').close()\ntime.sleep(100)\n" % mark)
    lab.lock("mxnet==9.3")
    child = subprocess.Popen([BRASA, "lab", "install", "mxnet", "--yes"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=lab.environment, stdin=subprocess.DEVNULL)
    for _ in range(600):
        if os.path.exists(mark) or child.poll() is not None:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, error = child.communicate(timeout=60)
    check("Ctrl-C", child.returncode == 130 and "mxnet: stopped" in error, (child.returncode, out, error))
    check("leaves nothing", lab.left() == ["mxnet.log"], lab.left())


def test_installed(lab):
    wheel(lab.wheels, "9.1", "__version__ = '9.1'\n")
    lab.lock("mxnet==9.1")
    os.makedirs(os.path.join(lab.peers, ".mxnet-abcdef"))  # one that was killed
    r = lab.run("install", "mxnet", "--yes")
    check("installed", r.returncode == 0 and not r.stderr and "up to 20.0 MB in" in r.stdout and
          "mxnet 9.1 is installed" in r.stdout, (r.returncode, r.stdout, r.stderr))
    check("nothing else is there", lab.left() == ["mxnet"], lab.left())
    row = lab.row()["mxnet"]
    check("found", row["there"] and row["version"] == "9.1" and row["python_version"].startswith(HERE), row)
    check("its own Python", row["python"] == os.path.join(lab.peers, "mxnet/bin/python"), row)
    r = subprocess.run([row["python"], "-I", "-m", "pip", "list"], stdout=subprocess.PIPE, text=True)
    check("a whole environment", r.returncode == 0 and "mxnet" in r.stdout, r.stdout)
    place = os.path.join(lab.peers, "mxnet")
    r = subprocess.run([os.path.join(place, "bin", "pip"), "list"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True)
    check("its scripts", r.returncode == 0 and "mxnet" in r.stdout, r.stdout)
    r = subprocess.run(["sh", "-c", ". '%s/bin/activate' && command -v python" % place], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    check("activated", r.stdout.strip() == place + "/bin/python", r.stdout)
    r = subprocess.run(["grep", "-rIl", "[.]mxnet-", place + "/bin", place + "/pyvenv.cfg"], stdout=subprocess.PIPE,
                       text=True)
    check("no script names the hidden folder", r.stdout == "", r.stdout)
    r = lab.run("install", "mxnet", "--yes")
    check("once is enough", r.returncode == 0 and "already" in r.stdout, (r.stdout, r.stderr))
    runner = os.path.join(lab.lab, "mxnet.py")
    os.rename(runner, runner + ".away")
    row = lab.row()["mxnet"]
    check("without its runner", not row["there"] and "its runner is missing" in row["why"], row)
    os.rename(runner + ".away", runner)
    lab.keep()
    r = lab.run("install", "mxnet", "--remove")
    check("removed", r.returncode == 0 and lab.left() == [], (r.stdout, r.stderr, lab.left()))


def test_locks():
    """The pins that come with Brasa: of every peer that can be installed, all exact, with the Python versions."""
    folder = os.path.join(SOURCE, "lab", "peers")
    for name in ("pytorch", "tensorflow", "tensorflow.gpu", "paddle", "mxnet", "jax", "jax.gpu", "aesara"):
        with open(os.path.join(folder, name + ".lock")) as file:
            lines = file.read().splitlines()
        pins = [line for line in lines if not line.startswith("#")]
        check("pins of " + name, pins and all("==" in line for line in pins), pins)
        check("head of " + name, any(line.startswith("# python: 3.") for line in lines) and
              any(line.startswith("# disk: ") for line in lines), lines[:4])


def main():
    test_locks()
    try:
        import ensurepip, venv
    except ImportError:
        skip("environments", "this Python has no venv", 3)
        return finish()
    with tempfile.TemporaryDirectory() as work:
        lab = Lab(work)
        test_peers(lab)
        test_refused(lab)
        test_gpu(lab)
        test_index(lab)
        test_installed(lab)
        test_failures(lab)
        test_interrupted(lab)
    finish()


main()
