"""A different cost for each row, and other costs for new rows."""

import numpy as np

from recuse import RcRRegressor, datasets

X, y, mean, variance = datasets.make_heteroscedastic(3000, random_state=0)
costs = np.random.default_rng(0).uniform(0.2, 3.0, size=len(X))  # the fee of the expert who is available for that row

model = RcRRegressor(epochs=150, random_state=0).fit(X, y, cost=costs)

X_new, y_new, _, variance_new = datasets.make_heteroscedastic(5000, random_state=1)
for cost in (0.3, 1.0, 2.5):
    measures = model.decide(X_new, cost=cost).evaluate(y_new)
    bayes = np.minimum(variance_new, cost).mean()
    print(
        f"cost {cost:3}: rejects {measures['rejection_rate']:4.0%}, loss {measures['rcr_loss']:.3f}, Bayes {bayes:.3f}"
    )
