"""
Your own network
================

A torch module with one output, as regressor and rejector of RcRRegressor. The figure shows its training.
"""

import matplotlib.pyplot as plt
from torch import nn

from recuse import RcRRegressor, datasets, displays


def network(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 32), nn.SiLU(), nn.Dropout(0.1), nn.Linear(32, 1))


train, validation, (X_test, y_test) = datasets.split(datasets.load("housing"), repeat=0)
model = RcRRegressor(cost=12.0, network=network, epochs=100, learning_rate=1e-2, n_members=2, random_state=0)
model.fit(*train, validation=validation)
print(model.decide(X_test))
print({name: round(value, 3) for name, value in model.decide(X_test).evaluate(y_test).items()})

# %%
# Before the rejector starts, the regressor is trained alone.
displays.TrainingCurveDisplay.from_estimator(model)
plt.show()
