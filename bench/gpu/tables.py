"""What the rows of measure.py say: tables in Markdown."""
import statistics


def good(row, side):
    return [turn for turn in row["sides"].get(side, []) if "median_s" in turn]


def rate(row, side):
    """Images/s: the median of the rounds; None: it was not measured."""
    times = [turn["median_s"] for turn in good(row, side)]
    return row["batch"] / statistics.median(times) if times else None


def spread(row, side):
    """How far the rounds are apart, or the middle half of a round's steps, if that is more: a share of the median."""
    turns = good(row, side)
    if not turns:
        return None
    times = [turn["median_s"] for turn in turns]
    return max(max(times) - min(times), statistics.median(t["spread_s"] for t in turns)) / statistics.median(times)


def share(a, b):
    return a / b if a and b else None


class Figures:
    """A row as a table wants it."""

    def __init__(self, row):
        self.row = row
        self.torch = {form: rate(row, form) for form in ("eager", "graph", "compiled")}
        self.ours, self.best = rate(row, "brasa"), max((r for r in self.torch.values() if r), default=None)
        floor = row.get("floor") or {}
        self.floor = row["batch"] / floor["floor_s"] if floor.get("floor_s") else None
        self.plan = row["brasa"]["plan_bytes"]
        # the form that needs the least: "graph" keeps memory of its own, "compiled" may fuse some away
        self.memory = min((turn["memory"] for form in self.torch for turn in good(row, form) if turn["memory"]), default=None)

    def misses(self):
        """What the bar asks for, and this cell has not."""
        found = []
        if self.row["batch"] in (1, 100) and share(self.ours, self.best) and self.ours < self.best:
            found.append(f"{self.ours / self.best:.2f} of PyTorch's best")
        if self.row["batch"] == 1 and share(self.ours, self.torch["eager"]) and self.ours < 3 * self.torch["eager"]:
            found.append(f"{self.ours / self.torch['eager']:.2f} times eager")
        if share(self.plan, self.memory) and self.plan > 0.8 * self.memory:
            found.append(f"{self.plan / self.memory:.2f} of its memory")
        return found


def number(x):
    return "-" if x is None else f"{x:,.0f}"


def ratio(x):
    return "-" if x is None else f"{x:.2f}"


def percent(x):
    return "-" if x is None else f"{100 * x:.0f} %"


def table_line(cells):
    return "| " + " | ".join(cells) + " |"


def head(columns):
    return [table_line(columns), "|---" * len(columns) + "|"]


def table_text(rows):
    compiled = any(good(row, "compiled") for row in rows)
    lines = head(["network", "batch", "eager", "graph", *(["compiled"] if compiled else []), "best", "floor", "Brasa", "spread",
                  "of best", "of eager", "of floor", "MB", "PyTorch MB", "memory"])
    notes, missed = [], []
    for row in rows:
        f = Figures(row)
        lines.append(table_line([row["network"], str(row["batch"]), number(f.torch["eager"]), number(f.torch["graph"]),
                                 *([number(f.torch["compiled"])] if compiled else []), number(f.best), number(f.floor),
                                 number(f.ours), percent(spread(row, "brasa")), ratio(share(f.ours, f.best)),
                                 ratio(share(f.ours, f.torch["eager"])), percent(share(f.ours, f.floor)),
                                 number(f.plan and f.plan / 1e6), number(f.memory and f.memory / 1e6),
                                 ratio(share(f.plan, f.memory))]))
        name = f"{row['network']}, batch {row['batch']}"
        missed += [f"{name}: {what}" for what in f.misses()]
        notes += [f"{name}: {side}: {reason}" for side, reason in errors(row)]
    return "\n".join([*lines, "", *about(rows), *(["", "Below the bar: " + "; ".join(missed) + "."] if missed else []),
                      *([""] + notes if notes else [])])


def errors(row):
    """What failed, each reason once."""
    found = {(side, turn["error"]): None for side, turns in row["sides"].items() for turn in turns if "error" in turn}
    for part in ("floor", "profile", "engines"):
        if isinstance(row.get(part), dict) and "error" in row[part]:
            found[part, row[part]["error"]] = None
    return list(found)


def about(rows):
    """On what, with what and when; several of each, where rows are not of one kind."""

    def told(values):
        return " and ".join(sorted({str(v) for v in values if v})) or "unknown"

    clocks = [row["clocks"]["clocks.sm"] for row in rows if row.get("clocks", {}).get("clocks.sm")]
    torch = [row["torch"] for row in rows if row.get("torch")]
    lines = [f"{told(row['gpu'].get('name') for row in rows)}, driver {told(row['gpu'].get('driver_version') for row in rows)}"
             + (f", SM clock {min(c['min'] for c in clocks):.0f} to {max(c['max'] for c in clocks):.0f} MHz" if clocks else "")
             + f"; {told(row['brasa']['about'] for row in rows)}; PyTorch {told(t['torch'] for t in torch)}"
             + f" with cuDNN {told(t['cudnn'] for t in torch)}"
             + f"; {told(row['precision'] for row in rows)}{', PyTorch by autocast' if any(row['autocast'] for row in rows) else ''}"
             + f"; {min(row['time'][:10] for row in rows)} to {max(row['time'][:10] for row in rows)}.",
             "Images/s, medians of the rounds; spread: of Brasa's rounds or steps, the larger; best: of PyTorch's forms; memory:"
             " Brasa's arena and workspaces against the least torch.cuda.max_memory_allocated of the forms."]
    if len({row["sources"] for row in rows}) > 1:
        lines.append("The rows are of several states of the sources.")
    return lines


def by_kernel(nodes):
    """[[kernel, nodes, microseconds, bytes, operations]], the slowest first."""
    found = {}
    for op, layer, role, kernel, us, size, flops in nodes:
        row = found.setdefault(kernel, [kernel, 0, 0, 0, 0])
        for i, x in enumerate((1, us, size, flops)):
            row[i + 1] += x
    return sorted(found.values(), key=lambda row: -row[2])


def profile_text(row, longest=10):
    nodes, f = row.get("profile"), Figures(row)
    lines = [f"## {row['network']}, batch {row['batch']}", ""]
    if not nodes or isinstance(nodes, dict):
        return "\n".join(lines + [nodes["error"] if nodes else "no profile was taken"])
    total = sum(node[4] for node in nodes)
    step = row["batch"] / f.ours * 1e6 if f.ours else None
    floor = row["batch"] / f.floor * 1e6 if f.floor else None
    lines += [f"A step {number(step)} us, its nodes one by one {number(total)} us, the floor {number(floor)} us.", "",
              *head(["kernel", "nodes", "us", "share", "GB/s", "TFLOP/s"])]
    for kernel, count, us, size, flops in by_kernel(nodes):
        lines.append(table_line([str(kernel), str(count), f"{us:.1f}", percent(us / total), number(size / us / 1e3),
                                 f"{flops / us / 1e6:.1f}"]))
    lines += ["", *head(["node", "kernel", "us", "share", "GB/s", "TFLOP/s"])]
    for op, layer, role, kernel, us, size, flops in sorted(nodes, key=lambda node: -node[4])[:longest]:
        lines.append(table_line([f"{op} {layer}", str(kernel), f"{us:.1f}", percent(us / total), number(size / us / 1e3),
                                 f"{flops / us / 1e6:.1f}"]))
    return "\n".join(lines)


def fusion_text(row):
    """A line for each way to compute a problem."""
    engines = row.get("engines")
    lines = [f"## {row['network']}, batch {row['batch']}", ""]
    if not engines or isinstance(engines, dict):
        return "\n".join(lines + [engines["error"] if engines else "no engines were told of"])
    lines += head(["problem", "nodes", "way", "engines", "us", "workspace MB", "taken"])
    for e in engines:
        for way in e["ways"]:
            us = way.get("us")
            lines.append(table_line([e["problem"], str(e["nodes"]), way["way"], str(way["engines"]),
                                     "-" if us is None else f"{us:.1f}", "-" if us is None else f"{way['workspace'] / 1e6:.1f}",
                                     way["engine"] if way["taken"] else ""]))
    return "\n".join(lines)
