// The cost: its default, its range, and the positions of the slider on a logarithmic scale.

const POSITIONS = 200, SPAN = 20;  // without a range of the model the slider goes from cost / 20 to cost * 20

/** Return what the page may do with the cost of a model. */
function costScale(model, typicalLoss) {
  const fees = model.experts.length > 0;  // each row then costs what its experts ask
  const fixed = fees || (typeof model.cost === 'number' && !model.serves_any_cost && !model.cost_range);
  const column = typeof model.cost === 'string' ? model.cost : null;
  const [low, high] = model.cost_range ?? around(typeof model.cost === 'number' ? model.cost : typicalLoss);
  const bottom = low > 0 ? low : high / 1000;
  const start = typeof model.cost === 'number' ? model.cost : Math.sqrt(bottom * high);
  return {
    start: column || fees ? null : rounded(start, low, high), low, high, column, movable: !fixed && !column, range: model.cost_range,
    cost: position => position === 0 ? low : rounded(bottom * (high / bottom) ** (position / POSITIONS), low, high),
    position: cost => {
      const place = Math.log(Math.max(cost, bottom) / bottom) / Math.log(high / bottom) * POSITIONS;
      return Number.isFinite(place) ? Math.min(Math.max(Math.round(place), 0), POSITIONS) : 0;
    },
  };
}

function around(cost) {
  const middle = cost > 0 ? cost : 1;
  return [middle / SPAN, middle * SPAN];
}

/** Round to three digits, inside the range. */
function rounded(cost, low, high) {
  return Math.min(Math.max(Number(cost.toPrecision(3)), low), high);
}

/** Say why the slider does not move, or what a cost is. */
function costNote(model, scale) {
  const unit = {squared: 'squared units of the target', absolute: 'units of the target'}[model.loss] ?? `units of the ${model.loss} loss`;
  if (model.experts.length > 0) return 'The cost of a row is the fee plus the expected loss of its cheapest expert.';
  if (scale.column) return `Each row brings its own cost, in the column ${scale.column}.`;
  if (!scale.movable && model.certificate !== null) return `Certificate ${model.certificate}, by which this model decides, is for the cost ${show(model.cost)}.`;
  if (!scale.movable) return `This model was trained for the cost ${show(model.cost)} and decides at no other.`;
  const range = scale.range ? `, from ${show(scale.low)} to ${show(scale.high)}` : '';
  const rule = followsCost(model) ? ' The model predicts where it expects a smaller loss than this.' : '';
  return `In ${unit}${range}.${rule}`;
}
