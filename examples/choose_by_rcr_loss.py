"""
Model selection by RcR loss
===========================

GridSearchCV with the scorer of the RcR loss. The figure compares the candidates.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV

from recuse import RcRRegressor, datasets
from recuse.estimators import decide
from recuse.metrics import rcr_scorer

(X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
search = GridSearchCV(
    RcRRegressor(cost=6.0, epochs=100, n_members=2, random_state=0),
    {"surrogate": ["mae", "logistic"], "hidden": [(20, 30, 10), (40,)]},
    scoring=rcr_scorer,
    cv=3,
)
search.fit(X, y)
print("chosen:", search.best_params_)
print("RcR loss on test rows:", round(decide(search, X_test).evaluate(y_test)["rcr_loss"], 2))

# %%
# The scorer returns the negative loss, since scikit-learn takes larger scores to be better.
results = search.cv_results_
names = [f"{parameters['surrogate']}, {parameters['hidden']}" for parameters in results["params"]]
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
ax.errorbar(-results["mean_test_score"], names, xerr=results["std_test_score"], fmt="o", capsize=3)
ax.set(xlabel="RcR loss on held-out folds, with its standard deviation")
plt.show()
