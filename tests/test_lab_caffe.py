"""What the lab's runner for Caffe makes without Caffe: the network and the solver as prototxt. Shapes are worked out
from the text by Caffe's rules and must be the network's; what Caffe cannot do is refused, with a reason.
"""
import importlib.util, json, os, runpy, sys, tempfile, types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import SOURCE, check, finish

PEERS = os.path.join(SOURCE, "lab", "peers")


def parse(text):
    """A message of text format: name -> list of values."""
    stack = [{}]
    for line in text.split("\n"):
        line = line.strip()
        if line.endswith("{"):
            message = {}
            stack[-1].setdefault(line[:-1].strip(), []).append(message)
            stack.append(message)
        elif line == "}":
            stack.pop()
        elif line:
            name, value = line.split(": ", 1)
            bare = value[0].isalpha()  # true, false, and words of enums
            stack[-1].setdefault(name, []).append(value if bare else json.loads(value))
    return stack[0]


def sides(layer, param, shape):
    """Kernel, stride and padding of both axes."""
    p = layer[param][0]
    return [[p.get("%s_%s" % (what, axis), [default])[0] for axis in "hw"] for what, default in
            (("kernel", 1), ("stride", 1), ("pad", 0))]


def shape_of(layer, inputs):
    """A layer's output by Caffe's rules, with N."""
    kind, x = layer["type"][0], inputs[0]
    if kind == "Convolution":
        p, (kernel, stride, pad) = layer["convolution_param"][0], sides(layer, "convolution_param", x)
        covers = [d * (k - 1) + 1 for d, k in zip(p.get("dilation", [1, 1]), kernel)]
        out = [(s + 2 * a - c) // t + 1 for s, a, c, t in zip(x[2:], pad, covers, stride)]
        return [x[0], p["num_output"][0]] + out
    if kind == "Pooling":
        p = layer["pooling_param"][0]
        if p.get("global_pooling") == ["true"]:
            return x[:2] + [1, 1]
        out, up = [], p.get("round_mode", ["CEIL"]) == ["CEIL"]
        for s, k, t, a in zip(x[2:], *sides(layer, "pooling_param", x)):
            n = (-(-(s + 2 * a - k) // t) if up else (s + 2 * a - k) // t) + 1
            out.append(n - 1 if a and (n - 1) * t >= s + a else n)
        return x[:2] + out
    if kind == "InnerProduct":
        return [x[0], layer["inner_product_param"][0]["num_output"][0]]
    if kind == "Reshape":
        dims, size = [x[0]] + layer["reshape_param"][0]["shape"][0]["dim"][1:], 1
        for side in x[1:]:
            size *= side
        return [size if d == -1 else d for d in dims]
    if kind == "Concat":
        return [x[0], sum(shape[1] for shape in inputs)] + x[2:]
    if kind == "Eltwise":
        return x if all(shape == x for shape in inputs) else None
    return x


def test_net(caffe, net, name, in_place):
    text, blobs = caffe["net_text"](net, 4, in_place)
    layers, shapes = parse(text)["layer"], {}
    names = [layer["name"][0] for layer in layers]
    check(name + ": names are each one layer's", len(set(names)) == len(names), names)
    holds = {"image": "image"}  # blob -> the value that lies in it
    wanted = {node.name: node for node in net.nodes}
    for layer in layers:
        kind, top = layer["type"][0], layer["top"][0]
        if kind == "Input":
            shapes[top] = layer["input_param"][0]["shape"][0]["dim"]
            continue
        bottoms, node = layer["bottom"], wanted.get(layer["name"][0])
        check("%s: %s is in place where it may" % (name, kind), top not in bottoms or kind in (
            "ReLU", "Dropout", "Scale"), layer)
        check("%s: %s reads what is there" % (name, layer["name"][0]), all(b in shapes for b in bottoms), bottoms)
        if node:
            inputs = [alias(net, value) for value in node.inputs]
            check("%s: %s reads its inputs" % (name, node.name), [holds[b] for b in bottoms] == inputs,
                  (bottoms, holds, inputs))
        holds[top] = node.output if node else holds[bottoms[0]]
        shapes[top] = shape_of(layer, [shapes[b] for b in bottoms])
    for node in net.nodes:
        found = shapes[blobs[node.output]]
        check("%s: shape of %s" % (name, node.name), found == [4] + list(node.shape), (found, node.shape))
    loss = layers[-1]
    check(name + ": loss", loss["type"] == ["SoftmaxWithLoss"] and shapes[loss["bottom"][0]] == [4, net.classes]
          and loss["bottom"][1] == "label" and shapes["label"] == [4], loss)
    return text, layers


def alias(net, value):
    """A node without a layer gives its input on."""
    node = net.maker.get(value)
    idle = node and {"adaptive_avgpool": node.shape == node.in_shape, "dropout": node.settings.get("p") == 0}
    return alias(net, node.inputs[0]) if idle and idle.get(node.op) else value


def refusal(function, *arguments):
    import runner
    try:
        function(*arguments)
    except runner.Refused as why:
        return str(why)
    return ""


def test_refusals(caffe, exchange):
    from lab_exchange import Builder
    first = {"conv": lambda b: b.conv("image", 2, 2, 1, (0, 1, 1, 0)), "relu6": lambda b: b.plain("relu6", "image"),
             "avgpool": lambda b: b.pool("avgpool", "image", 3, 2, (1, 1, 1, 1), count_pad=False),
             "lrn": lambda b: b.plain("lrn", "image", size=4, alpha=1.0, beta=1.0, k=1.0, divide=True),
             "multiply": lambda b: b.add("multiply", ["image", b.add("global_avgpool", "image", [3, 1, 1])],
                                         [3, 8, 8]),
             "adaptive": lambda b: b.add("adaptive_avgpool", "image", [3, 3, 3], size=[3, 3])}
    words = {"conv": "both ends", "relu6": "no layer 'relu6'", "avgpool": "counts the padding", "lrn": "odd size",
             "multiply": "one shape", "adaptive": "adaptive"}
    for name, make in first.items():
        b = Builder((3, 8, 8))
        b.dense(b.flatten(make(b)), 4, name="logits")
        net = exchange(name, b)
        check("refused: " + name, words[name] in refusal(caffe["net_text"], net, 4))
    b = Builder((3, 8, 8))
    b.dense(b.flatten(b.pool("maxpool", "image", 3, 2)), 4, name="logits")
    net = exchange("down", b)
    check("refused: a pool that rounds down", "rounds down" in refusal(caffe["net_text"], net, 4, False, False))
    check("rounds down", "round_mode: FLOOR" in caffe["net_text"](net, 4)[0])


def test_solver(caffe):
    import runner
    plain = {"dialect": "caffe", "lr": 0.1}

    def solver(**settings):
        rule = runner.Rule({"optimizer": dict(plain, **settings)})
        made = caffe["solver_text"], rule, "a \"net\"", 7
        return refusal(*made) or parse(made[0](*made[1:]))

    def has(name, made, **fields):
        check("solver: " + name, isinstance(made, dict) and made["train_net"] == ["a \"net\""]
              and all(made.get(key) == [value] for key, value in fields.items()), made)

    has("sgd", solver(name="sgd", momentum=0.9), type="SGD", base_lr=0.1, momentum=0.9, lr_policy="fixed",
        solver_mode="CPU", weight_decay=0.0)
    has("nesterov", solver(name="sgd", momentum=0.9, nesterov=True, weight_decay=0.1), type="Nesterov",
        weight_decay=0.1)
    has("decay", solver(name="sgd", decay=0.5), lr_policy="inv", gamma=0.5, power=1.0)
    has("rmsprop", solver(name="rmsprop", rho=0.8, epsilon=1e-3), type="RMSProp", rms_decay=0.8, delta=1e-3)
    has("adadelta", solver(name="adadelta", lr=1, rho=0.8, epsilon=1e-3), type="AdaDelta", momentum=0.8, delta=1e-3)
    has("adam", solver(name="adam", beta1=0.8, beta2=0.9), type="Adam", momentum=0.8, momentum2=0.9)
    for settings in (dict(name="adam", dialect="torch"), dict(name="rmsprop", dialect="tfkeras"),
                     dict(name="rmsprop", momentum=0.5), dict(name="adamw"),
                     dict(name="sgd", momentum=0.9, weight_decay=0.1, dialect="tfkeras"),
                     dict(name="sgd", momentum=0.9, decay=0.5, dialect="torch")):
        check("solver: refused: %s" % settings, isinstance(solver(**settings), str), settings)


def main():
    import runner
    from lab_exchange import NETWORKS
    caffe = runpy.run_path(os.path.join(PEERS, "caffe.py"))
    with tempfile.TemporaryDirectory() as folder:
        def exchange(name, builder, mode="train"):
            path = os.path.join(folder, name + ".json")
            with open(path, "w") as file:
                json.dump(builder.graph(name), file)
            return runner.Network({"mode": mode, "graph": path, "weights": ""})

        for name, make in [(name, NETWORKS[name]) for name in ("small", "table", "classic")]:
            test_net(caffe, exchange(name, make()), name, True)
            text, layers = test_net(caffe, exchange(name, make(), "check"), name + " (check)", False)
            check(name + ": nothing in place in check mode", all(
                layer["top"][0] not in layer.get("bottom", []) for layer in layers if layer["type"][0] != "Scale"))
            check(name + ": no dropout in check mode", "Dropout" not in text)
        net = exchange("classic", NETWORKS["classic"]())
        text, layers = test_net(caffe, net, "classic again", True)
        first = {layer["name"][0]: layer for layer in layers}
        check("names in capitals stay text", 'name: "FIRST"' in text)
        check("LRN's alpha is what Caffe divides", first["lrn2"]["lrn_param"][0]["alpha"] == [1.5], first["lrn2"])
        check("statistics do not learn", len(first["batchnorm5"]["param"]) == 3, first["batchnorm5"])
        check("relu in place", first["relu1"]["top"] == first["relu1"]["bottom"] == ["FIRST"], first["relu1"])
        check("wide is refused", refusal(caffe["net_text"], exchange("wide", NETWORKS["wide"]()), 4))
        test_refusals(caffe, exchange)
    test_solver(caffe)


if __name__ == "__main__":
    if not importlib.util.find_spec("numpy"):
        sys.modules["numpy"] = types.ModuleType("numpy")  # runners import it; for text nothing of it is used
    sys.path.insert(0, PEERS)
    main()
    finish()
