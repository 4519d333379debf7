"""A training holds what its plan says: the process's largest size beside the plan, for three networks."""
import json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, check, finish

NETWORKS = (("mobilenet_v2", 16), ("alexnet", 16), ("resnet50", 8))

with tempfile.TemporaryDirectory() as folder:
    for model, batch in NETWORKS:
        r = subprocess.run([BRASA, "train", model, "--data", "synth:fire,n=%d" % (3 * batch), "--batch", str(batch), "--split",
                            "all", "--epochs", "1", "--json", "--out", model], capture_output=True, text=True, cwd=folder)
        told = [json.loads(line) for line in r.stdout.splitlines()]
        plan = next((e["plan_bytes"] for e in told if e["event"] == "begin"), 0)
        peak = told[-1].get("peak_rss_bytes", 0) if told else 0
        ok = r.returncode == 0 and plan and abs(peak - plan) <= 0.05 * plan
        text = "%s at batch %d: plan %.1f MB, process %.1f MB" % (model, batch, plan / 1e6, peak / 1e6)
        print(text)
        check(text, ok, r.stderr)
finish()
