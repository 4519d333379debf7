"""The size of a data set costs next to no memory: ten times as many pictures, the same budget, the same size."""
import json, os, signal, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, check, finish


def peak(folder, count):
    """Of a training that is stopped when it has kept as many pictures as the budget has room for."""
    p = subprocess.Popen([BRASA, "train", "mobilenet_v2", "--data", "synth:fire,n=%d" % count, "--batch", "16", "--split",
                          "all", "--mem", "1G", "--json", "--out", str(count)], stdout=subprocess.PIPE, text=True, cwd=folder)
    told, asked = {}, False
    for line in p.stdout:
        told = json.loads(line)
        if told["event"] == "step" and told["step"] >= 100 and not asked:
            p.send_signal(signal.SIGINT)
            asked = True
    return told["peak_rss_bytes"] if p.wait() == 130 else 0


with tempfile.TemporaryDirectory() as folder:
    few, many = peak(folder, 6003), peak(folder, 60000)
ok = few and many and abs(many - few) < 20e6 and many < 1.05e9
text = "6,003 pictures: %.1f MB, 60,000: %.1f MB" % (few / 1e6, many / 1e6)
print(text)
check(text, ok)
finish()
