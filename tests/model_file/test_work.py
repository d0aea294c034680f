"""The work of a decision is bounded at load, and the service runs only cheap decisions on its event loop."""

import asyncio
import time
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest

import recuse
from model_files import fuzz
from recuse.model_file.container import GRAPH, read_container
from recuse.model_file.errors import ModelFileError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.check import MAX_OPERATIONS, measure_graph
from recuse.model_file.session import open_session, run_session

FILE = Path(__file__).parent / "files" / "format-1.recuse"
ROW = {"cylinders": 4, "displacement": 97.0, "horsepower": 88.0, "weight": 2130.0, "acceleration": 14.5}
ROW |= {"model_year": 71.0, "origin": 3}


def forged(path, products):
    """Write a file with the header of a saved model, whose graph multiplies a vector by a matrix many times."""
    header, parts, _ = read_container(FILE)
    declared = fuzz._signature(onnx.load_model_from_string(parts[GRAPH]))
    graph, size = GraphBuilder(), 2000
    inputs = {name: graph.input(name, dtype, tuple(shape)) for name, (dtype, shape) in declared["inputs"].items()}
    matrix = graph.constant(np.full((size, 1), 5e-4)) @ graph.constant(np.ones((1, size)))
    vector = inputs["weight"] * graph.constant(np.ones((1, size)))
    for _ in range(products):
        vector = vector @ matrix
    number = vector.max(axis=1)
    for name in declared["outputs"]:
        graph.output(name, number > 0.0 if name == "accepted" else number)
    path.write_bytes(fuzz.container(header, {**parts, GRAPH: graph.model().SerializeToString()}))
    return path


def seconds_of_an_operation(model):
    """Return the processor time of a decision about one row, divided by the bound of its operations."""
    data, declared = model.SerializeToString(), fuzz._signature(model)
    size = measure_graph(data, declared["inputs"], declared["outputs"])
    session, feeds = open_session(data, nodes=size.nodes), {"x": np.ones((1, 3))}
    times = []
    for _ in range(4):
        start = time.process_time()
        run_session(session, feeds, ["y"])
        times.append(time.process_time() - start)
    return min(times) / size.operations


def chain(operator, n_nodes):
    """Return a graph that applies an operator many times to 1,500 numbers."""
    graph = GraphBuilder()
    value = graph.input("x", "double", (-1, 3)).reshape(-1, 3, 1) * graph.constant(np.ones((1, 1, 500)))
    for _ in range(n_nodes):
        value = value.unary(operator)
    graph.output("y", value)
    return graph.model()


def test_a_file_of_much_work_is_refused(tmp_path):
    path = forged(tmp_path / "slow.recuse", products=2500)  # 20 s for one row
    assert path.stat().st_size < 700_000
    reason = (
        r"up to 30,[\d,]+ operations for each row, 0.053% of them in node \d+ \(MatMul\), more than the limit of 1,0"
    )
    with pytest.raises(ModelFileError, match=reason):
        recuse.load(path)


def test_a_model_tells_the_bound_of_its_work(tmp_path):
    saved, heavy = recuse.load(FILE), recuse.load(forged(tmp_path / "heavy.recuse", products=10))
    assert saved.operations_per_row < 0.001 * MAX_OPERATIONS < heavy.operations_per_row < MAX_OPERATIONS
    assert saved.info()["operations_per_row"] == saved.operations_per_row
    assert heavy.operations_per_row > 10 * 2000 * 2000 / 16


@pytest.mark.parametrize("name", ["slow products", "slow pairs", "slow convolutions"])
def test_an_operation_of_a_slow_graph_takes_as_long_as_one_of_a_usual_graph(name):
    # the convolutions are of denormal numbers, with which processors of the x86 family take 80 times as long
    slow = fuzz.slow_graphs(0.01)[name]
    assert seconds_of_an_operation(slow) < 10 * seconds_of_an_operation(chain("Exp", 300))


def test_weights_of_networks_below_the_normal_range_are_saved_as_zero():
    graph = GraphBuilder()
    weights = graph.constant(np.array([[1.0, 1e-40, -1e-41], [np.nan, np.inf, -0.5]]), "float")
    np.testing.assert_array_equal(weights.signature.value, np.float32([[1, 0, 0], [np.nan, np.inf, -0.5]]))


def test_a_chain_of_many_nodes_is_opened_without_a_plan_of_the_memory():
    data, times = chain("Abs", 1500).SerializeToString(), []
    for nodes in (1500, 0):  # with a plan for small graphs only, its time grows with the square of the nodes
        start = time.process_time()
        open_session(data, nodes=nodes)
        times.append(time.process_time() - start)
    assert times[0] < times[1] / 2


def test_a_long_decision_does_not_stall_the_service(tmp_path):
    pytest.importorskip("fastapi")
    from recuse.serving import Settings, create_app

    app = create_app(Settings({"slow": forged(tmp_path / "slow.recuse", products=60)}))  # 0.3 s for one row
    ticks = []

    async def tick():
        while True:
            ticks.append(time.perf_counter())
            await asyncio.sleep(0.001)

    async def decide():
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        async with app.router.lifespan_context(app), client:
            ticker, start = asyncio.create_task(tick()), time.perf_counter()
            answer = await client.post("/predict", json={"row": ROW})
            seconds = time.perf_counter() - start
            ticker.cancel()
        return answer.status_code, seconds, max(np.diff([start, *ticks, start + seconds]))

    status, seconds, longest_gap = asyncio.run(decide())
    assert status == 200
    assert longest_gap < seconds / 2  # the loop went on meanwhile
