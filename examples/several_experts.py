"""
Several experts
===============

Rows shared among a model and two experts, of which one can take a tenth of the rows only.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from recuse import DeferralRegressor, datasets


def answers(X, y, seed):
    """The senior is exact; the junior is as good on some rows only."""
    noise = np.random.RandomState(seed).normal(size=(2, len(y)))
    return {"senior": y + 0.1 * noise[0], "junior": y + np.where(X[:, 1] > 0, 1.5, 0.3) * noise[1]}


X, y, _, _ = datasets.make_heteroscedastic(800, random_state=0)
X_new, y_new, _, _ = datasets.make_heteroscedastic(1000, random_state=1)

recorded = answers(X, y, seed=0)
experts = {"senior": (recorded["senior"], 0.9, 0.1), "junior": (recorded["junior"], 0.2)}  # predictions, fee, capacity
trees = ExtraTreesRegressor(30, min_samples_leaf=5)
model = DeferralRegressor(experts, regressor=trees, risk=trees, random_state=0).fit(X, y)

decision = model.decide(X_new)
print(decision)
measures = decision.evaluate(y_new, answers(X_new, y_new, seed=2))
print(measures[["rows", "loss", "fee", "total"]].round(3))

# %%
# Who takes which rows: noise grows with the first feature, and the junior is bad where the second is positive.
figure, ax = plt.subplots(layout="constrained")
for name in ("model", "junior", "senior"):
    rows = decision.takes == name
    ax.scatter(X_new[rows, 0], X_new[rows, 1], s=12, label=name)
ax.set(xlabel="first feature", ylabel="second feature")
ax.legend(title="takes the row", loc="upper left")
plt.show()
