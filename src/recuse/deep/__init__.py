"""Deep networks with a regressor and a rejector: loss, heads, backbones and training with Lightning."""

from recuse.extras import import_extra

import_extra("torch", extra="torch")
