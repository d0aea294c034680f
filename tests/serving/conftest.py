"""Model files that the tests of the service serve."""

import contextlib
import functools
import warnings

import pytest
from sklearn.linear_model import Ridge

import recuse
from described_answers import DescribedClient
from recuse.serving import Settings, create_app
from saved_estimators import FRAME, ROWS, TRAIN, Y
from service_runs import records

ESTIMATORS = {
    "risk": (recuse.RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0), FRAME, Y),
    "cars": (recuse.RcRRegressor(6.0, epochs=5, random_state=0, n_members=1), TRAIN, Y),
    "cars_again": (recuse.RcRRegressor(6.0, epochs=5, random_state=1, n_members=1), TRAIN, Y),
    "array": (recuse.RcRRegressor(6.0, epochs=5, random_state=0, n_members=1), TRAIN.to_numpy(float), Y),
    "fee": (recuse.RiskRejector(Ridge(), cost="fee", cv=3, random_state=0), TRAIN.assign(fee=5.0), Y),
    "rows": (recuse.RcRRegressor(epochs=5, random_state=0, n_members=1), TRAIN, Y, {"cost": 2 + Y}),
    "strict": (recuse.RcRRegressor(6.0, epochs=5, random_state=0, n_members=1, unseen="error"), TRAIN, Y),
}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Return the folder of the model files."""
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the column that identifies rows
        for name, (estimator, X, y, *options) in ESTIMATORS.items():
            recuse.save(estimator.fit(X, y, **dict(*options)), folder / f"{name}.recuse")
    return folder


@pytest.fixture(scope="session")
def row():
    """Return a row of the model `risk` as JSON has it."""
    return records(ROWS.head(1).drop(columns="number"))[0]


def started(models, *names, **options):
    """Return a client of some models, which checks answers against their description."""
    settings = Settings({name: models / f"{name}.recuse" for name in names}, **options)
    return DescribedClient(create_app(settings), raise_server_exceptions=True)


@pytest.fixture
def serve(models):
    """Return a function that gives a new client of some models."""
    with contextlib.ExitStack() as clients:
        yield lambda *names, **options: clients.enter_context(started(models, *names, **options))


@pytest.fixture(scope="session")
def shared(models):
    """Return a function that gives a client of some models, the same one for the same models and options."""
    with contextlib.ExitStack() as clients:

        @functools.cache
        def start(*names, **options):
            return clients.enter_context(started(models, *names, **options))

        yield start
