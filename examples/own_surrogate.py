"""
Your own surrogate
==================

Properties of a surrogate, and its RcR loss beside those of two surrogates of the paper.
"""

import matplotlib.pyplot as plt
import numpy as np

from recuse import RcRRegressor, datasets, surrogates


def squared_hinge(r):
    xp = surrogates.namespace(r)  # numpy for arrays, torch for tensors
    return xp.clip(1 + r, 0, None) ** 2, xp.clip(1 - r, 0, None) ** 2


surrogates.register("squared_hinge", squared_hinge, overwrite=True)
print(surrogates.check("squared_hinge"))

train, validation, (X_test, y_test) = datasets.split(datasets.load("housing"), repeat=0)
for name in ("mae", "logistic", "squared_hinge"):
    model = RcRRegressor(cost=12.0, surrogate=name, epochs=200, n_members=3, random_state=0)
    model.fit(*train, validation=validation)
    print(f"{name:15} RcR loss {model.decide(X_test).evaluate(y_test)['rcr_loss']:.2f}")

# %%
# A surrogate is a pair of losses of the score: of accepting, and of rejecting.
r = np.linspace(-3, 3, 200)
figure, ax = plt.subplots(layout="constrained")
for name in ("mae", "logistic", "squared_hinge"):
    if_accepted, if_rejected = surrogates.get(name)(r)
    (line,) = ax.plot(r, if_accepted, label=name)
    ax.plot(r, if_rejected, "--", color=line.get_color())
ax.set(xlabel="score r", ylabel="loss", ylim=(0, 6), title="solid: weight of the squared error, dashed: of the cost")
ax.legend()
plt.show()
