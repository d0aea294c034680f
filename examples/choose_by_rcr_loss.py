"""Model selection with scikit-learn's own tools, by the loss that counts."""

from sklearn.model_selection import GridSearchCV

from recuse import RcRRegressor, datasets
from recuse.metrics import rcr_scorer

(X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
search = GridSearchCV(
    RcRRegressor(cost=6.0, epochs=100, random_state=0),
    {"surrogate": ["mae", "logistic"], "hidden": [(20, 30, 10), (40,)]},
    scoring=rcr_scorer,
    cv=3,
)
search.fit(X, y)
print("chosen:", search.best_params_)
print("RcR loss on new rows:", round(search.best_estimator_.decide(X_test).evaluate(y_test)["rcr_loss"], 2))
