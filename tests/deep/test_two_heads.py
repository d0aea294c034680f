"""TwoHeads: any backbone, one prediction and one score for each row."""

import pytest
import torch
from torch import nn

from recuse.deep.two_heads import TwoHeads
from recuse.images import small_cnn

IMAGES = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def flat_backbone():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8), nn.BatchNorm1d(8), nn.ReLU())


class TestShapes:
    @pytest.mark.parametrize("pool", [nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())])
    def test_both_outputs_have_one_value_per_row(self, pool):
        prediction, score = TwoHeads(nn.Sequential(nn.Conv2d(3, 8, 3), pool), features=8)(IMAGES)
        assert prediction.shape == score.shape == (4,)

    def test_a_wrong_number_of_features_names_both(self):
        with pytest.raises(
            ValueError, match=r"^backbone must return 9 features for each row, .* got 8 in shape \(4, 8\)$"
        ):
            TwoHeads(flat_backbone(), features=9)(IMAGES)

    def test_features_that_were_not_pooled_are_noticed(self):
        with pytest.raises(ValueError, match=r"must return 8 .* got 1568 in shape \(4, 8, 14, 14\)$"):
            TwoHeads(nn.Conv2d(3, 8, 3), features=8)(IMAGES)

    def test_the_regressor_is_one_layer_and_the_rejector_has_the_given_widths(self):
        network = TwoHeads(flat_backbone(), 8, rejector_hidden=(5, 4))
        assert [tuple(p.shape) for p in network.regressor_head.parameters()] == [(1, 8), (1,)]
        assert [layer.out_features for layer in network.rejector_head if isinstance(layer, nn.Linear)] == [5, 4, 1]
        assert len(TwoHeads(flat_backbone(), 8, rejector_hidden=()).rejector_head) == 1

    def test_the_regressor_can_run_alone(self):
        network = TwoHeads(flat_backbone(), 8, shared=False).eval()
        torch.testing.assert_close(network.regress(IMAGES), network(IMAGES)[0])


class TestParameters:
    @pytest.mark.parametrize("shared", [True, False])
    def test_every_parameter_belongs_to_exactly_one_of_the_two(self, shared):
        network = TwoHeads(flat_backbone(), 8, shared=shared)
        of_both = [*network.regressor_parameters(), *network.rejector_parameters()]
        assert len({id(p) for p in of_both}) == len(of_both) == len(list(network.parameters()))

    @pytest.mark.parametrize("shared", [True, False])
    def test_the_prediction_does_not_depend_on_the_parameters_of_the_rejector(self, shared):
        network = TwoHeads(flat_backbone(), 8, shared=shared)
        network(IMAGES)[0].sum().backward()
        assert all(p.grad is None for p in network.rejector_parameters())
        assert all(p.grad is not None for p in network.regressor_parameters())

    def test_the_score_reaches_a_shared_backbone_and_no_other(self):
        for shared in (True, False):
            network = TwoHeads(flat_backbone(), 8, shared=shared)
            network(IMAGES)[1].sum().backward()
            assert all((p.grad is not None) == shared for p in network.backbone.parameters())

    def test_a_backbone_of_its_own_starts_afresh(self):
        backbone = flat_backbone()
        with torch.no_grad():
            for buffer in (backbone[1].weight, backbone[2].running_mean):
                buffer.fill_(7.0)
        network = TwoHeads(backbone, 8, shared=False)
        assert network.backbone is backbone
        assert (backbone[1].weight == 7).all()
        assert (network.rejector_backbone[1].weight != 7).all()
        assert (network.rejector_backbone[2].running_mean == 0).all()

    def test_a_backbone_that_cannot_start_afresh_is_named(self):
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = nn.Parameter(torch.ones(1))

        with pytest.raises(ValueError, match=r"got Scale at '1': pass rejector_backbone instead$"):
            TwoHeads(nn.Sequential(nn.Flatten(), Scale()), 768, shared=False)
        own = nn.Sequential(nn.Flatten(), Scale())
        assert TwoHeads(nn.Flatten(), 768, shared=False, rejector_backbone=own).rejector_backbone is own

    def test_a_second_backbone_contradicts_a_shared_one(self):
        with pytest.raises(ValueError, match=r"^shared must be False"):
            TwoHeads(nn.Flatten(), 768, rejector_backbone=nn.Flatten())


class TestCostInput:
    def test_the_score_depends_on_the_cost_and_the_prediction_does_not(self):
        network = TwoHeads(flat_backbone(), 8, cost_input=True).eval()
        (one, low), (other, high) = network(IMAGES, torch.zeros(4)), network(IMAGES, torch.full((4,), 3.0))
        torch.testing.assert_close(one, other)
        assert low.isfinite().all()
        assert (low != high).all()

    def test_missing_or_mismatched_costs_are_refused(self):
        network = TwoHeads(flat_backbone(), 8, cost_input=True)
        with pytest.raises(ValueError, match=r"forward needs the cost of each row .*: pass cost, got None$"):
            network(IMAGES)
        with pytest.raises(ValueError, match=r"^cost must be a number or have one value for each of 4 rows"):
            network(IMAGES, torch.ones(3))


class TestSmallCNN:
    @pytest.mark.parametrize("norm", ["batch", "group"])
    @pytest.mark.parametrize("shape", [(3, 64, 64), (1, 40, 56)])
    def test_images_of_any_size_give_its_features(self, norm, shape):
        backbone = small_cnn(shape[0], norm=norm)
        assert backbone(torch.rand(2, *shape)).shape == (2, backbone.features)

    def test_it_is_cheap(self):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            small_cnn()(torch.rand(2, 3, 64, 64))
        assert counter.get_total_flops() / 2 / 2 < 6e6  # a multiplication and an addition, of two images

    def test_group_normalisation_treats_each_image_alone(self):
        backbone = small_cnn(norm="group").train()
        torch.testing.assert_close(backbone(IMAGES)[:2], backbone(IMAGES[:2]))

    def test_an_unknown_norm_is_refused(self):
        with pytest.raises(ValueError, match=r"^norm must be 'batch' or 'group', got 'layer'$"):
            small_cnn(norm="layer")
