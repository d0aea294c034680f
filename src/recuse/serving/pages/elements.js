'use strict';
// Elements, numbers and the dialog of the API key, for both pages.

const $ = id => document.getElementById(id);

/** Create an element; texts become text nodes, so that nothing in the rows can be markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
}

/** Return the number of a cell as it was given: without rounding that matters, and without commas in years. */
const plainNumber = (value, digits = 12) => String(Number(value.toPrecision(digits)));

function askForKey(refused) {
  const dialog = $('key-dialog');
  $('key-alert').hidden = !refused;
  $('key').value = '';
  if (!dialog.open) dialog.showModal();
  return new Promise(resolve => dialog.addEventListener('close', () => {
    sessionStorage.setItem('recuse-key', $('key').value);
    resolve();
  }, {once: true}));
}
