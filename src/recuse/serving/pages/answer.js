// Decisions in words.

const FORMAT = new Intl.NumberFormat('en', {maximumSignificantDigits: 4});
const SHORT = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});

/** Return a number with four digits. */
function show(value) {
  return typeof value === 'number' ? FORMAT.format(value).replace('-', '\u2212') : '\u2013';
}

/** Return a number with three digits, for losses and savings. */
function brief(value) {
  return typeof value === 'number' ? SHORT.format(value).replace('-', '\u2212') : '\u2013';
}

function plural(count, word) {
  return `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;
}

/** Return the typical size of the error, where the loss tells it, else null. */
function typicalError(decision, model) {
  const loss = decision.expected_loss;
  if (loss === null) return null;
  return {squared: Math.sqrt(Math.max(loss, 0)), absolute: loss}[model.loss] ?? null;
}

/** Return the prediction as text, with the digits that its error allows. */
function predictionText(decision, model) {
  const error = typicalError(decision, model), value = decision.prediction;
  if (!(error > 0) || typeof value !== 'number') return show(value);
  const digits = Math.min(Math.max(1 - Math.floor(Math.log10(error)), 0), 10);
  return value.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits}).replace('-', '\u2212');
}

/** Whether the page knows the decision at another cost; at a certified threshold only the service does. */
const followsCost = model => model.has_expected_loss && model.certificate === null && model.experts.length === 0;

/** Say who takes a rejected row. */
const askWhom = decision => `Ask ${decision.takes ?? 'an expert'}`;

/** Return the decision at another cost, for models that accept a row where its expected loss is below the cost. */
function atCost(decision, cost) {
  const loss = decision.expected_loss;
  if (loss === null) return decision;
  return {...decision, cost, accepted: loss < cost, score: cost - loss, expected_saving: Math.abs(loss - cost)};
}

/** Say what the decision saves, or what is known of it. */
function savingSentence(decision) {
  const {expected_loss: loss, cost, expected_saving: saving, accepted} = decision;
  if (loss === null) {
    return accepted ? 'The model accepts this row. It ranks rows, but does not estimate a loss.'
      : 'The model rejects this row. It ranks rows, but does not estimate a loss.';
  }
  return `A prediction is expected to lose ${brief(loss)}, an expert costs ${brief(cost)}: `
    + `${accepted ? 'predicting' : 'asking'} saves about ${brief(saving)}.`;
}

/** Say how far predictions like this one are off, where the loss tells it. */
function errorSentence(decision, model) {
  const size = typicalError(decision, model), off = size === null ? '' : `typically off by ${brief(size)}`;
  if (decision.accepted) return off ? `Predictions like this are ${off}.` : '';
  return `The model alone would say ${predictionText(decision, model)}${off ? `, ${off}` : ''}.`;
}

/** Describe one cell that no training row had. */
function newCellSentence(cell) {
  const value = `\u201c${cell.value}\u201d`;
  return {
    'new category': `is ${value}, a category that no training row had`,
    'new missing value': 'is empty, which it never was in training',
    'outside the training range': `is ${cell.value}, outside the training range of ${cell.expected}`,
    'wrong type': `is ${value}, and training had ${cell.expected}`,
    'missing column': 'is not there',
  }[cell.problem] ?? `${cell.problem} ${cell.value}`;
}

/** Summarise many decisions. */
function totals(decisions) {
  const sum = {rows: decisions.length, accepted: 0, always_ask: 0, always_predict: 0, known: true};
  for (const {accepted, expected_loss: loss, cost} of decisions) {
    if (accepted) sum.accepted++;
    if (loss === null) sum.known = false;
    else if (accepted) sum.always_ask += cost - loss;
    else sum.always_predict += loss - cost;
  }
  return sum;
}

function totalSentence(sum) {
  const asked = sum.rows - sum.accepted;
  const split = asked === 0 ? 'The model predicts every row.' : sum.accepted === 0 ? 'Every row goes to an expert.'
    : `The model predicts ${plural(sum.accepted, 'row')} and leaves ${asked.toLocaleString('en')} to experts.`;
  if (!sum.known) return split;
  return `${split} That is expected to save ${brief(sum.always_ask)} against asking about every row, `
    + `and ${brief(sum.always_predict)} against predicting every row.`;
}
