"""
Audit a model
=============

Groups of rows that are treated worse, the drift of a table, and all displays.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from recuse import RcRRegressor, RiskRejector, audit, datasets, displays

# the rings of abalones, which give their age; a rejected one is counted under a microscope
abalone = datasets.load("abalone")
(X, y), *others = datasets.split(abalone, repeat=0)
X_new, y_new = pd.concat([rows for rows, _ in others]), pd.concat([rings for _, rings in others])
forests = RandomForestRegressor(10, min_samples_leaf=5), ExtraTreesRegressor(20, min_samples_leaf=5)
model = RiskRejector(*forests, cost=4.0, random_state=0).fit(X[:1000], y[:1000])
decision = model.decide(X_new)

groups = audit.groups(decision, y_new, X_new[["sex", "length"]], intersections=True)
columns = ["column", "group", "rows", "rejection_rate", "rejected_more", "accepted_loss", "mispredicted_more"]
print(groups[columns].round(2).to_string(index=False))

later = X_new.assign(length=1.1 * X_new["length"])  # as if the abalones were now measured with another tool
drift = audit.drift(X, later, decisions=(decision, model.decide(later)))
print(drift[["column", "kind", "distance", "distance_p", "new", "drifted"]].round(3).to_string(index=False))

network = RcRRegressor(cost=4.0, epochs=20, n_members=3, random_state=0).fit(X[:600], y[:600])
prices = {"review_cost": 8.0, "error": 1.0, "error_cost": 2.0, "currency": "dollars"}  # an error of 2 rings costs 8
figures = {
    "cost_curve": displays.CostCurveDisplay.from_estimator(model, X_new, y_new, costs=np.linspace(1, 10, 7)),
    "risk_coverage": displays.RiskCoverageDisplay.from_estimator(model, X_new, y_new),
    "accepted_loss": displays.AcceptedLossDisplay.from_decision(decision, y_new),
    "calibration": displays.LossCalibrationDisplay.from_estimator(model, X_new, y_new),
    "map": displays.RejectionMapDisplay.from_decision(decision, X_new, ["length", "sex"]),
    "projection": displays.RejectionMapDisplay.from_decision(decision, X_new),
    "money": displays.MoneySavedDisplay.from_estimator(model, X_new, y_new, review_costs=range(1, 17, 3), **prices),
    "training": displays.TrainingCurveDisplay.from_estimator(network),
    "groups": displays.GroupAuditDisplay(groups).plot(),
    "drift": displays.DriftDisplay(drift).plot(),
}
print(f"{len(figures)} figures")
plt.show()
