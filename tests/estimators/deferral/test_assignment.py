"""Assignments within capacities, compared with all possible ones."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from recuse.experts.assignment import assign


def total(costs, action):
    return costs[np.arange(len(costs)), action].sum()


def brute_force(costs, capacities):
    """The lowest total cost of all assignments within the capacities."""
    n_rows, n_actions = costs.shape
    possible = itertools.product(range(n_actions), repeat=n_rows)
    kept = (each for each in possible if all(each.count(k + 1) <= limit for k, limit in enumerate(capacities)))
    return min(total(costs, list(each)) for each in kept)


@pytest.mark.parametrize("kind", ["distinct", "tied", "model_is_dear", "equal_rows"])
def test_small_assignments_are_the_best_of_all(kind):
    random = np.random.RandomState(0)
    for _ in range(60):
        n_rows, n_experts = random.randint(1, 8), random.randint(1, 4)
        costs = random.uniform(size=(n_rows, n_experts + 1))
        if kind == "tied":
            costs = random.randint(0, 3, size=costs.shape).astype(float)
        if kind == "model_is_dear":
            costs[:, 0] += 2.0
        if kind == "equal_rows":
            costs[:] = costs[0]
        capacities = random.randint(0, 4, size=n_experts)
        action = assign(costs, capacities)
        assert (np.bincount(action, minlength=n_experts + 1)[1:] <= capacities).all()
        assert total(costs, action) == pytest.approx(brute_force(costs, capacities))


@pytest.mark.parametrize("n_experts", [2, 5])
def test_larger_assignments_are_those_of_the_hungarian_method(n_experts):
    random = np.random.RandomState(1)
    costs = random.gamma(1.0, size=(300, n_experts + 1))
    costs[:, 0] += 1.0
    capacities = np.arange(n_experts) * 10 + 5
    places = [np.repeat(costs[:, :1], 300, axis=1)]
    places += [np.repeat(costs[:, [k + 1]], limit, axis=1) for k, limit in enumerate(capacities)]
    by_place = np.concatenate(places, axis=1)
    assert total(costs, assign(costs, capacities)) == pytest.approx(by_place[linear_sum_assignment(by_place)].sum())


def test_an_expert_takes_the_rows_with_the_largest_gains():
    costs = np.column_stack([np.arange(10.0), np.full(10, 2.0)])
    assert np.flatnonzero(assign(costs, np.array([3]))).tolist() == [7, 8, 9]
    assert np.flatnonzero(assign(costs, np.array([10]))).tolist() == list(range(3, 10))
    assert not assign(costs, np.array([0])).any()


def test_many_rows_fill_the_capacities():
    costs = np.random.RandomState(2).gamma(1.0, size=(50_000, 3))
    costs[:, 0] += 5.0
    assert np.bincount(assign(costs, np.array([7_000, 333]))).tolist() == [42_667, 7_000, 333]
