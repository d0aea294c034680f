"""Big networks with two heads: loss, backbones and training with Lightning."""
