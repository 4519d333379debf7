"""The lab's reports from outside: the campaigns in a store, a page, CSV, JSON and Markdown, the published numbers."""
import csv, io, json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, BUILD, check, finish, skip


def run(*words, where=None):
    return subprocess.run([BRASA, "lab", *words], capture_output=True, text=True, timeout=100, cwd=where)


def works(*words, where=None):
    r = run(*words, where=where)
    check("lab " + " ".join(words), r.returncode == 0 and r.stdout and not r.stderr, (r.returncode, r.stdout, r.stderr))
    return r.stdout


def refuses(code, part, *words, where=None):
    r = run(*words, where=where)
    check("refused: lab " + " ".join(words),
          r.returncode == code and not r.stdout and r.stderr.count("\n") == 1 and part in r.stderr, (r.returncode, r.stderr))


def look_at_reference():
    text = works("reference")
    check("80 columns", max(map(len, text.splitlines())) <= 80, [line for line in text.splitlines() if len(line) > 80])
    check("table 1", "pytorch     139 / 879       221 / 1459      480 / 3122       630 / 9010 [b]\n" in text, text[:2000])
    check("empty cells", "singa       273 / -" in text)
    check("as printed", "74422.845" in text and "62.60" in text and "90.876" in text)
    one = works("reference", "study2")
    check("one study", one.startswith("study2\n") and one in text and "Table 1" not in works("reference", "study3"))
    studies = json.loads(works("reference", "--json"))
    values = sum(len(study["values"]) for study in studies)
    check("all numbers", [s["study"] for s in studies] == ["study1", "study2", "study3"] and values == 72 + 96, values)
    check("faults", sum(value["note"] is not None for study in studies for value in study["values"]) > 20)
    check("alarms", any("chance" in alarm for alarm in studies[2]["alarms"]), studies[2]["alarms"])
    page = works("reference", "study1", "--markdown")
    check("Markdown", "| mxnet | 401 / 2993 | 181 / 1391 | 547 / 4181 | 2178 / 16480 |\n" in page, page)
    refuses(2, "did you mean 'study1'?", "reference", "stuyd1")


def look_at_store(folder):
    made = subprocess.run([os.path.join(BUILD, "tests", "test_lab_read"), "a_store_for_others"], capture_output=True, text=True,
                          env=dict(os.environ, BRASA_STORE=os.path.join(folder, "lab.db")))
    if "1 passed" not in made.stdout:
        skip("reports from a store", "built without SQLite")
        return
    campaigns = json.loads(works("list", "--json", where=folder))
    check("list", [(c["name"], c["cells"], c["runs"], c["done"], c["finished"] is None) for c in campaigns]
          == [("quick", 0, 0, 0, False), ("study1-cpu", 2, 12, 9, True)], campaigns)
    check("list as text", "study1-cpu" in works("list", where=folder))
    said = works("report", where=folder)
    check("verdict", said.startswith("verdict: Not finished") and "so far: brasa is fastest in 2 of 2 cells" in " ".join(said.split())
          and said.endswith("report: lab-2-study1-cpu.html\n"), said)
    with open(os.path.join(folder, "lab-2-study1-cpu.html"), encoding="utf-8") as file:
        check("page", "<h1>study1-cpu</h1>" in file.read())
    works("report", "2", "--out", "other.html", where=folder)
    check("--out", os.path.exists(os.path.join(folder, "other.html")))
    before = sorted(os.listdir(folder))
    rows = list(csv.DictReader(io.StringIO(works("report", "study1-cpu", "--csv", where=folder))))
    check("CSV", len(rows) == 12 and rows[0]["peer"] == "brasa" and float(rows[0]["image_s"]) == 0.101
          and rows[0]["data"] == "synth:fire,n=791" and rows[0]["accuracy"] == "", rows[:1])
    check("CSV of a campaign that is not finished", all(row["finished"] == "no" for row in rows), rows[:1])
    dear = list(csv.DictReader(io.StringIO(works("report", "--csv", "--price-per-hour", "72", where=folder))))
    check("costs", float(rows[0]["image_cost"]) == 0.00101 and float(dear[0]["image_cost"]) == 0.00202
          and float(rows[0]["epoch_cost"]) == 0.79891, (rows[0], dear[0]))
    whole = json.loads(works("report", "--json", where=folder))
    check("JSON", len(whole["rows"]) == 12 and len(whole["rows"][0]["epochs"]) == 3 and whole["name"] == "study1-cpu")
    first, second, third = (row for row in whole["rows"][:6] if row["peer"] == "brasa")
    check("detail as JSON, as text, and none", (first["detail"], second["detail"], third["detail"])
          == ({"threads": 2}, "two threads", None), (first["detail"], second["detail"], third["detail"]))
    failed = [row for row in whole["rows"] if row["status"] == "failed"][0]
    check("the rest of a row", (first["started"], second["order"], first["tail"], failed["tail"])
          == ("2026-11-20 14:03:12", 2, None, "Traceback\n"), first.keys())
    check("steps of an epoch", [e["steps"] for e in first["epochs"]] == [791] * 3, first["epochs"])
    cell = whole["cells"][0]
    check("images to test on", cell["test_images"] == 30, cell)
    check("settings of a cell", (cell["limit"], cell["timing"], cell["doubling"], cell["profile"])
          == (600.5, True, True, False), cell)
    check("Markdown", "| Framework | alexnet | published | vgg16 | published |" in works("report", "--markdown", where=folder))
    check("no page with them", sorted(os.listdir(folder)) == before, os.listdir(folder))
    refuses(1, "no campaign 'nothing'", "report", "nothing", where=folder)
    refuses(1, "missing.db", "report", "--store", "missing.db", where=folder)
    r = run("report", "--out", "no-such-folder/page.html", where=folder)
    check("a page that cannot be written", r.returncode == 1 and r.stderr.count("\n") == 1 and "no-such-folder" in r.stderr
          and "verdict: " in r.stdout and "report: " not in r.stdout, (r.returncode, r.stdout, r.stderr))
    check("nothing is left behind", sorted(os.listdir(folder)) == before, os.listdir(folder))


look_at_reference()
with tempfile.TemporaryDirectory() as work:
    look_at_store(work)
finish()
