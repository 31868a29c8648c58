// Elements of the page, and numbers, durations and times for people. All data become text, never HTML.

export const $ = (selector, within = document) => within.querySelector(selector);

/** make returns an element; children are nodes or texts. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** say sets a text where it has changed, so that nothing is read aloud again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function set(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** show keeps one part for each item, by key, in their order, behind a first child. A part has a node and an update. */
export function show(parent, items, keyOf, newPart, first = null) {
  const parts = (parent.parts ??= new Map());
  const keys = new Set(items.map(keyOf));
  for (const [key, part] of parts)
    if (!keys.has(key)) {
      part.node.remove();
      parts.delete(key);
    }
  let before = first;
  for (const item of items) {
    const key = keyOf(item);
    if (!parts.has(key)) parts.set(key, newPart(item));
    const { node } = parts.get(key);
    const next = before ? before.nextSibling : parent.firstChild;
    if (node !== next) parent.insertBefore(node, next);
    parts.get(key).update(item);
    before = node;
  }
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
export const rate = (n) => (n >= 100 ? whole.format(n) : short.format(n));
export const brief = (n) => (n < 10000 ? whole.format(n) : compact.format(n));

/** count writes a number of things. Ids that hold a time leave gaps whose digits tell nothing. */
export const count = (n) => whole.format(n);
export const countIDs = (n) => (Number(n) < 1e12 ? whole.format(n) : `over 10^${Math.floor(Math.log10(Number(n)))}`);
export const many = (n, one, more = one + 's') => `${count(n)} ${n === 1 ? one : more}`;

/** lasting returns a duration in its two greatest units. */
export function lasting(seconds) {
  if (seconds === null || seconds === undefined) return 'not known';
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const units = [
    ['d', 86400],
    ['h', 3600],
    ['min', 60],
    ['s', 1],
  ];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const rest = units[first + 1] && Math.floor((seconds % size) / units[first + 1][1]);
  return `${Math.floor(seconds / size)} ${name}${rest && seconds < 10 * size ? ` ${rest} ${units[first + 1][0]}` : ''}`;
}

const two = (n) => String(n).padStart(2, '0');

export function clock(text) {
  const t = new Date(text),
    day = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} `;
  return (t.toDateString() === new Date().toDateString() ? '' : day) + [t.getHours(), t.getMinutes(), t.getSeconds()].map(two).join(':');
}

/** age returns how many seconds ago a time was, by the clock of the daemon. */
export const age = (text) => Math.max(0, (Date.now() + skew - Date.parse(text)) / 1000);

export function ago(text) {
  const seconds = age(text),
    [name, size] = [
      ['d', 86400],
      ['h', 3600],
      ['min', 60],
    ].find(([, size]) => seconds >= 1.5 * size) || ['s', 1];
  return `${Math.round(seconds / size)} ${name} ago`;
}

// ---- Requests to the daemon.

let skew = 0;
const tokenKey = 'bridge-token';
export const keepToken = (token) => sessionStorage.setItem(tokenKey, token);
const token = () => sessionStorage.getItem(tokenKey) || '';

const ids = ['position', 'highest', 'first', 'last', 'row', 'ids'];

/** numbers keeps the digits of ids that a JavaScript number cannot hold. */
const numbers = (name, value, context) =>
  ids.includes(name) && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? BigInt(context.source) : value;

/** ask returns the answer of a path; an error has the status, and what the daemon says. */
export async function ask(path, method = 'GET', seconds = 5) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const response = await fetch(path, { method, headers, cache: 'no-store', signal: AbortSignal.timeout(seconds * 1000) });
  const text = await response.text();
  let body = {};
  try {
    body = JSON.parse(text, numbers);
  } catch {
    /* Not of bridge: the status tells. */
  }
  if (!response.ok) throw Object.assign(new Error(body.error || `the daemon answers ${response.status}`), { status: response.status });
  const at = Date.parse(response.headers.get('Date') || '');
  if (at) skew = at - Date.now();
  return body;
}
