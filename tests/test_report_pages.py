"""Pages as readers get them: well-formed, and in headless Chromium light, dark, on a phone and on paper, without a
console message, without a request, without a word that hangs out at the side.

The pages are those that test_report_run and test_lab_page write. BRASA_PAGES=folder keeps them there, with pictures of
them.
"""
import base64, html.parser, itertools, json, os, re, shutil, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BUILD, check, finish, skip

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VIEWS = {"light": (1200, "light"), "dark": (1200, "dark"), "phone": (360, "light"), "phone-dark": (360, "dark")}
# Points in the charts of a page, by their tooltips: as many as epochs, for each series.
POINTS = {"full": {"training": 24, "validation": 24, "Speed": 12}, "one": {"training": 2, "validation": 2, "Speed": 1},
          "hundred": {"training": 600, "validation": 600, "Speed": 300}, "nothing": {}, "blocks": {"measured": 7},
          "lab-study1": {}, "lab-batch": {"brasa": 20, "tensorflow": 18, "caffe": 16},
          "lab-all": {"brasa": 6 * 240 + 4 + 7, "pytorch": 6 * 240 + 4 + 7}, "lab-nothing": {},
          "lab-gpu": {"brasa": 2 * (3 * 240 + 3 * 225), "jax": 2 * (3 * 240 + 3 * 225)}}
# Tables of a page, by their captions.
TABLES = {"lab-study1": ["Who is fastest", "Milliseconds an image: synth:fire,n=240, cpu, batch 1", "alexnet", "Versions",
                         "Medians over the repeats, and how far the extremes lie from them", "Runs without a result"],
          "lab-all": ["Accuracy: cpu, batch 128, 10 folds", "mobilenet_v2 on synth:fire, batch 1, 2 threads"],
          "lab-gpu": ["On the GPU: medians over the repeats",
                      "Where the time of a training step goes: the functions that take most of it"]}


# --- without a browser ------------------------------------------------------------------------------------------


class Reader(html.parser.HTMLParser):
    """Tags that open and close in pairs, no scripts, no addresses."""

    EMPTY = {"meta", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if tag in ("script", "img", "iframe", "object", "a", "foreignobject") or len(names) != len(set(names)):
            self.wrong.append((self.getpos(), tag, attributes))
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "srcdoc") or (name == "href" and value != "data:,"):
                self.wrong.append((self.getpos(), name, value))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((self.getpos(), "closes", tag))


def read(name, text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    check(name + ": well-formed", not reader.wrong and not reader.open, (reader.wrong, reader.open))
    check(name + ": loads nothing", "url(" not in text and "@import" not in text and "http:" not in text)


# Colours as seen by whoever lacks one kind of cone: Machado, Oliveira and Fernandes 2009, table 1, severity 1.
SIGHTS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no L cones": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no M cones": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no S cones": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}

APART = 6 * 2.3  # in L*a*b*, where 2.3 is a difference that is just seen


def linear(colour):
    parts = re.findall("..", colour if len(colour) == 6 else "".join(2 * c for c in colour))
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (int(part, 16) / 255 for part in parts)]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def lab(rgb):
    """CIE L*a*b*, in which equal distances look about equal."""
    xyz = times(((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8728)),
                [min(1, max(0, v)) for v in rgb])
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def look_at_colours(css):
    light, dark = css.split("prefers-color-scheme:dark")[:2]
    for scheme, part in (("light", light), ("dark", dark)):
        colours = [linear(c) for c in re.findall(r"--c\d:#(\w+)", part)]
        back = linear(re.search(r"--back:#(\w+)", part).group(1))
        check(scheme + ": eight colours", len(colours) == 8, colours)
        bright = [times(((0.2126, 0.7152, 0.0722),), c)[0] + 0.05 for c in [back] + colours]
        contrast = min(max(bright[0], b) / min(bright[0], b) for b in bright[1:])
        check(scheme + ": lines stand out", contrast >= 3, contrast)
        for sight, matrix in SIGHTS.items():
            seen = [lab(times(matrix, c)) for c in colours]
            near = min(sum((u - v) ** 2 for u, v in zip(a, b)) ** 0.5 for a, b in itertools.combinations(seen, 2))
            check("%s: colours are apart with %s" % (scheme, sight), near >= APART, near)


# --- the browser ------------------------------------------------------------------------------------------------


class Browser:
    """Chromium, spoken to over a pair of pipes: messages are JSON, each with a zero byte behind it."""

    def __init__(self, folder):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        self.out, self.into, self.rest = to_write, from_read, b""
        self.number, self.events, self.session = 0, [], None

        def arrange():  # Chromium reads from 3 and writes to 4
            high_read, high_write = os.dup(to_read), os.dup(from_write)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        words = [CHROMIUM, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", "--user-data-dir=" + folder]
        self.process = subprocess.Popen(words, close_fds=False, preexec_fn=arrange, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            piece = os.read(self.into, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has gone")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def value(self, expression):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, path, width, scheme, media="screen"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events = []
        self.ask("Page.navigate", url="file://" + path)
        self.wait("Page.loadEventFired")

    def requests(self, path):
        """What was asked for, other than the page."""
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if url not in ("file://" + path, "data:,")]

    def said(self):
        return [e["method"] for e in self.events
                if e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
                                       "Page.javascriptDialogOpening")]

    def picture(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.ask("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


# What sticks out of the page, other than inside of a box that scrolls; and texts too pale to read.
OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') || e.matches('.scroll'))
    .filter(e => !e.closest('.unseen')).map(e => [e, e.getBoundingClientRect()])
    .filter(([e, r]) => r.width && (r.left < -0.5 || r.right > document.documentElement.clientWidth + 0.5))
    .map(([e, r]) => e.tagName + ' ' + e.textContent.slice(0, 40) + ' ' + r.left + ' ' + r.right)"""
LABELS = """[...document.querySelectorAll('.plot')].flatMap(plot => {
    const boxes = [...plot.querySelectorAll('text.x')].map(e => e.getBoundingClientRect());
    return boxes.slice(1).filter((b, i) => b.left < boxes[i].right + 2).map(b => plot.getAttribute('aria-label')) })"""
PALE = """(() => {
    const parts = text => text.match(/[0-9.]+/g).map(Number);
    const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v =>
        v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
    const over = (top, below) => { const a = top.length > 3 ? top[3] : 1;
        return below.map((v, i) => a * top[i] + (1 - a) * v) };
    const back = e => { if (!e) return [255, 255, 255]; const style = getComputedStyle(e);
        const tint = style.backgroundImage.match(/rgba?\\([^)]*\\)/);
        let c = over(parts(style.backgroundColor), back(e.parentElement));
        return tint ? over(parts(tint[0]), c) : c };
    const pale = [];
    for (const e of document.querySelectorAll('h1,h2,p,th,td,dt,dd,caption,figcaption,li,small,strong,footer')) {
        if (!e.textContent.trim()) continue;
        const a = light(parts(getComputedStyle(e).color)), b = light(back(e));
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) pale.push(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 30) + ' ' + contrast);
    }
    return pale.slice(0, 5) })()"""


def look(browser, folder, name, view, width, scheme):
    label = "%s, %s" % (name, view)
    path = os.path.join(folder, name + ".html")
    browser.show(path, width, scheme)
    back = browser.value("getComputedStyle(document.body).backgroundColor")
    check(label + ": background", (back == "rgb(255, 255, 255)") == (scheme == "light"), back)
    check(label + ": fits", browser.value("document.documentElement.scrollWidth") <= width, browser.value(OUTSIDE))
    check(label + ": nothing outside", browser.value(OUTSIDE) == [], browser.value(OUTSIDE))
    check(label + ": labels apart", browser.value(LABELS) == [], browser.value(LABELS))
    check(label + ": contrast", browser.value(PALE) == [], browser.value(PALE))
    titles = browser.value("[...document.querySelectorAll('.plot circle title')].map(e => e.textContent)")
    for series, count in POINTS.get(name, {}).items():
        found = sum(title.startswith(series + ": ") for title in titles)
        check("%s: %s has %d points" % (label, series, count), found == count, found)
    captions = browser.value("[...document.querySelectorAll('caption')].map(e => e.textContent)")
    check(label + ": tables", set(TABLES.get(name, [])) <= set(captions), captions)
    if name == "nothing":
        check(label + ": no points", titles == [], titles)
    drawn = browser.value("""[...document.querySelectorAll('.plot circle')].every(e => {
        const c = e.getBoundingClientRect(), p = e.closest('.plot').getBoundingClientRect(), x = (c.left + c.right) / 2,
              y = (c.top + c.bottom) / 2;
        return c.width > 0 && x > p.left - 1 && x < p.right + 1 && y > p.top - 1 && y < p.bottom + 1 })""")
    check(label + ": points lie in their plots", drawn is True, drawn)
    check(label + ": no request", browser.requests(path) == [], browser.requests(path))
    check(label + ": no console message", browser.said() == [], browser.said())


def look_at_paper(browser, folder, name):
    width = 718  # of A4 less its margins, in CSS pixels
    browser.show(os.path.join(folder, name + ".html"), width, "dark", media="print")
    back = browser.value("getComputedStyle(document.body).backgroundColor")
    check(name + ": paper is white", back == "rgb(255, 255, 255)", back)
    hidden = browser.value("[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1).length")
    check(name + ": paper shows whole tables", hidden == 0, hidden)
    wide = browser.value("Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll('table')]"
                         ".map(e => e.getBoundingClientRect().right))")
    check(name + ": fits on paper", wide <= width or name == "odd", wide)


def look_at_scrolling(browser, folder, name):
    """Tables that are too wide for a phone: a shade says that there is more, and arrows bring it."""
    browser.show(os.path.join(folder, name + ".html"), 360, "light")
    wide = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    check(name + ": a table scrolls", browser.value(wide + ".length") > 0)
    check(name + ": it shows that", browser.value(
        wide + ".every(e => /gradient/.test(getComputedStyle(e).backgroundImage) && e.tabIndex == 0)") is True)
    browser.value(wide + "[0].focus()")
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    moved = 0
    for _ in range(50):
        moved = moved or browser.value(wide + "[0].scrollLeft")
        time.sleep(0 if moved else 0.05)
    check(name + ": by keyboard", moved, moved)


def look_at_a_bad_page(browser, path):
    """What is looked for would be found."""
    with open(path, "w") as f:
        f.write("<!doctype html><meta name=viewport content='width=device-width'><body style='background:#eee'>"
                "<p style='width:900px;color:#ccc'>x<img src='other.png'><script>console.log(1)</script>")
    browser.show(path, 360, "light")
    check("bad page: request", any(url.endswith("other.png") for url in browser.requests(path)), browser.events)
    check("bad page: console", "Runtime.consoleAPICalled" in browser.said(), browser.events)
    check("bad page: outside", browser.value(OUTSIDE) and browser.value("document.documentElement.scrollWidth") > 360)
    check("bad page: contrast", browser.value(PALE))


def main():
    kept = os.environ.get("BRASA_PAGES")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        folder = os.path.abspath(kept or os.path.join(work, "pages"))
        os.makedirs(folder, exist_ok=True)
        for maker in ("test_report_run", "test_lab_page"):
            made = subprocess.run([os.path.join(BUILD, "tests", maker)], env=dict(os.environ, BRASA_PAGES=folder),
                                  capture_output=True, text=True)
            check("pages of " + maker, made.returncode == 0, made.stdout)
        names = sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".html"))
        check("pages are made", set(POINTS) <= set(names), names)
        for name in names:
            with open(os.path.join(folder, name + ".html"), encoding="utf-8") as f:
                text = f.read()
            read(name, text)
        look_at_colours(text)
        if not CHROMIUM:
            skip("pages in a browser", "no Chromium (Debian: chromium)")
            return
        browser = Browser(os.path.join(work, "profile"))
        try:
            look_at_a_bad_page(browser, os.path.join(work, "bad.html"))
            for name in names:
                for view, (width, scheme) in VIEWS.items():
                    look(browser, folder, name, view, width, scheme)
                    if kept:
                        browser.picture(os.path.join(folder, "%s-%s.png" % (name, view)))
                look_at_paper(browser, folder, name)
            look_at_scrolling(browser, folder, "lab-study1")
        finally:
            browser.close()


main()
finish()
