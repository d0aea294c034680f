// Many rows: reading them, their table, and sending them to review.

function openText(text, source) {
  try {
    state.batch = {...readTable(text, state.columns, state.model.missing_words), decisions: null, reviews: new Map(), source};
  } catch (error) {
    return showError('batch', error.message);
  }
  state.batch.ids = state.batch.rows.map(newId);
  Object.assign(state, {selected: null, limit: PAGE, filter: 'all'});
  $('table-notes').replaceChildren(...state.batch.notes.map(note => make('li', {}, note)));
  return decideBatch();
}

async function openFile(file) {
  if (!file) return;
  const bytes = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder('utf-8', {fatal: true}).decode(bytes);
  } catch {
    text = new TextDecoder('windows-1252').decode(bytes);  // what spreadsheets write where they do not write UTF-8
  }
  openText(text, file.name);
}

function decideBatch() {
  const batch = state.batch;
  batch.cost = state.cost;
  $('results').hidden = false;
  return replacing('batch', async signal => {
    const decisions = [];
    while (decisions.length < batch.rows.length) {
      const done = decisions.length;
      if (batch.rows.length > CHUNK) $('total').textContent = `Deciding: ${done.toLocaleString('en')} of ${plural(batch.rows.length, 'row')} done.`;
      const body = {rows: batch.rows.slice(done, done + CHUNK), record: false, ...costOfRequest()};
      decisions.push(...(await ask(predictPath(), body, signal)).decisions);
    }
    const cost = state.cost;
    batch.decisions = followsCost(state.model) && state.scale.movable ? decisions.map(each => atCost(each, cost)) : decisions;
    drawBatch();
  });
}

function closeBatch() {
  state.inFlight.batch?.abort();
  Object.assign(state, {batch: null, selected: null});
  $('results').hidden = true;
}

function visibleRows() {
  const keep = {all: () => true, accepted: each => each.accepted, rejected: each => !each.accepted}[state.filter];
  return state.batch.decisions.map((each, place) => [each, place]).filter(([each]) => keep(each));
}

function drawBatch() {
  const batch = state.batch;
  if (!batch?.decisions) return;
  const sum = totals(batch.decisions), asked = sum.rows - sum.accepted;
  $('total').textContent = totalSentence(sum);
  const tile = (name, value, kind = '') => make('div', {class: `tile ${kind}`}, make('dt', {}, name), make('dd', {}, value));
  const share = count => `${count.toLocaleString('en')} (${Math.round(100 * count / sum.rows)}%)`;
  $('tiles').replaceChildren(tile('Rows', sum.rows.toLocaleString('en')), tile('Predict', share(sum.accepted), 'predict'),
    tile('Ask an expert', share(asked), 'expert'),
    ...(sum.known ? [tile('Saves at least', brief(Math.min(sum.always_ask, sum.always_predict)), 'main')] : []));
  for (const button of document.querySelectorAll('[data-filter]')) button.setAttribute('aria-pressed', String(button.dataset.filter === state.filter));
  const waiting = batch.decisions.filter((each, place) => !each.accepted && !batch.reviews.has(place)).length;
  $('send-all').hidden = !state.model.review_queue || !waiting;
  $('send-all').textContent = `Send ${plural(waiting, 'row')} to review`;
  drawTable();
}

function drawTable() {
  const visible = visibleRows(), known = state.model.has_expected_loss, fees = state.scale.column;
  const head = ['Row', 'Decision', ...(known ? ['Expected loss', 'Saves'] : []), ...(fees ? ['Cost'] : [])];
  const numbers = new Set(['Row', 'Expected loss', 'Saves', 'Cost']);
  const titles = [...head.map(name => make('th', {scope: 'col', class: numbers.has(name) ? 'number' : ''}, name)),
    ...state.columns.map(column => make('th', {scope: 'col', class: numeric(column.name)}, column.name))];
  const body = visible.slice(0, state.limit).map(([decision, place]) => tableRow(decision, place, known, fees));
  $('table').replaceChildren(make('thead', {}, make('tr', {}, ...titles)), make('tbody', {}, ...body));
  $('more').hidden = visible.length <= state.limit;
  $('more').textContent = `Show more (${(visible.length - state.limit).toLocaleString('en')} left)`;
  markSelected();
}

function tableRow(decision, place, known, fees) {
  const row = state.batch.rows[place], sent = state.batch.reviews.has(place) ? make('span', {class: 'note'}, ' sent to review') : '';
  const verdict = decision.accepted ? ['Predict ', make('strong', {}, predictionText(decision, state.model))] : [askWhom(decision)];
  return make('tr', {'data-row': place, class: decision.accepted ? 'predict' : 'expert'},
    make('td', {class: 'number'}, String(place + 1)),
    make('td', {}, make('button', {type: 'button', class: 'link', 'aria-label': `Row ${place + 1}: ${decision.accepted ? 'predict' : 'ask an expert'}, show why`}, ...verdict), sent),
    ...(known ? [decision.expected_loss, decision.expected_saving].map(value => make('td', {class: 'number'}, brief(value))) : []),
    ...(fees ? [make('td', {class: 'number'}, show(decision.cost))] : []),
    ...state.columns.map(column => make('td', {class: numeric(column.name)}, shownCell(row[column.name]))));
}

function selectRow(place) {
  state.selected = place;
  state.row = {values: state.batch.rows[place], id: state.batch.ids[place], review: state.batch.reviews.get(place)};
  $('row-note').textContent = `Row ${place + 1} of ${state.batch.source}.`;
  drawFields();
  markSelected();
  decideRow(0);
  $('answer').scrollIntoView({block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
}

function markSelected() {
  for (const row of document.querySelectorAll('#table tr[data-row]')) row.toggleAttribute('aria-current', Number(row.dataset.row) === state.selected);
}

function download() {
  const {header, cells, decisions} = state.batch;
  const names = ['prediction', 'accepted', 'score', 'cost', 'expected_loss', ...(state.model.experts.length ? ['takes'] : [])];
  const lines = decisions.map((each, place) => [...header.map((_, column) => cells[place][column] ?? ''),
    each.prediction, each.accepted, each.score, each.cost, each.expected_loss,
    ...(state.model.experts.length ? [each.takes] : [])]);
  const link = make('a', {download: 'decisions.csv', href: URL.createObjectURL(new Blob([csvText([[...header, ...names], ...lines])], {type: 'text/csv'}))});
  link.click();
  URL.revokeObjectURL(link.href);
}

async function sendToReview(rows, ids) {
  const reviews = [];
  for (let start = 0; start < rows.length; start += CHUNK) {
    const body = {rows: rows.slice(start, start + CHUNK), ids: ids.slice(start, start + CHUNK), ...costOfRequest()};
    reviews.push(...(await ask(predictPath(), body)).decisions.map(each => each.review));
  }
  return reviews;
}

async function sendOne() {
  const row = state.row, place = state.selected;
  await replacing('review', async () => {
    [row.review] = await sendToReview([row.values], [row.id]);
    if (place !== null && row.review) state.batch.reviews.set(place, row.review);
    drawAnswer();
    drawBatch();
  });
}

async function sendAll() {
  const batch = state.batch;
  const places = [...batch.decisions.keys()].filter(place => !batch.decisions[place].accepted && !batch.reviews.has(place));
  await replacing('review', async () => {
    const reviews = await sendToReview(places.map(place => batch.rows[place]), places.map(place => batch.ids[place]));
    reviews.forEach((review, index) => { if (review) batch.reviews.set(places[index], review); });
    drawBatch();
  });
}

function drawSent(button, text, review) {
  button.hidden = Boolean(review);
  text.replaceChildren(...(review ? ['Sent to review. ', make('a', {href: '/review'}, 'Open the queue')] : []));
}
