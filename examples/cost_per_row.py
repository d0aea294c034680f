"""
A cost for each row
===================

Rows with different costs, and other costs for new rows. The data are generated, so the lowest possible loss is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from recuse import RcRRegressor, datasets

X, y, mean, variance = datasets.make_heteroscedastic(2000, random_state=0)
costs = np.random.default_rng(0).uniform(0.2, 3.0, size=len(X))  # the fee of the expert who is available for that row

model = RcRRegressor(epochs=100, n_members=3, random_state=0).fit(X, y, cost=costs)

X_new, y_new, _, variance_new = datasets.make_heteroscedastic(3000, random_state=1)
prices = np.array([0.3, 0.6, 1.0, 1.5, 2.0, 2.5])
losses, best = [], []
for cost in prices:
    measures = model.decide(X_new, cost=cost).evaluate(y_new)
    losses.append(measures["rcr_loss"])
    best.append(np.minimum(variance_new, cost).mean())
    print(f"cost {cost:3}: rejects {measures['rejection_rate']:4.0%}, loss {losses[-1]:.3f}, Bayes risk {best[-1]:.3f}")

# %%
# One fit serves all costs of the range that it was trained with.
figure, ax = plt.subplots(layout="constrained")
ax.plot(prices, losses, "o-", label="model")
ax.plot(prices, best, "k--", label="lowest possible loss")
ax.set(xlabel="cost of a rejection", ylabel="RcR loss of new rows", ylim=(0, None))
ax.legend()
plt.show()
