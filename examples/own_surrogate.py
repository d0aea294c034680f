"""Properties of your own surrogate, and its RcR loss compared with two surrogates of the paper."""

import torch

from recuse import RcRRegressor, datasets, surrogates


def squared_hinge(r):
    return torch.relu(1 + r) ** 2, torch.relu(1 - r) ** 2


surrogates.register("squared_hinge", squared_hinge, overwrite=True)
print(surrogates.check("squared_hinge"))

train, validation, (X_test, y_test) = datasets.split(datasets.load("housing"), repeat=0)
for name in ("mae", "logistic", "squared_hinge"):
    model = RcRRegressor(cost=12.0, surrogate=name, epochs=300, random_state=0).fit(*train, validation=validation)
    print(f"{name:15} RcR loss {model.decide(X_test).evaluate(y_test)['rcr_loss']:.2f}")
