// The form of one row, its answer and its reasons.

function exampleRow(columns) {
  const values = columns.map(column => {
    if (column.kind === 'category') return column.levels[Math.floor(column.levels.length / 2)] ?? null;
    if (column.low === null) return state.scale?.start ?? 1;
    const middle = (column.low + column.high) / 2, width = column.high - column.low;
    if (column.kind === 'date') return new Date(middle * 1000).toISOString().slice(0, 10);
    return width > 0 ? Number(middle.toFixed(Math.min(Math.max(2 - Math.floor(Math.log10(width)), 0), 12))) : middle;
  });
  return {values: Object.fromEntries(columns.map((column, place) => [column.name, values[place]]))};
}

function drawFields() {
  $('fields').replaceChildren(...state.columns.map((column, place) => {
    const id = `field-${place}`, value = state.row.values[column.name];
    const type = column.kind === 'date' && (value === null || /^\d{4}-\d\d-\d\d$/.test(value)) ? 'date' : 'text';
    const input = make('input', {id, type, 'aria-describedby': `${id}-hint ${id}-new`, 'data-column': column.name,
      inputmode: column.kind === 'number' ? 'decimal' : null, list: column.kind === 'category' ? `${id}-levels` : null});
    input.value = value ?? '';
    const levels = column.kind !== 'category' ? [] : [make('datalist', {id: `${id}-levels`},
      ...column.levels.slice(0, 500).map(level => make('option', {value: String(level)})))];
    return make('div', {class: 'field'}, make('label', {for: id}, column.name), input, ...levels,
      make('p', {class: 'hint', id: `${id}-hint`}, fieldHint(column)), make('p', {class: 'newness', id: `${id}-new`, hidden: true}));
  }));
}

function fieldHint(column) {
  if (column.kind === 'category') {
    const names = column.levels.slice(0, 4).map(String).join(', ');
    return column.levels.length > 4 ? `${names}, … (${column.levels.length})` : names;
  }
  if (column.low === null || column.low === undefined) return column.name === state.scale.column ? 'cost of an expert' : '';
  const day = seconds => new Date(seconds * 1000).toISOString().slice(0, 10);
  return column.kind === 'date' ? `${day(column.low)} to ${day(column.high)}` : `${plainNumber(column.low, 6)} to ${plainNumber(column.high, 6)}`;
}

function editRow(event) {
  const column = state.columns.find(each => each.name === event.target.dataset.column);
  state.row = {values: {...state.row.values, [column.name]: readCell(event.target.value, column, state.model.missing_words)}, id: newId()};
  state.selected = null;
  $('row-note').textContent = '';
  markSelected();
  decideRow();
}

/** Ask the service about the row once nothing has changed for a moment, and about rows whose decisions only it knows. */
function decideRow(pause = PAUSE) {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => {
    askAboutRow();
    const stale = state.batch && state.batch.cost !== state.cost && !followsCost(state.model);
    if (stale) decideBatch();
  }, pause);
}

function askAboutRow() {
  return replacing('row', async signal => {
    const row = state.row, cost = state.cost;
    const body = {row: row.values, record: false, ...costOfRequest()};
    const answer = await ask(predictPath(true), body, signal).catch(error => {
      if (error.name !== 'AbortError') clearAnswer();  // the old one is about another row
      throw error;
    });
    if (answer.version !== state.model.version) await noticeVersion(answer.version);
    if (row !== state.row || cost !== state.cost) return undefined;
    state.answer = answer.decisions[0];
    if (state.cost === null || state.model.cost !== null || state.scale.range || state.scale.fitted) return drawAnswer();
    useScale({...costScale(state.model, state.answer.expected_loss), fitted: true});
    return setCost(state.cost);
  });
}

function clearAnswer() {
  state.answer = null;
  $('verdict').className = 'verdict';
  $('big').textContent = '\u2026';
  for (const id of ['kicker', 'lead', 'pill', 'new', 'neighbours']) $(id).replaceChildren();
  $('scale').hidden = $('review').hidden = true;
}

function drawAnswer() {
  const answer = state.answer;
  if (!answer) return;
  const {accepted, expected_loss: loss, cost} = answer, target = state.model.target ?? '';
  $('verdict').className = `verdict ${accepted ? 'predict' : 'expert'}`;
  $('kicker').textContent = state.selected === null ? target : `Row ${state.selected + 1}${target && ` \u00b7 ${target}`}`;
  $('big').replaceChildren(...(accepted ? ['Predict ', make('strong', {}, predictionText(answer, state.model))] : [askWhom(answer)]));
  $('lead').textContent = [savingSentence(answer), errorSentence(answer, state.model)].filter(Boolean).join(' ');
  $('pill').textContent = accepted ? `Predict ${predictionText(answer, state.model)}` : askWhom(answer);
  $('pill').className = `pill ${accepted ? 'predict' : 'expert'}`;
  $('scale').hidden = loss === null;
  if (loss !== null) drawScale(loss, cost);
  $('review').hidden = !state.model.review_queue || accepted;
  drawSent($('send'), $('sent'), state.row.review);
  drawReasons(answer);
}

function drawScale(loss, cost) {
  const most = Math.max(loss * 1.5, cost * 1.25) || 1;
  $('fill').style.width = `${Math.min(100 * loss / most, 100)}%`;
  $('tick').style.left = `${100 * cost / most}%`;
  $('loss-label').textContent = `expected loss ${brief(loss)}`;
  $('cost-label').textContent = `cost of an expert ${brief(cost)}`;
}

function drawReasons(answer) {
  const cells = answer.new ?? [];
  $('new').replaceChildren(...(cells.length
    ? cells.map(cell => make('li', {}, make('strong', {}, cell.column), ` ${newCellSentence(cell)}.`))
    : [make('li', {class: 'fine'}, 'Every cell is within what the training rows had.')]), ...spreadParts(answer.neighbours));
  state.columns.forEach((column, place) => {
    const cell = cells.find(each => each.column === column.name), note = $(`field-${place}-new`);
    note.hidden = !cell;
    note.textContent = cell ? cell.problem : '';
    $(`field-${place}`).classList.toggle('is-new', Boolean(cell));
  });
  $('neighbours').replaceChildren(...neighbourParts(answer.neighbours));
}

/** Say how far the targets of the nearest training rows are apart. */
function spreadParts(neighbours) {
  const targets = (neighbours ?? []).map(near => near.target);
  if (targets.length < 2 || !targets.every(target => typeof target === 'number')) return [];
  const [low, high] = [Math.min(...targets), Math.max(...targets)];
  return [make('li', {class: 'near'}, `The ${targets.length} nearest training rows had `, make('strong', {}, targetName()),
    low === high ? ` ${show(low)}.` : ` from ${show(low)} to ${show(high)}.`)];
}

/** Compare the row with its nearest training rows, one line for each column. */
function neighbourParts(neighbours) {
  if (!state.model.training_rows) {
    return [make('p', {class: 'note'}, 'Start the service with ', make('code', {}, '--training FILE'),
      ' to see the nearest training rows here.')];
  }
  if (!neighbours?.length) return [];
  const titles = ['This row', 'Nearest', '2nd', '3rd'].slice(0, neighbours.length + 1);
  const head = make('tr', {}, make('td'), ...titles.map(title => make('th', {scope: 'col', class: 'number'}, title)));
  const lines = state.model.columns.map(({name}) => make('tr', {}, make('th', {scope: 'row'}, name),
    make('td', {class: 'number'}, shownCell(state.row.values[name])),
    ...neighbours.map(near => make('td', {class: sameCell(name, near) ? 'number same' : 'number'}, shownCell(near.row[name])))));
  const table = make('table', {class: 'compare'}, make('thead', {}, head), make('tbody', {}, ...targetLines(neighbours), ...lines));
  return [make('h3', {}, 'Nearest training rows'),
    make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Nearest training rows'}, table)];
}

function targetLines(neighbours) {
  if (neighbours[0].target === null) return [];
  return [make('tr', {class: 'target'}, make('th', {scope: 'row'}, targetName()),
    make('td', {class: 'number'}, make('span', {class: 'note'}, 'predicted '), show(state.answer.prediction)),
    ...neighbours.map(near => make('td', {class: 'number'}, shownCell(near.target))))];
}

const sameCell = (name, near) => String(state.row.values[name] ?? '') === String(near.row[name] ?? '');
const targetName = () => state.model.target ?? 'target';
const numeric = name => state.columns.find(column => column.name === name)?.kind === 'number' ? 'number' : '';
const shownCell = cell => cell === null || cell === undefined ? '\u2013' : typeof cell === 'number' ? plainNumber(cell) : String(cell);
