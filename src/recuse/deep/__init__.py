"""Deep networks with a regressor and a rejector: loss, heads, backbones and training with Lightning."""
