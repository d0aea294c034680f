import subprocess
import sys
from collections import Counter
from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from model_files import fuzz
from recuse.model_file.container import GRAPH
from recuse.model_file.errors import ModelFileError
from recuse.model_file.graph import check
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.check import MAX_BLOCK, measure_graph
from recuse.model_file.graph.operators import OPERATORS, ROWS, Signature, infer
from recuse.model_file.session import open_session, run_session

HOSTILE = fuzz.hostile_graphs()
REASONS = {
    "unknown operator": "Loop",
    "unknown domain": "not an operator",
    "subgraph": "its attribute has the field 6",
    "attribute of wrong kind": "another kind than int",
    "attribute of unknown kind": "its attribute has the field 2",
    "rows on two axes": "one of rows",
    "cycle": "no earlier node",
    "defined twice": "defined twice",
    "squeeze without axes": "must be positive",
    "empty constant": "must be positive",
    "text constant": "its tensor has the field 6",
    "joins": "bytes of memory",
    "broadcasts": "bytes of memory",
    "products of constants": "bytes of memory",
    "huge window": "not valid",
    "many nodes": "more than 10000",
    "old operators": "operator sets",
    "function": "its model has the field 25",
    "training": "its model has the field 20",
    "external data": "its tensor has the field 13",
    "data of wrong length": "24 bytes",
    "data with overflow": "24 bytes",
    "sparse": "its graph has the field 15",
    "default of an input": "defined twice",
    "tree with a cycle": "later nodes",
    "two trees with one node": "one parent",
    "deep tree": "depth",
    "many targets": "targets",
    "slow products": "operations for each row",
    "slow pairs": "operations for each row",
    "slow convolutions": "operations for each row",
    "slow denormal weights": "operations for each row",
}


def checked(model):
    declared = fuzz._signature(model)
    return measure_graph(model.SerializeToString(), declared["inputs"], declared["outputs"]).block


def small():
    graph = GraphBuilder()
    graph.output("y", graph.input("x", "double", (ROWS, 3)) * 2.0)
    return graph.model()


@pytest.mark.parametrize("place", range(len(fuzz.models())))
def test_built_graphs_pass(place):
    header, parts = fuzz.models()[place]
    assert measure_graph(parts[GRAPH], header["inputs"], header["outputs"]).block == MAX_BLOCK


def test_every_attribute_has_a_kind():
    assert {name for rule in OPERATORS.values() for name in rule.attributes} == set(check.ATTRIBUTE_KINDS)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs_are_refused(name):
    with pytest.raises(ModelFileError, match=REASONS.get(name, "the graph is not valid")):
        checked(HOSTILE[name])


@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("divisor", [[0], [-1], [3, 0], None])
def test_integers_are_divided_by_positive_constants(operator, divisor):
    number = Signature("int64", (ROWS, 2))
    by = number if divisor is None else Signature("int64", (len(divisor),), np.array(divisor))
    with pytest.raises(ValueError, match="positive constant"):
        infer(operator, [number, by], {})


@pytest.mark.parametrize(
    ("operator", "shape", "second", "attributes"),
    [
        ("Squeeze", (ROWS, 1), [], {}),
        ("Unsqueeze", (ROWS, 1), [0] * 7, {}),
        ("Unsqueeze", (ROWS, 1, 1, 1, 1, 1), [0], {}),
        ("ReduceSum", (ROWS, 2), [1], {"keepdims": 2}),
        ("TopK", (ROWS, 2), [3], {}),
        ("TopK", (ROWS, 2), [-1], {}),
        ("TopK", (ROWS, 2), 1, {}),
        ("TopK", (ROWS, 2), [1], {"largest": 7}),
        ("Reshape", (ROWS, 2), [0, 2], {}),
        ("Reshape", (ROWS, 2), [-1, -1], {}),
        ("Reshape", (ROWS, 2), [2**62, 4], {}),
        ("Gather", (ROWS, 2), [2], {"axis": 1}),
        ("Gather", (ROWS, 2), [-1], {"axis": 1}),
        ("Gather", (ROWS, 2), [0], {"axis": 0}),
        ("Gather", (ROWS, 2), [0], {"axis": 2**40}),
    ],
)
def test_second_inputs_that_would_not_fit(operator, shape, second, attributes):
    constant = np.array(second, dtype=np.int64)
    with pytest.raises(ValueError, match=r"."):
        infer(operator, [Signature("double", shape), Signature("int64", constant.shape, constant)], attributes)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Transpose", {"perm": [0, 0, 1, 2]}),
        ("Softmax", {"axis": 0}),
        ("Softmax", {"axis": -5}),
        ("Concat", {}),
        ("Concat", {"axis": 0}),
        ("MaxPool", {}),
        ("MaxPool", {"kernel_shape": [2]}),
        ("MaxPool", {"kernel_shape": [0, 2]}),
        ("MaxPool", {"kernel_shape": [65, 65]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [0, 1]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2**62, 1]}),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]}),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}),
        ("Cast", {"to": 8}),
        ("Cast", {}),
        ("TreeEnsemble", {}),
        ("Add", {"axis": 1}),
    ],
)
def test_attributes_that_would_not_fit(operator, attributes):
    with pytest.raises(ValueError, match=r"."):
        infer(operator, [Signature("float", (ROWS, 2, 8, 8))], attributes)


@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((4, 2, 3, 3), {"kernel_shape": [5, 5]}),
        ((4, 2, 3, 3), {"group": 0}),
        ((4, 2, 3, 3), {"group": -1}),
        ((4, 1, 3, 3), {"group": 3}),
        ((4, 2, 9, 9), {}),
        ((4, 2, 3), {}),
    ],
)
def test_convolutions_that_would_not_fit(kernel, attributes):
    weights = Signature("float", kernel, np.ones(kernel, dtype=np.float32))
    with pytest.raises(ValueError, match=r"."):
        infer("Conv", [Signature("float", (ROWS, 2, 8, 8)), weights], attributes)


def test_a_tree_may_not_be_deeper_than_the_stack_allows():
    table = Signature("double", (ROWS, 3))
    assert infer("TreeEnsemble", [table], fuzz.comb(512)) == [Signature("double", (ROWS, 1))]
    with pytest.raises(ValueError, match="depth of at most 512"):
        infer("TreeEnsemble", [table], fuzz.comb(513))


def test_what_the_header_declares_must_be_in_the_graph():
    data = small().SerializeToString()
    table = ("double", (ROWS, 3))
    measure_graph(data, {"x": table}, {"y": table})
    for inputs, outputs in [
        ({"z": table}, {"y": table}),
        ({"x": ("float", (ROWS, 3))}, {"y": table}),
        ({"x": ("double", (ROWS, 4))}, {"y": table}),
        ({"x": ("double", (3, ROWS))}, {"y": table}),
        ({"x": table, "z": table}, {"y": table}),
        ({"x": table}, {}),
        ({"x": table}, {"y": ("bool", (ROWS, 3))}),
    ]:
        with pytest.raises(ModelFileError, match="declares"):
            measure_graph(data, inputs, outputs)


@pytest.mark.parametrize("change", ["type", "shape", "not computed", "rows", "no shape", "twice"])
def test_declared_outputs_must_be_what_the_nodes_compute(change):
    model = small()
    output = model.graph.output[0]
    if change == "type":
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    elif change == "shape":
        output.type.tensor_type.shape.dim[1].dim_value = 4
    elif change == "not computed":
        output.name = "x"
    elif change == "rows":
        output.type.tensor_type.shape.dim[0].dim_param = "batch"
    elif change == "no shape":
        output.type.tensor_type.ClearField("shape")
    else:
        model.graph.output.append(output)
    with pytest.raises(ModelFileError, match=r"outputs? "):
        checked(model)


@pytest.mark.parametrize("shape", [("rows", "rows"), ("rows", 0), ("rows", -5), ("rows", 1, 1, 1, 1, 1, 1), (2**62,)])
def test_shapes_of_inputs_are_bounded(shape):
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name in ("x", "y")]
    model = small()
    model.graph.CopyFrom(helper.make_graph(nodes, "decision", values[:1], values[1:]))
    with pytest.raises(ModelFileError, match=r"axes|positive|memory"):
        checked(model)


def test_constants_of_other_types_are_refused():
    for dtype in set(TensorProto.DataType.values()) - {1, 2, 7, 9, 11}:
        model = small()
        model.graph.initializer[0].data_type = dtype
        with pytest.raises(ModelFileError, match="is not allowed"):
            checked(model)


def test_truth_values_are_0_or_1():
    model = small()
    model.graph.initializer.append(helper.make_tensor("flag", TensorProto.BOOL, [1], b"\x07", raw=True))
    with pytest.raises(ModelFileError, match="truth values"):
        checked(model)


def test_attributes_have_one_value_of_their_kind():
    graph = GraphBuilder()
    graph.output("y", graph.input("x", "double", (ROWS, 3)).unary("Softmax", axis=1))
    for change in (
        {"type": 1},
        {"type": 7},
        {"type": 0},
        {"f": 1.0},
        {"ints": [1]},
        {"name": "unknown"},
        {"name": "to"},
    ):
        model = graph.model()
        attribute = model.graph.node[0].attribute[0]
        attribute.MergeFrom(onnx.AttributeProto(**change))
        with pytest.raises(ModelFileError, match="attribute"):
            checked(model)


def test_unknown_and_repeated_fields_are_refused():
    data = small().SerializeToString()
    declared = {"x": ("double", (ROWS, 3))}, {"y": ("double", (ROWS, 3))}
    for more in (b"\x08\x0a", b"\xf8\x07\x01", b"\x30\x01", b"\x0f", b"\x80\x00", b"\xff" * 11, b"\x3a\x05"):
        with pytest.raises(ModelFileError, match="the graph is not valid"):
            measure_graph(data + more, *declared)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda data: b"\x08\x0a\x3a" + bytes([len(data)]) + data))
def test_any_bytes_are_refused(data):
    with pytest.raises(ModelFileError):
        measure_graph(data, {}, {})


def test_many_integers_are_read_as_protobuf_reads_them():
    values = np.resize(np.array([0, 127, 128, 2**40, -1, 3, 2**63 - 1]), 500_000).tolist()
    attribute = onnx.AttributeProto(name="perm", type=7, ints=values).SerializeToString()
    assert check.read_message(memoryview(attribute), check.NODE.fields[5].kind)["ints"].tolist() == values
    for end in (b"\x40", b"\x40\xff", b"\x40" + b"\xff" * 2**21):
        with pytest.raises(ModelFileError, match="cut off"):
            check.read_message(memoryview(b"\x40\1" * 100 + end), check.NODE.fields[5].kind)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), min_size=1, max_size=200))
def test_integers_are_read_as_protobuf_reads_them(values):
    attribute = onnx.AttributeProto(name="perm", type=7, ints=values)
    read = check.read_message(memoryview(attribute.SerializeToString()), check.NODE.fields[5].kind)
    assert read["ints"].tolist() == values
    assert (read["name"], read["type"]) == ("perm", 7)


def test_all_values_are_read_as_protobuf_reads_them():
    for _, parts in fuzz.models():
        expected = onnx.load_model_from_string(parts[GRAPH]).graph
        found = check.read_message(memoryview(parts[GRAPH]), check.MODEL)["graph"]
        nodes = [check.read_message(node, check.NODE) for node in found["node"]]
        assert [node["op_type"] for node in nodes] == [node.op_type for node in expected.node]
        for tensor, other in zip(found["initializer"], expected.initializer, strict=True):
            np.testing.assert_array_equal(check._constant(tensor, "").value, onnx.numpy_helper.to_array(other))


def calls_to_check(n_nodes):
    """Return how many functions the check of a forest of trees with 100 nodes calls, those of numpy included."""
    nodes = np.arange(n_nodes)
    last = nodes % 100 == 99
    forest = {
        **fuzz.trees(),
        "nodes_featureids": nodes % 3,
        "nodes_splits": np.zeros(len(nodes)),
        "nodes_modes": np.zeros(len(nodes), dtype=np.uint8),
        "nodes_truenodeids": np.where(last, 0, nodes + 1),
        "nodes_falsenodeids": nodes % 6,
        "nodes_trueleafs": last.astype(np.int64),
        "nodes_falseleafs": np.ones_like(nodes),
        "tree_roots": nodes[::100],
    }
    graph, counts = GraphBuilder(), Counter()
    graph.output("y", graph.node("TreeEnsemble", graph.input("x", "double", (ROWS, 3)), **forest))
    data = graph.model().SerializeToString()
    sys.setprofile(lambda frame, event, argument: counts.update([event]))
    try:
        measure_graph(data, {"x": ("double", (ROWS, 3))}, {"y": ("double", (ROWS, 1))})
    finally:
        sys.setprofile(None)
    return counts["call"] + counts["c_call"]


def test_a_large_forest_is_checked_with_arrays_and_not_node_by_node():
    assert calls_to_check(100_000) < 1.2 * calls_to_check(1000)


def test_wide_graphs_decide_fewer_rows_at_once():
    graph = GraphBuilder()
    x = graph.input("x", "float", (ROWS, 3, 224, 224))
    kernel = graph.constant(np.ones((64, 3, 7, 7)), "float")
    x = graph.node("Conv", x, kernel, kernel_shape=[7, 7], pads=[3, 3, 3, 3], strides=[2, 2]).unary("Relu")
    graph.output("y", graph.node("GlobalAveragePool", x))
    rows = checked(graph.model())
    assert 20 < rows < 60


def test_random_graphs_run_as_the_check_foresees():
    code = (
        "import sys, numpy as np; sys.path.insert(0, sys.argv[1]); from model_files import fuzz; "
        "from model_file.graph.test_check import runs_as_foreseen; "
        "print(sum(runs_as_foreseen(np.random.default_rng(seed)) for seed in range(30)))"
    )
    tests = str(fuzz.Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code, tests], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 20


def runs_as_foreseen(rng):
    """Run a random graph; the shapes of its results must be the declared ones."""
    model = fuzz.random_graph(rng).model()
    declared = fuzz._signature(model)
    checked(model)
    with suppress(ModelFileError):  # such as indices that are out of range
        session = open_session(model.SerializeToString())
        feeds = {name: fuzz.some_rows(3, *each) for name, each in declared["inputs"].items()}
        results = run_session(session, feeds, list(declared["outputs"]))
        for found, (_, shape) in zip(results, declared["outputs"].values(), strict=True):
            assert found.shape == tuple(3 if size == ROWS else size for size in shape)
        return True
    return False


def test_errors_of_the_runtime_are_errors_of_the_file():
    with pytest.raises(ModelFileError, match="ONNX Runtime does not accept"):
        open_session(b"nothing")
    graph = GraphBuilder()
    x = graph.input("x", "double", (ROWS,))
    graph.output("y", graph.constant([1.0, 2.0]).take(x.cast("int64"), axis=0))
    with pytest.raises(ModelFileError, match="ONNX Runtime cannot compute"):
        run_session(open_session(graph.model().SerializeToString()), {"x": np.array([1e18])}, ["y"])


def test_hostile_files_in_a_worker():
    report = fuzz.run(fuzz.saved_models(estimators=False), count=100, seed=1)
    report.print()
    assert report.failures == 0
    assert report.counts["untouched", "same decisions"] == 4
