"""What three steps of a small network give, computed by numpy in double: the optimizers of docs/dialects.md."""
import numpy


def update(o, p, g, memory, step):
    """The new parameter; memory is a dict that this parameter keeps."""
    dialect, name, rate = o["dialect"], o["name"], o["lr"] / (1 + o["decay"] * step)
    inside, hat = dialect != "torch", dialect != "torch"
    decoupled = name == "adamw" or dialect == "tfkeras"
    v, d, m = (memory.get(key, 0.0) for key in "vdm")
    g = g if decoupled else g + o["weight_decay"] * p
    shrunk = p - rate * o["weight_decay"] * p if decoupled else p
    if name == "sgd":
        v = o["momentum"] * v + (rate if inside else 1) * g
        move = (rate if inside else 1) * g + o["momentum"] * v if o["nesterov"] else v
        move = move if inside else rate * move
    elif name == "rmsprop":
        v = o["rho"] * v + (1 - o["rho"]) * g * g
        root = numpy.sqrt(v + o["epsilon"]) if dialect == "tfkeras" else numpy.sqrt(v) + o["epsilon"]
        m = o["momentum"] * m + (rate if inside else 1) * g / root
        move = m if inside else rate * m
    elif name == "adadelta":
        v = o["rho"] * v + (1 - o["rho"]) * g * g
        move = g * numpy.sqrt(d + o["epsilon"]) / numpy.sqrt(v + o["epsilon"])
        d = o["rho"] * d + (1 - o["rho"]) * move * move
        move = rate * move
    else:
        m, v = o["beta1"] * m + (1 - o["beta1"]) * g, o["beta2"] * v + (1 - o["beta2"]) * g * g
        c1, c2 = 1 - o["beta1"] ** (step + 1), 1 - o["beta2"] ** (step + 1)
        if hat:
            move = rate * numpy.sqrt(c2) / c1 * m / (numpy.sqrt(v) + o["epsilon"])
        else:
            move = rate * (m / c1) / (numpy.sqrt(v / c2) + o["epsilon"])
    memory.update(v=v, d=d, m=m)
    return shrunk - move


def losses(exchange, optimizer):
    """Of lab_exchange's network `table`: dense, relu, dense."""
    names = [node["name"] for node in exchange.net.nodes if node["op"] == "dense"]
    weights = exchange.net.weights
    p = [weights["%s.%s" % (name, what)].astype("float64") for name in names for what in ("weight", "bias")]
    memory, result = [{} for _ in p], []
    for step in range(3):
        x, y = exchange.batches["samples.%d" % step].astype("float64"), exchange.batches["labels.%d" % step]
        hidden = numpy.maximum(x @ p[0].T + p[1], 0)
        logits = hidden @ p[2].T + p[3]
        soft = numpy.exp(logits - logits.max(1, keepdims=True))
        soft /= soft.sum(1, keepdims=True)
        rows = numpy.arange(len(y))
        result.append(float(-numpy.log(soft[rows, y]).mean()))
        soft[rows, y] -= 1
        soft /= len(y)
        back = (soft @ p[2]) * (hidden > 0)
        g = [back.T @ x, back.sum(0), soft.T @ hidden, soft.sum(0)]
        p = [update(optimizer, *args, step) for args in zip(p, g, memory)]
    return result
