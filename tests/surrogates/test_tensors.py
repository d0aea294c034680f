"""Surrogates of tensors: the same values as of arrays, and slopes that autograd confirms."""

import numpy as np
import pytest
import torch

from recuse import surrogates

FIVE = ("mae", "hinge", "square", "logistic", "sigmoid")


@pytest.mark.parametrize("name", FIVE)
def test_values_and_slopes_are_those_of_arrays(name):
    scores, surrogate = np.linspace(-60, 60, 481), surrogates.get(name)
    for call in (surrogate, surrogate.derivative):
        for ours, theirs in zip(call(torch.tensor(scores)), call(scores), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", FIVE)
def test_slopes_equal_those_of_autograd(name):
    scores = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([0.0])]).double()
    scores = scores[(scores.abs() - 1).abs() > 1e-6].requires_grad_()  # at a kink, any slope between is right
    for loss, slope in zip(surrogates.get(name)(scores), surrogates.get(name).derivative(scores), strict=True):
        (expected,) = torch.autograd.grad(loss.sum(), scores)
        torch.testing.assert_close(slope.detach(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", FIVE)
def test_no_overflow_at_huge_scores_and_the_type_is_kept(name, dtype):
    scores = torch.tensor([-1e4, -88.8, -40.0, 0.0, 40.0, 88.8, 1e4], dtype=dtype, requires_grad=True)
    losses = surrogates.get(name)(scores)
    (gradient,) = torch.autograd.grad(sum(losses).sum(), scores)
    for tensor in (*losses, *surrogates.get(name).derivative(scores), gradient):
        assert tensor.isfinite().all()
        assert tensor.dtype == dtype


def test_slopes_without_a_derivative_are_differences():
    accepted, rejected = surrogates.get(lambda r: (r**2, -r)).derivative(torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(accepted, torch.tensor([2.0, 6.0]))
    torch.testing.assert_close(rejected, torch.tensor([-1.0, -1.0]))


def test_a_surrogate_of_numpy_only_says_so_for_tensors_and_one_of_torch_only_for_arrays():
    of_numpy = surrogates.Surrogate("mine", lambda r: (np.exp(r), np.exp(-r)))
    advice = r"Use operators and the functions of recuse\.surrogates\.namespace\(r\)$"
    with pytest.raises(TypeError, match=rf"^surrogate 'mine' must take .* it fails for a tensor: .*{advice}"):
        of_numpy(torch.zeros(2, requires_grad=True))
    of_torch = surrogates.Surrogate("mine", lambda r: (r.relu(), (-r).relu()))
    with pytest.raises(TypeError, match=rf"it fails for an array: 'numpy.ndarray' object has no .*{advice}"):
        of_torch(np.zeros(2))
    of_both = surrogates.Surrogate("mine", lambda r: (np.asarray(r), -np.asarray(r)))
    with pytest.raises(TypeError, match="must return tensors for tensors, got ndarray for label -1"):
        of_both(torch.zeros(2))
