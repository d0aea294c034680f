"""Graphs of rules of images."""

from __future__ import annotations

from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.decision import Emitted, cost_input, emits
from recuse.model_file.graph.operators import DOUBLE, FLOAT
from recuse.model_file.graph.torch_modules.modules import convert_two_heads
from recuse.model_file.schema import ImageSchema, inputs_of
from recuse.rules.networks import ImageRule


@emits(ImageRule)
def _emit_images(rule: ImageRule, graph: GraphBuilder) -> Emitted:
    schema = ImageSchema(rule.shape)
    ((name, (dtype, shape)),) = inputs_of(schema).items()
    image = graph.input(name, dtype, shape)  # what the network sees: bytes must be scaled to [-1, 1]
    scaled = (cost_input(graph).squeeze(1) / rule.scale**2).cast(FLOAT) if rule.network.cost_input else None
    prediction, score = convert_two_heads(rule.network, image, scaled)
    in_units = prediction.cast(DOUBLE) * rule.scale + rule.mean
    return Emitted(schema, in_units.unsqueeze(1), score.cast(DOUBLE).unsqueeze(1))
