"""
Your own network
================

A torch backbone with two heads, a prediction and a score, trained on a table by RejectionLoss in a loop of your own.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from recuse import Decision, RejectionLoss, TwoHeads, datasets, displays

(X, y), _, (X_test, y_test) = datasets.split(datasets.load("concrete"), repeat=0)
mean, scale = X.mean(), X.std()
inputs, new = (torch.tensor(((part - mean) / scale).to_numpy(), dtype=torch.float32) for part in (X, X_test))
targets = torch.tensor(((y - y.mean()) / y.std()).to_numpy(), dtype=torch.float32)

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.SiLU(), nn.Dropout(0.1))
network = TwoHeads(backbone, features=32)
loss = RejectionLoss("logistic", cost=30.0 / y.var())  # in units of the scaled target
optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)

history = []
for epoch in range(100):
    prediction, score = network(inputs)
    # Slow-Start: before the rejector starts, the regressor is trained alone.
    value = loss(prediction, score, targets, regressor_only=epoch < 40)
    optimiser.zero_grad()
    value.backward()
    optimiser.step()
    history.append(value.item())

with torch.inference_mode():
    prediction, score = (part.numpy() for part in network.eval()(new))
decision = Decision(prediction * y.std() + y.mean(), score > 0, score, cost=30.0)
print(decision)
print({name: round(value, 3) for name, value in decision.evaluate(y_test).items()})

# %%
# The loss changes where joint training starts.
displays.TrainingCurveDisplay.from_history(history, measure="training loss")
plt.show()
