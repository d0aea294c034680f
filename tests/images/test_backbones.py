"""ResNet-50: the published architecture, and weights from a file."""

import sys

import pytest
import torch

from recuse.images import resnet50

pytest.importorskip("monai")


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return resnet50().eval()


@pytest.fixture(scope="module")
def weights(backbone):
    """What a file of trained weights holds: other numbers, and a last layer of 1000 classes."""
    other = {name: value + 1 if value.is_floating_point() else value for name, value in backbone.state_dict().items()}
    return {**other, "fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}


class TestArchitecture:
    def test_the_parameters_are_as_many_as_published(self, backbone):
        without_last_layer = sum(p.numel() for p in backbone.parameters())
        assert without_last_layer == 23_508_032
        assert without_last_layer + 1000 * (backbone.features + 1) == 25_557_032

    def test_an_image_of_224_shrinks_as_published(self, backbone):
        sizes, hooks = {}, []
        for name in ("conv1", "maxpool", "layer1", "layer2", "layer3", "layer4"):
            part = getattr(backbone, name)
            hooks.append(part.register_forward_hook(lambda _, __, out, name=name: sizes.update({name: out.shape[1:]})))
        with torch.inference_mode():
            features = backbone(torch.rand(1, 3, 224, 224))
        for hook in hooks:
            hook.remove()
        assert features.shape == (1, 2048) == (1, backbone.features)
        assert [tuple(size) for size in sizes.values()] == [
            (64, 112, 112),
            (64, 56, 56),
            (256, 56, 56),
            (512, 28, 28),
            (1024, 14, 14),
            (2048, 7, 7),
        ]

    def test_a_block_has_its_stride_in_the_middle_and_no_bias(self, backbone):
        block = backbone.layer2[0]
        assert [conv.stride for conv in (block.conv1, block.conv2, block.conv3)] == [(1, 1), (2, 2), (1, 1)]
        assert [conv.kernel_size for conv in (block.conv1, block.conv2, block.conv3)] == [(1, 1), (3, 3), (1, 1)]
        assert block.downsample[0].stride == (2, 2)
        assert block.downsample[0].bias is None

    def test_the_layers_have_the_names_that_files_of_weights_use(self, backbone):
        names = set(backbone.state_dict())
        assert len(names) == 318  # of torchvision's ResNet-50, without fc.weight and fc.bias
        assert {"conv1.weight", "bn1.running_var", "layer1.0.downsample.1.bias", "layer4.2.conv3.weight"} <= names

    def test_other_channels_change_the_first_layer_alone(self):
        assert resnet50(in_channels=1).conv1.weight.shape == (64, 1, 7, 7)


class TestWeights:
    def test_a_file_is_loaded_but_for_its_last_layer(self, weights, tmp_path):
        torch.save(weights, tmp_path / "weights.pt")
        loaded = resnet50(tmp_path / "weights.pt").state_dict()
        assert all(torch.equal(value, weights[name]) for name, value in loaded.items())

    def test_old_files_lack_the_counters_of_batches(self, weights, tmp_path):
        torch.save({k: v for k, v in weights.items() if "num_batches" not in k}, tmp_path / "weights.pt")
        torch.testing.assert_close(resnet50(tmp_path / "weights.pt").conv1.weight, weights["conv1.weight"])

    def test_a_file_with_other_layers_is_refused(self, weights, tmp_path):
        few = {name: value for name, value in weights.items() if name.startswith(("conv1", "bn1"))}
        torch.save({**few, "stage4.0.weight": torch.zeros(1)}, tmp_path / "weights.pt")
        with pytest.raises(
            ValueError, match=r"with 260 missing \(layer1\.0.*, \.\.\.\) and 1 unknown \(stage4\.0\.weight\)$"
        ):
            resnet50(tmp_path / "weights.pt")

    def test_a_file_with_a_layer_of_another_shape_is_refused(self, weights, tmp_path):
        torch.save({**weights, "conv1.weight": torch.zeros(64, 1, 7, 7)}, tmp_path / "weights.pt")
        with pytest.raises(
            ValueError, match=r"^weights of conv1.weight must have shape \(64, 3, 7, 7\), got \(64, 1, 7, 7\)"
        ):
            resnet50(tmp_path / "weights.pt")

    @pytest.mark.parametrize("content", [b"no weights", b""])
    def test_a_damaged_file_is_refused(self, content, tmp_path):
        (tmp_path / "weights.pt").write_bytes(content)
        with pytest.raises(ValueError, match=r"^weights must be a dictionary of tensors saved by torch, got "):
            resnet50(tmp_path / "weights.pt")

    def test_a_file_never_runs_code(self, tmp_path):
        torch.save({"conv1.weight": _Trap()}, tmp_path / "weights.pt")
        with pytest.raises(ValueError, match=r"^weights must be a dictionary of tensors saved by torch"):
            resnet50(tmp_path / "weights.pt")
        assert not _Trap.sprung

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"^weights must name a file, got .*nowhere\.pt$"):
            resnet50(tmp_path / "nowhere.pt")

    def test_safetensors_give_the_network_of_the_same_weights_saved_by_torch(self, weights, tmp_path):
        pytest.importorskip("safetensors.torch").save_file(weights, tmp_path / "weights.safetensors")
        torch.save(weights, tmp_path / "weights.pt")
        safe, pickled = (resnet50(tmp_path / f"weights.{suffix}").eval() for suffix in ("safetensors", "pt"))
        image = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            assert torch.equal(safe(image), pickled(image))

    def test_a_damaged_safetensors_file_is_named(self, tmp_path):
        pytest.importorskip("safetensors")
        (tmp_path / "weights.safetensors").write_bytes(b"not weights at all")
        with pytest.raises(ValueError, match=r"^weights must be a dictionary of tensors saved by safetensors, got "):
            resnet50(tmp_path / "weights.safetensors")

    def test_safetensors_that_is_not_installed_names_the_pip_command(self, tmp_path, monkeypatch):
        (tmp_path / "weights.safetensors").touch()
        monkeypatch.setitem(sys.modules, "safetensors.torch", None)
        with pytest.raises(ImportError, match=r"^safetensors is not installed; get it with: pip install 'recuse"):
            resnet50(tmp_path / "weights.safetensors")


class _Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (sys.modules[__name__]._Trap, "sprung", True)


def test_a_missing_extra_names_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "monai.networks.nets.resnet", None)
    with pytest.raises(ImportError, match=r"^monai is not installed; get it with: pip install 'recuse\[images\]'$"):
        resnet50()
