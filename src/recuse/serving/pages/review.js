// Gives rows of the review queue to a reviewer, one at a time, and shows how the model would have done.
const POLL = 10_000, HEARTBEAT = 120_000, ABSENT = 600_000;  // milliseconds
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const state = {reviewer: '', order: 'saving', item: null, busy: false, skipped: false, active: Date.now(), poll: 0};

const shown = value => typeof value === 'number' ? plainNumber(value) : String(value);
const rounded = value => Math.abs(value) >= 1e7
  ? value.toExponential(2) : value.toLocaleString('en', {maximumSignificantDigits: 3});
const several = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

async function ask(path, body, options = {}) {
  const key = sessionStorage.getItem('recuse-key');
  const headers = {'Content-Type': 'application/json', ...(key ? {'X-API-Key': key} : {})};
  let answer;
  try {
    answer = await fetch(path, {method: 'POST', headers, body: JSON.stringify(body), ...options});
  } catch {
    throw new Error('The service does not answer. Your entry is kept; try again.');
  }
  if (answer.status === 401) {
    await askForKey(key !== null);
    return ask(path, body, options);
  }
  if (answer.status === 204) return {status: 204, skipped: Number(answer.headers.get('X-Skipped') ?? 0)};
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(content.error ?? `The service answered with status ${answer.status}.`);
    error.status = answer.status;
    throw error;
  }
  return content;
}

function say(id, text) {
  $(id).hidden = !text;
  $(id).textContent = text;
}

/** Run a request unless one is running; errors are shown. */
async function once(task) {
  if (state.busy) return;
  state.busy = $('submit').disabled = $('skip').disabled = true;
  try {
    await task();
    say('alert', '');
  } catch (error) {
    say('alert', error.message);
    if (error.status === 404 || error.status === 409) await next().catch(later => say('alert', later.message));
  } finally {
    state.busy = $('submit').disabled = $('skip').disabled = false;
    if (state.item) $('value').focus();
  }
}

const lease = () => `/reviews/${encodeURIComponent(state.item.id)}`;

async function next() {
  state.item = null;
  const item = await ask('/reviews/lease', {reviewer: state.reviewer, order: state.order, skipped: state.skipped});
  if (item.status === 204) return showEmpty(item.skipped);
  state.item = item;
  state.reviewer = $('name-shown').textContent = item.reviewer;  // a key may belong to a reviewer
  state.active = Date.now();
  showItem(item);
}

function showEmpty(skipped) {
  state.skipped = false;
  $('task').hidden = true;
  $('empty').hidden = false;
  $('again').hidden = skipped === 0;
  $('again').textContent = `Show ${several(skipped, 'row')} that I skipped`;
  $('progress').textContent = 'No rows are waiting.';
  clearTimeout(state.poll);
  state.poll = setTimeout(() => state.item || document.hidden ? showEmptyLater() : once(next), POLL);
}

function showEmptyLater() {
  if (!state.item) state.poll = setTimeout(() => document.hidden ? showEmptyLater() : once(next), POLL);
}

function showItem(item) {
  $('task').hidden = false;
  $('empty').hidden = true;
  const when = new Date(1000 * item.recorded).toLocaleString('en', {dateStyle: 'medium', timeStyle: 'short'});
  $('task-note').textContent = `Model ${item.model}, ${when}`;
  $('cells').replaceChildren(...Object.entries(item.row).map(([name, cell]) => make('div', {},
    make('dt', {}, name), make('dd', cell === null ? {class: 'missing'} : {}, cell === null ? 'missing' : shown(cell)))));
  $('fields').replaceChildren(make('label', {}, item.target ?? 'Your answer', make('input', {
    type: 'text', inputmode: 'decimal', id: 'value', autocomplete: 'off', 'aria-describedby': 'problem'})));
  say('problem', '');
  showProgress(item.progress);
  $('value').focus({preventScroll: true});
}

function showProgress(progress) {
  const {waiting, held, answered, answered_by_you: yours, saved} = progress;
  $('progress').textContent = `${several(waiting, 'row')} waiting, ${held} in work, ${answered.toLocaleString('en')} answered`;
  $('count').textContent = yours.toLocaleString('en');
  $('saved').textContent = rounded(saved);
}

/** Return the number that was entered, or null after saying what is wrong. */
function entered() {
  const input = $('value'), text = input.value.trim().replace('−', '-');
  input.removeAttribute('aria-invalid');
  if (!NUMBER.test(text) || !Number.isFinite(Number(text))) {
    input.setAttribute('aria-invalid', 'true');
    input.focus();
    say('problem', text ? `Enter a number such as 1234.5, not “${text.slice(0, 40)}”.` : 'Enter a number.');
    return null;
  }
  say('problem', '');
  return Number(text);
}

async function submit() {
  const value = entered();
  if (value === null) return;
  const item = state.item, body = {lease: item.lease, reviewer: state.reviewer, value};
  const outcome = await ask(`${lease()}/answer`, body);
  showOutcome(outcome);
  showProgress(outcome.progress);
  await next();
}

function showOutcome(outcome) {
  const {loss, cost, saved, rejected} = outcome, better = saved >= 0;
  $('outcome').hidden = false;
  $('outcome').className = `card outcome ${better ? 'paid' : 'lost'}`;
  const amount = rounded(Math.abs(saved));
  $('verdict').textContent = rejected
    ? `The model left this row to you. ${better ? `That paid: it saved ${amount}.` : `It need not have: that cost ${amount} more.`}`
    : `The model would have answered this row itself. ${better ? `That would have been right, by ${amount}.` : `Asking you would have been better, by ${amount}.`}`;
  const pairs = [['You', shown(outcome.answer)], ['Model', rounded(outcome.prediction)], ['Loss of the model', rounded(loss)],
    ['Cost of asking you', rounded(cost)]];
  $('pairs').replaceChildren(...pairs.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]));
  const most = Math.max(loss, cost) || 1;
  $('bars').replaceChildren(...[['loss', loss], ['cost', cost]].map(([name, value]) => {
    const line = make('i');
    line.style.width = `${100 * value / most}%`;  // the page allows no style in attributes
    return make('div', {class: `bar ${name}`}, name, line);
  }));
}

async function skip() {
  await ask(`${lease()}/release`, {lease: state.item.lease, skip: true});
  await next();
}

function release() {
  if (!state.item) return;
  const item = state.item;
  state.item = null;
  ask(`/reviews/${encodeURIComponent(item.id)}/release`, {lease: item.lease}, {keepalive: true}).catch(() => {});
}

/** Keep the row while somebody works on it; a page that was left alone gives it up when the lease ends. */
async function heartbeat() {
  if (!state.item || state.busy || Date.now() - state.active > ABSENT) return;
  const item = state.item;
  try {
    await ask(`${lease()}/renew`, {lease: item.lease});
  } catch (error) {
    if (state.item === item && error.status === 409) once(async () => { throw error; });
  }
}

function start() {
  $('start').hidden = true;
  $('board').hidden = $('who').hidden = false;
  $('name-shown').textContent = state.reviewer;
  once(next);
}

function askForName() {
  release();
  clearTimeout(state.poll);
  $('start').hidden = false;
  $('board').hidden = $('who').hidden = true;
  $('name').value = state.reviewer;
  $('start').elements.order.value = state.order;
  $('name').focus();
}

$('start').addEventListener('submit', event => {
  event.preventDefault();
  const name = $('name').value.trim();
  if (!name) return;
  state.reviewer = name;
  state.order = $('start').elements.order.value;
  localStorage.setItem('recuse-reviewer', name);
  localStorage.setItem('recuse-order', state.order);
  start();
});
$('answer').addEventListener('submit', event => {
  event.preventDefault();
  if (state.item) once(submit);
});
$('skip').addEventListener('click', () => state.item && once(skip));
$('again').addEventListener('click', () => { state.skipped = true; once(next); });
$('change').addEventListener('click', askForName);
$('key-dialog').addEventListener('cancel', event => event.preventDefault());
for (const kind of ['keydown', 'pointerdown', 'pointermove']) {
  document.addEventListener(kind, () => { state.active = Date.now(); }, {passive: true});
}
addEventListener('pagehide', release);
addEventListener('pageshow', event => { if (event.persisted && !$('board').hidden) once(next); });
setInterval(heartbeat, HEARTBEAT);

state.reviewer = localStorage.getItem('recuse-reviewer') ?? '';
state.order = localStorage.getItem('recuse-order') ?? 'saving';
if (state.reviewer) start(); else askForName();
