"""The rows of tools/bench.py: the networks, the file of JSON lines, and the tables made of it."""
import json, os, sys

# Billions of operations of a training step of one sample, as `brasa bench step` counts them: to share out the time.
LARGE = {"alexnet": 4.15, "mobilenet_v2": 1.89, "googlenet": 8.83, "resnet50": 24.5, "vgg16": 92.7}
SMALL = {"letter_mlp": 0.0000135, "mnist_cnn": 0.0717, "cifar10_cnn": 0.123}
CELL = ("network", "batch", "threads")


# --- the file ------------------------------------------------------------------------------------------------------------


def read_all(path):
    """All rows of a file; a line that was cut off is none."""
    rows = []
    try:
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    rows.append(row)
    except FileNotFoundError:
        pass
    return rows


def key_of(row, names=CELL):
    """The values of these fields; None: it has not all of them."""
    key = tuple(row.get(name) for name in names)
    return None if None in key or not all(isinstance(k, (str, int)) for k in key) else key


def read_rows(path, names=CELL):
    """The rows of a file by these fields, the last one of each cell."""
    return {key_of(row, names): row for row in read_all(path) if key_of(row, names)}


def maker(row):
    """The program and the processor that a row is of."""
    return row.get("program"), row["machine"].get("cpu") if isinstance(row.get("machine"), dict) else None


def pick_rows(rows):
    """One for each cell: of the program and the processor that came last, one beside PyTorch before one without it, a whole
    one before one that was cut short, and of those the last."""
    last, best = {key_of(row): maker(row) for row in rows}, {}
    for row in rows:
        key = key_of(row)
        if key and maker(row) == last[key] and (key not in best or worth(row) >= worth(best[key])):
            best[key] = row
    return list(best.values())


def worth(row):
    return bool(row.get("pytorch")), not row.get("cut_short")


def append_row(path, row):
    with open(path, "a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # the line before was cut off
                file.write(b"\n")
        file.write(json.dumps(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


# --- the tables ----------------------------------------------------------------------------------------------------------


COLUMNS = ("network", "batch", "threads", "ms/image", "spread", "images/s", "GFLOP/s", "of peak", "MB", "PyTorch", "form", "MB",
           "oneDNN", "ratio")


def short(x):
    """Three digits, or all that stand before the point."""
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.3g}"


def figures(row):
    """The cells of a table's line, as texts."""
    ours, theirs, onednn = row["brasa"], row["pytorch"], row["onednn"]
    step = ours["median_s"]
    rate, spread = row["gflop"] / step, max(ours["spread_s"], ours["high_s"] - ours["low_s"]) / step
    cells = [row["network"], str(row["batch"]), str(row["threads"]), short(1e3 * step / row["batch"]), f"{100 * spread:.0f} %",
             short(row["batch"] / step), short(rate), f"{100 * rate / row['peak']['best_gflop_per_s']:.0f} %",
             f"{ours['peak_rss_bytes'] / 1e6:.0f}"]
    if theirs:
        cells += [short(1e3 * theirs["median_s"] / row["batch"]), theirs["form"], f"{theirs['peak_rss_bytes'] / 1e6:.0f}"]
    else:
        cells += ["-"] * 3
    return cells + [f"{onednn['sum_s'] / step:.2f}" if onednn else "-", f"{theirs['median_s'] / step:.2f}" if theirs else "-"]


WIDTHS = (12, 5, 7, 8, 6, 8, 7, 7, 5, 7, 22, 5, 6, 5)


def terminal_line(cells, ratio=0):
    text = "  ".join(cell.ljust(w) if i in (0, 10) else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, WIDTHS)))
    full = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    return text + "  " + full * min(round(4 * ratio), 32)


def can_show(row):
    """Whether a row has all that a table shows; a file may have others, of other tools and times."""
    try:
        markdown([row])
        return row["network"] in {**SMALL, **LARGE} and bool(key_of(row))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False


def markdown(rows):
    if not rows:
        return "nothing was measured yet\n"
    names = [*SMALL, *LARGE]
    rows = sorted(rows, key=lambda r: (names.index(r["network"]), r["batch"], -r["threads"]))
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(figures(row)) + " |" for row in rows]
    machine, peaks = rows[-1]["machine"], [row["peak"]["best_gflop_per_s"] for row in rows]
    versions = machine["versions"]
    made_with = [f"Brasa {versions['brasa']}", versions["compiler"], f"oneDNN {machine['onednn'] or 'none'}",
                 f"PyTorch {next((row['torch'] for row in reversed(rows) if row['torch']), 'none')}",
                 f"peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s ({rows[-1]['peak']['isa']})"]
    return "\n".join(lines) + f"""

{machine['cpu']}; {', '.join(made_with)}.
Medians, of one image; spread: of Brasa's steps or rounds, the larger; oneDNN: the sum of its fastest primitives, each timed
alone, over Brasa's step; ratio: PyTorch's step over Brasa's.
"""
