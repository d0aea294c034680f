"""Model selection by RcR loss with GridSearchCV."""

from sklearn.model_selection import GridSearchCV

from recuse import RcRRegressor, datasets
from recuse.estimators import decide
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
print("RcR loss on test rows:", round(decide(search, X_test).evaluate(y_test)["rcr_loss"], 2))
