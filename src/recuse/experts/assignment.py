"""Assignment of rows to actions at the lowest total cost, within the capacities of the experts.

Each expert over its capacity gets a price, which is added to its cost. Prices are found one expert at a time, until
none changes. Rows then choose the cheapest action at these prices. This is optimal for the numbers of rows that the
actions get, but ties and the order of the experts may leave a few rows too many or too few. The rest is exact: rows
are moved along the cheapest paths between actions, as in the successive shortest path method for flows of minimum
cost (Ahuja, Magnanti and Orlin, 1993, section 9.7), until no expert is over its capacity and no move lowers the cost.
"""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Prices are computed again at most this number of times.
_ROUNDS = 30
# Differences below this part of the largest cost are rounding errors.
_TOLERANCE = 1e-12


def assign(costs: Floats, capacities: Indices) -> Indices:
    """Return the action of each row, such that the sum of the costs is lowest and no expert is over its capacity.

    Parameters
    ----------
    costs : ndarray of shape (row, action)
        Action 0 has no limit, and its costs are finite. An action with an infinite cost cannot take the row.
    capacities : ndarray of int of shape (action - 1,)
        Largest number of rows of each other action.

    Returns
    -------
    ndarray of int of shape (row,)

    Examples
    --------
    Both rows prefer the expert, and the second gains more:

    >>> assign(np.array([[2.0, 1.0], [5.0, 1.0]]), np.array([1]))
    array([0, 1])
    """
    action: Indices = costs.argmin(axis=1)
    if (np.bincount(action, minlength=costs.shape[1])[1:] <= capacities).all():
        return action
    action, prices = _at_prices(costs, capacities)
    counts = np.bincount(action, minlength=costs.shape[1])[1:]
    if (np.where(prices > 0, counts == capacities, counts <= capacities)).all():  # then no assignment is cheaper
        return action
    return _Moves(costs, action, capacities).best()


def _at_prices(costs: Floats, capacities: Indices) -> tuple[Indices, Floats]:
    """Return the cheapest action of each row at prices that keep the experts near their capacities, and the prices."""
    priced, prices = costs.copy(), np.zeros(len(capacities))
    for _ in range(_ROUNDS):
        before = prices.copy()
        for expert, capacity in enumerate(capacities, start=1):
            others = np.delete(priced, expert, axis=1).min(axis=1)
            prices[expert - 1] = _price(others - costs[:, expert], int(capacity))
            priced[:, expert] = costs[:, expert] + prices[expert - 1]
        if np.array_equal(before, prices):
            break
    return priced.argmin(axis=1), prices


def _price(gain: Floats, capacity: int) -> float:
    """Return the lowest price >= 0 at which not more rows gain than the capacity."""
    if capacity >= len(gain):
        return 0.0
    return max(float(np.partition(gain, -capacity - 1)[-capacity - 1]), 0.0)


class _Moves:
    """An assignment, and the cheapest moves of single rows between actions."""

    def __init__(self, costs: Floats, action: Indices, capacities: Indices) -> None:
        self._costs, self._action = costs, action
        self._limits = [len(costs) + 1, *capacities.tolist()]  # action 0 always has room
        self._counts = np.bincount(action, minlength=costs.shape[1]).tolist()
        self._actions = range(costs.shape[1])
        self._tolerance = _TOLERANCE * float(np.abs(costs[np.isfinite(costs)]).max())
        # Each pair of actions has a heap of the rows of the first, by the extra cost of the second. A row that has
        # moved stays in its heaps until `_edge` drops it.
        pairs = [(a, b) for a in self._actions for b in self._actions if a != b]
        self._heaps = {(a, b): self._heap(np.flatnonzero(action == a), a, b) for a, b in pairs}

    def best(self) -> Indices:
        """Move rows until all capacities are kept and no move lowers the cost."""
        while over := [a for a in self._actions if self._counts[a] > self._limits[a]]:
            self._move(self._cheapest(over)[0])
        while True:
            path, cost = self._cheapest(list(self._actions))
            if cost >= -self._tolerance:
                return self._action
            self._move(path)

    def _heap(self, rows: Indices, a: int, b: int) -> list[tuple[float, int]]:
        extra = self._costs[rows, b] - self._costs[rows, a]
        heap = list(zip(extra.tolist(), rows.tolist(), strict=True))
        heapq.heapify(heap)
        return heap

    def _edge(self, a: int, b: int) -> float:
        """Return the lowest extra cost of moving a row from one action to another; infinite without rows."""
        heap = self._heaps[a, b]
        while heap and self._action[heap[0][1]] != a:
            heapq.heappop(heap)
        return heap[0][0] if heap else np.inf

    def _cheapest(self, starts: list[int]) -> tuple[list[int], float]:
        """Return the cheapest path from one of the actions to an action with room, and its cost (Bellman-Ford)."""
        edges = {pair: self._edge(*pair) for pair in self._heaps}
        distance = [0.0 if a in starts else np.inf for a in self._actions]
        previous: dict[int, int] = {}
        for _ in self._actions:
            for (a, b), length in edges.items():
                if distance[a] + length < distance[b] - self._tolerance:
                    distance[b], previous[b] = distance[a] + length, a
        room = [a for a in self._actions if self._counts[a] < self._limits[a]]
        end = min(room, key=lambda a: distance[a])
        path = [end]
        while path[-1] in previous and len(path) <= len(self._actions):
            path.append(previous[path[-1]])
        return path[::-1], distance[end]

    def _move(self, path: list[int]) -> None:
        """Move one row along every step of a path."""
        steps = [(a, b, self._heaps[a, b][0][1]) for a, b in pairwise(path)]
        for a, b, row in steps:
            self._action[row] = b
            self._counts[a] -= 1
            self._counts[b] += 1
            for c in self._actions:
                if c != b:
                    entry = float(self._costs[row, c] - self._costs[row, b]), row
                    heapq.heappush(self._heaps[b, c], entry)
