"""
In a pipeline
=============

A rejecting regressor in a Pipeline with a transformed target, and its RcR loss by cross-validation.
"""

import matplotlib.pyplot as plt
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler

from recuse import RiskRejector, datasets, displays
from recuse.estimators import cross_val_decide, decide

data = datasets.load("concrete")
train, _, (X_test, _) = datasets.split(data, repeat=0)
rejector = RiskRejector(RandomForestRegressor(20), ExtraTreesRegressor(20, min_samples_leaf=5), random_state=0)
model = make_pipeline(StandardScaler(), TransformedTargetRegressor(rejector, transformer=RobustScaler()))

# costs are in squared units of the original target, MPa
decision = decide(model.fit(*train), X_test, cost=25.0)
print(decision.to_frame().head())

folds = KFold(3, shuffle=True, random_state=0)
crossed = cross_val_decide(model, data.X, data.y, cv=folds, cost=25.0)
measures = crossed.evaluate(data.y)
for name in ("rcr_loss", "always_accept", "always_reject", "rejection_rate"):
    print(f"{name:15} {measures[name]:.2f}")

# %%
# The mean loss of accepted rows, if more or fewer rows were rejected by the same score.
displays.AcceptedLossDisplay.from_decision(crossed, data.y)
plt.show()
