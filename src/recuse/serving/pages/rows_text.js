// Tables that people paste or drop: CSV or tab-separated text to rows of the model's columns.

/** Return the separator of a text: the most frequent one of the first line, outside quotes. */
function separatorOf(text) {
  const line = (text.match(/^(?:"(?:[^"]|"")*"|[^"\n\r])*/) || [''])[0].replace(/"(?:[^"]|"")*"/g, '');
  const counts = ['\t', ';', ','].map(sign => [line.split(sign).length - 1, sign]);
  return counts.reduce((best, each) => each[0] > best[0] ? each : best)[1];
}

/** Split a text into rows of cells; quotes may hold separators, line breaks and doubled quotes. */
function splitTable(text, separator = separatorOf(text)) {
  const rows = [[]];
  let cell = '', quoted = false;
  const endCell = () => { rows[rows.length - 1].push(cell.trim()); cell = ''; };
  for (let i = 0; i < text.length; i++) {
    const sign = text[i];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[i + 1] === '"') { cell += '"'; i++; } else quoted = false;
    } else if (sign === '"' && cell.trim() === '') { quoted = true; cell = ''; }
    else if (sign === separator) endCell();
    else if (sign === '\n' || sign === '\r') {
      if (sign === '\r' && text[i + 1] === '\n') i++;
      endCell();
      rows.push([]);
    } else cell += sign;
  }
  endCell();
  return rows.filter(row => row.some(each => each !== ''));
}

/** Return the numbers that a text may mean: "1,234" is 1.234 in some countries and 1234 in others. */
function readings(text) {
  const plain = text.replace(/[\s\u00a0'\u202f]/g, '').replace(/^\u2212/, '-');
  const texts = [plain];
  if (/^[+-]?\d{1,3}(\.\d{3})*,\d+(e[+-]?\d+)?$/i.test(plain) || /^[+-]?\d*,\d+(e[+-]?\d+)?$/i.test(plain)) {
    texts.push(plain.replace(/\./g, '').replace(',', '.'));
  }
  if (/^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$/.test(plain)) texts.push(plain.replace(/,/g, ''));
  return texts.filter(each => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(each)).map(Number).filter(Number.isFinite);
}

/** Read a number; of several readings the first one inside the training range. */
function readNumber(text, low = null, high = null) {
  const numbers = readings(text);
  const inside = numbers.find(each => low !== null && each >= low && each <= high);
  return inside ?? numbers[0] ?? null;
}

/** Return the value of a cell for the service: null if empty or a word for a missing value, a number, a known category, or the text as it is. */
function readCell(text, column, missingWords) {
  const cell = String(text ?? '').trim();
  if (column.kind === 'category') {
    const level = column.levels.find(each => String(each) === cell);
    if (level !== undefined) return level;
    const number = Number(cell);
    const same = cell === '' ? undefined : column.levels.find(each => typeof each === 'number' && each === number);
    return same ?? (missingWords.includes(cell.toLowerCase()) ? null : cell);
  }
  if (missingWords.includes(cell.toLowerCase())) return null;
  return column.kind === 'number' ? readNumber(cell, column.low, column.high) ?? cell : cell;
}

/** Return the rows of a text as objects, with the original cells and sentences about columns that do not match. */
function readTable(text, columns, missingWords) {
  const cells = splitTable(text.replace(/^\uFEFF/, ''));
  if (!cells.length) throw new Error('There are no rows in this text.');
  const named = new Map(columns.map(column => [column.name.trim().toLowerCase(), column]));
  const first = cells[0], found = first.filter(name => named.has(name.toLowerCase()));
  const headless = !found.length && first.length === columns.length;
  if (!found.length && !headless) {
    throw new Error(`The first line must have the column names: ${columns.map(each => each.name).join(', ')}.`);
  }
  const header = headless ? columns.map(column => column.name) : first;
  const body = headless ? cells : cells.slice(1);
  if (!body.length) throw new Error('There are column names but no rows in this text.');
  const places = new Map();
  header.forEach((name, place) => {
    const column = named.get(name.trim().toLowerCase());
    if (column && !places.has(column.name)) places.set(column.name, place);
  });
  const row = line => Object.fromEntries(columns.map(column =>
    [column.name, places.has(column.name) ? readCell(line[places.get(column.name)], column, missingWords) : null]));
  return {header, cells: body, rows: body.map(row), notes: tableNotes(header, columns, places, headless)};
}

function tableNotes(header, columns, places, headless) {
  const absent = columns.filter(column => !places.has(column.name)).map(column => column.name);
  const used = new Set(places.values());
  const others = header.filter((name, place) => !used.has(place) && name);
  return [
    ...(headless ? ['The first line has no column names, so the columns are taken in the order of the model.'] : []),
    ...(absent.length ? [`No column is named ${absent.join(', ')}: these cells count as missing.`] : []),
    ...(others.length ? [`The model does not read ${others.join(', ')}.`] : []),
  ];
}

// Texts that spreadsheets run as formulas; numbers, also as text, are none.
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/, SIGNED_NUMBER = /^[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?$/i;

/** Return rows as CSV text, with an apostrophe before formulas. */
function csvText(rows) {
  const text = cell => cell === null || cell === undefined ? '' : String(cell);
  const safe = cell => FORMULA.test(cell) && !SIGNED_NUMBER.test(cell) ? `'${cell}` : cell;
  const quoted = cell => /[",\n\r]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell;
  return rows.map(row => row.map(cell => quoted(safe(text(cell)))).join(',')).join('\n') + '\n';
}
