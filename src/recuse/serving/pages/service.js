// The state of the decision page, and its requests to the service.

const PAUSE = 160, CHUNK = 2000, PAGE = 100;  // milliseconds; rows of one request; rows that are shown at once
const state = {models: [], model: null, columns: [], scale: null, cost: null, row: null, answer: null, batch: null,
  selected: null, filter: 'all', limit: PAGE, timer: 0, inFlight: {}, errors: {}, versions: new Set()};

async function ask(path, body = null, signal = undefined) {
  const key = sessionStorage.getItem('recuse-key');
  const headers = {...(key ? {'X-API-Key': key} : {}), ...(body ? {'Content-Type': 'application/json'} : {})};
  let answer;
  try {
    answer = await fetch(path, {method: body ? 'POST' : 'GET', headers, signal, body: body && JSON.stringify(body)});
  } catch (error) {
    throw error.name === 'AbortError' ? error : new Error('The service does not answer. Is it still running?');
  }
  if (answer.status === 401) {
    await askForKey(key !== null);
    return ask(path, body, signal);
  }
  const content = await answer.json().catch(() => ({error: `The service answered with status ${answer.status}.`}));
  if (!answer.ok) throw new Error(content.error ?? `The service answered with status ${answer.status}.`);
  return content;
}

/** Run a task that replaces the one of the same name; errors are shown, except that it was replaced. */
async function replacing(name, task) {
  state.inFlight[name]?.abort();
  const control = state.inFlight[name] = new AbortController();
  try {
    await task(control.signal);
    showError(name, '');
  } catch (error) {
    if (error.name !== 'AbortError') showError(name, error.message);
  }
}

/** Show the errors of all sources; an empty text removes the error of its source. */
function showError(source, text) {
  state.errors[source] = text;
  const shown = Object.values(state.errors).filter(Boolean);
  $('alert').hidden = !shown.length;
  $('alert').textContent = [...new Set(shown)].join(' ');
}

const predictPath = (explain = false) =>
  `/predict?model=${encodeURIComponent(state.model.name)}${explain ? '&explain=true' : ''}`;
const costOfRequest = () => state.scale.movable ? {cost: state.cost} : {};
const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map(byte => byte.toString(16).padStart(2, '0')).join('');
