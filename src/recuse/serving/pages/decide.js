// The model, its cost, and the events of the page.

async function loadModels(name = null) {
  state.models = await ask('/models');
  const choice = $('model');
  choice.replaceChildren(...state.models.map(model => make('option', {value: model.name}, model.name)));
  $('model-choice').hidden = state.models.length < 2;
  useModel(state.models.find(model => model.name === name) ?? state.models[0]);
}

function useModel(model) {
  state.inFlight.row?.abort();
  clearTimeout(state.timer);
  state.model = model;
  clearAnswer();
  $('model').value = model.name;
  const fee = typeof model.cost === 'string' ? [{name: model.cost, kind: 'number', low: null, high: null}] : [];
  state.columns = model.columns.length ? [...model.columns, ...fee] : [];
  describeModel();
  useScale(costScale(model, null));
  closeBatch();
  state.errors = {};
  showError('model', '');
  $('board').hidden = $('many').hidden = !state.columns.length;
  if (!state.columns.length) return showError('model', 'This model reads images. Send them to /v2/models; this page shows tables only.');
  state.row = exampleRow(state.columns);
  state.row.id = newId();
  $('row-note').textContent = 'An example from the middle of the training ranges. Change any field.';
  drawFields();
  return model.training_rows ? startFromTraining(model) : decideRow(0);
}

/** Begin with the training row nearest to the middle of the ranges, which is a combination that occurs. */
async function startFromTraining(model) {
  const row = state.row;
  await replacing('row', async signal => {
    const answer = await ask(predictPath(true), {row: row.values, record: false, ...costOfRequest()}, signal);
    const nearest = answer.decisions[0].neighbours?.[0];
    if (!nearest || state.row !== row || state.model !== model) return;
    Object.assign(row.values, nearest.row);
    $('row-note').textContent = 'A training row from the middle of the ranges. Change any field.';
    drawFields();
  });
  if (state.row === row && state.model === model) await decideRow(0);
}

/** Describe a model again whose file was replaced; the rows stay, unless it reads other columns. */
async function noticeVersion(version) {
  if (state.versions.has(version)) return;  // processes of one service may reload one after the other
  state.versions.add(version);
  const names = model => model.columns.map(column => column.name).join('\n');
  state.models = await ask('/models');
  const model = state.models.find(each => each.name === state.model.name) ?? state.models[0];
  if (names(model) !== names(state.model)) {
    useModel(model);
    return;
  }
  state.model = model;
  describeModel();
  if (state.batch) decideBatch();
}

function describeModel() {
  const {name, estimator, version} = state.model;
  $('subtitle').textContent = `${name}, ${estimator}, version ${version}`;
  state.versions.add(version);
}

function useScale(scale) {
  state.scale = scale;
  state.cost = scale.start;
  for (const control of [$('cost-slider'), $('cost')]) control.disabled = !scale.movable;
  $('cost-note').textContent = costNote(state.model, scale);
  drawCost();
}

function setCost(cost) {
  state.cost = cost;
  showError('cost', '');
  drawCost();
  if (followsCost(state.model)) {  // the rule of these models, so that the page follows the slider at once
    if (state.answer) state.answer = atCost(state.answer, cost);
    if (state.batch?.decisions) state.batch.decisions = state.batch.decisions.map(each => atCost(each, cost));
    drawAnswer();
    drawBatch();
  }
  decideRow();
}

function drawCost(text = true) {
  const {scale, cost} = state;
  if (text) $('cost').value = cost === null ? '' : String(cost);
  if (cost !== null) $('cost-slider').value = scale.position(cost);
  $('cost-slider').setAttribute('aria-valuetext', show(cost));
  $('reset').hidden = !scale.movable || cost === scale.start;
}

function typedCost() {
  const cost = readNumber($('cost').value, state.scale.low, state.scale.high);
  const [low, high] = state.scale.range ?? [0, Infinity];
  if (cost === null || cost < low || cost > high) {
    $('cost').setAttribute('aria-invalid', 'true');
    return showError('cost', state.scale.range ? `The cost must be a number from ${show(low)} to ${show(high)}.` : 'The cost must be a number, 0 or more.');
  }
  $('cost').removeAttribute('aria-invalid');
  return setCost(cost);
}

function listen() {
  $('model').addEventListener('change', event => useModel(state.models.find(model => model.name === event.target.value)));
  $('cost-slider').addEventListener('input', event => setCost(state.scale.cost(Number(event.target.value))));
  $('cost').addEventListener('change', typedCost);
  $('reset').addEventListener('click', () => setCost(state.scale.start));
  $('controls').addEventListener('submit', event => { event.preventDefault(); typedCost(); });
  $('fields').addEventListener('input', editRow);
  $('fields').addEventListener('submit', event => event.preventDefault());
  $('paste').addEventListener('paste', () => setTimeout(() => openText($('paste').value, 'the pasted rows')));
  $('decide-paste').addEventListener('click', () => openText($('paste').value, 'the pasted rows'));
  $('file').addEventListener('change', event => { openFile(event.target.files[0]); event.target.value = ''; });
  document.addEventListener('dragover', event => { event.preventDefault(); document.body.classList.add('dropping'); });
  document.addEventListener('dragleave', event => { if (!event.relatedTarget) document.body.classList.remove('dropping'); });
  document.addEventListener('drop', event => {
    event.preventDefault();
    document.body.classList.remove('dropping');
    if (state.columns.length) openFile(event.dataTransfer.files[0]);
  });
  for (const button of document.querySelectorAll('[data-filter]')) {
    button.addEventListener('click', () => { state.filter = button.dataset.filter; state.limit = PAGE; drawBatch(); });
  }
  $('table').addEventListener('click', event => {
    const row = event.target.closest('tr[data-row]');
    if (row) selectRow(Number(row.dataset.row));
  });
  $('more').addEventListener('click', () => { state.limit += PAGE; drawTable(); });
  $('download').addEventListener('click', download);
  $('clear').addEventListener('click', () => { closeBatch(); showError('batch', ''); $('paste').value = ''; drawAnswer(); });
  $('send').addEventListener('click', sendOne);
  $('send-all').addEventListener('click', sendAll);
  $('key-dialog').addEventListener('cancel', event => event.preventDefault());
}

/** While the answer is out of sight, a narrow window shows it beside the cost. */
function watchAnswer() {
  new IntersectionObserver(([seen]) => $('controls').classList.toggle('compact', !seen.isIntersecting),
    {rootMargin: '-130px 0px 0px 0px'}).observe($('verdict'));
}

listen();
watchAnswer();
loadModels().catch(error => showError('model', error.message));
