"""
The price of a review
=====================

The cost of a rejection from the prices of an error and of a manual review, and what the decisions save in euros.
"""

import matplotlib.pyplot as plt
import pandas as pd

from recuse import RiskRejector, datasets, displays
from recuse.costs import from_money

cars = datasets.load("auto_mpg")
(X, y), (X_more, y_more), (X_test, y_test) = datasets.split(cars, repeat=0)

# an error of 3 mpg costs 30 euros; measuring a car costs 20 euros
cost = from_money(error=3.0, error_cost=30.0, review_cost=20.0)
euros = 30.0 / 3.0**2  # per squared mpg

model = RiskRejector(random_state=0).fit(pd.concat([X, X_more]), pd.concat([y, y_more]))
measures = model.decide(X_test, cost=cost).evaluate(y_test)

print(f"a review costs as much as a squared error of {cost:g}")
for name in ("rcr_loss", "always_accept", "always_reject", "oracle"):
    print(f"{name:15} {measures[name] * euros:6.2f} euros per car")
print(f"cars sent to be measured: {measures['rejection_rate']:.0%}")

# %%
# The same at other prices of a review.
prices = {"error": 3.0, "error_cost": 30.0, "review_cost": 20.0, "currency": "euros"}
displays.MoneySavedDisplay.from_estimator(model, X_test, y_test, review_costs=range(5, 65, 5), **prices)
plt.show()
