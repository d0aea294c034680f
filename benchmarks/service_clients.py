"""Clients that others wrote get decisions from `recuse serve`: MLflow's scoring client and Triton's HTTP client.

Each client runs in an environment of its own:

    python benchmarks/service_clients.py --mlflow PATH/bin/python --triton PATH/bin/python
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import recuse
from service import make_models, running, serve

_MLFLOW = """
import sys
import numpy as np, pandas as pd, requests
from mlflow.deployments import PredictionsResponse
from mlflow.pyfunc.scoring_server import CONTENT_TYPE_CSV, CONTENT_TYPE_JSON
from mlflow.pyfunc.scoring_server.client import ScoringServerClient
from mlflow.utils.proto_json_utils import dump_input_data
def posted(data, kind):
    url = f"http://{sys.argv[1]}:{sys.argv[2]}/invocations"
    answer = requests.post(url, data, headers={"Content-Type": kind})
    return PredictionsResponse.from_json(answer.text).get_predictions()
table = pd.read_csv(sys.argv[3])
client = ScoringServerClient(sys.argv[1], sys.argv[2])
client.wait_server_ready()
print("version", client.get_version(), file=sys.stderr)
frames = [
    client.invoke(table).get_predictions(),
    client.invoke(table.to_numpy()).get_predictions(),
    posted(table.to_csv(index=False), CONTENT_TYPE_CSV),
    posted(dump_input_data(table.to_numpy(), inputs_key="instances"), CONTENT_TYPE_JSON),
]
holes = table.copy(); holes.iloc[0, 0] = np.nan
assert len(client.invoke(holes, params={"cost": 30.0}).get_predictions()) == len(table)
assert all(frame.equals(frames[0]) for frame in frames)
frames[0][["prediction", "accepted"]].to_csv(sys.stdout, index=False)
"""

_TRITON = """
import csv, sys
import numpy as np
import tritonclient.http as triton
with open(sys.argv[3]) as file:
    names, *lines = csv.reader(file)
table = np.array(lines, dtype=np.float64)
client = triton.InferenceServerClient(f"{sys.argv[1]}:{sys.argv[2]}")
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("auto")
print(client.get_server_metadata(), file=sys.stderr)
metadata = client.get_model_metadata("auto")
assert [each["name"] for each in metadata["inputs"]] == names
def tensor(name, values, datatype):
    return triton.InferInput(name, list(values.shape), datatype).set_data_from_numpy(values, binary_data=False)
inputs = [tensor(name, table[:, place], "FP64") for place, name in enumerate(names)]
text = tensor(names[0], table[:, 0].astype(str).astype(object), "BYTES")
outputs = [triton.InferRequestedOutput(name, binary_data=False) for name in ("prediction", "accepted")]
results = [
    client.infer("auto", inputs),
    client.infer("auto", inputs, outputs=outputs),
    client.infer("auto", [tensor("rows", table, "FP64")], model_version=metadata["versions"][0]),
    client.infer("auto", [text, *inputs[1:]], request_id="7"),
]
found = [(result.as_numpy("prediction"), result.as_numpy("accepted")) for result in results]
assert all(np.array_equal(each, first) for parts in found for each, first in zip(parts, found[0]))
try:
    client.infer("nothing", inputs)
except triton.InferenceServerException as error:
    assert error.status() == "404", error
writer = csv.writer(sys.stdout)
writer.writerows([("prediction", "accepted"), *zip(found[0][0].tolist(), found[0][1].tolist())])
"""


def main() -> None:
    """Compare the decisions that the clients get with those of the model file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlflow", help="Python of an environment with mlflow")
    parser.add_argument("--triton", help="Python of an environment with tritonclient[http]")
    parser.add_argument("--folder", type=Path, help="where the models are kept for the next run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, rows = arguments.folder or Path(temporary), Path(temporary) / "rows.csv"
        make_models(folder)
        table = recuse.datasets.load("concrete").X.head(50)
        table.to_csv(rows, index=False)
        expected = recuse.load(folder / "auto.recuse").decide(table)
        with running(serve(folder / "auto.recuse")) as ((host, port), _):
            for name, python, code in (("MLflow", arguments.mlflow, _MLFLOW), ("Triton", arguments.triton, _TRITON)):
                if python:
                    _check(name, [python, "-c", code, host, str(port), str(rows)], expected)


def _check(name: str, command: list[str], expected: recuse.Decision) -> None:
    import io

    import pandas as pd

    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(f"{name}'s client failed")
    found = pd.read_csv(io.StringIO(result.stdout))
    error = (found["prediction"] - expected.prediction).abs().max()
    same = (found["accepted"] == expected.accepted).all() and error < 1e-9
    print(f"{name}'s client: {len(found)} decisions, {'the same as' if same else 'DIFFERENT FROM'} those of the file")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
