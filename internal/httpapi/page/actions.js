// What a person may do with a stream, and the dialog that asks first.

import { $, ask, count, keepToken, make, many, say } from './text.js';
import { byKind, differences } from './parts.js';

const path = (stream, rest) => `/api/v1/streams/${encodeURIComponent(stream)}/${rest}`;

const tablesOf = (s) => (s.summary.shards === 1 ? 'the table' : `all ${many(s.summary.shards, 'table')}`);
const compares = (s) =>
  s.kind === 'release'
    ? `bridge reads from ${tablesOf(s)} of ${s.name} only ids that were not published and are no longer polled: ${count(s.summary.gaps.unpolled)} now. bridge verify compares the whole table.`
    : `bridge reads ${tablesOf(s)} of ${s.name} and compares each row with what was published.`;

/** actions say what will happen, then do it, in steps. The first step of some shows what it is about. */
const actions = {
  reconcile: {
    button: 'Reconcile …',
    title: (s) => `Reconcile ${s.name}?`,
    why: (s) => [
      compares(s),
      s.kind === 'release'
        ? 'It publishes the rows that were missed. Rows that have changed or are gone are no events of a release stream.'
        : 'It publishes every difference: rows that were missed, rows that have changed, and a delete for each entity that is gone. If suspiciously many are gone, no delete is published.',
    ],
    steps: [
      {
        label: 'Reconcile',
        run: (s) =>
          ask(path(s.name, 'reconcile'), 'POST').then((a) => ({
            done: `Accepted for ${many(a.shards, 'table')}. The page shows how far it is.`,
          })),
      },
    ],
  },
  dryRun: {
    button: 'Dry run …',
    title: (s) => `Dry run of a reconcile of ${s.name}?`,
    why: (s) => [compares(s), 'It publishes nothing. The differences are shown here.'],
    steps: [{ label: 'Start the dry run', run: dryRun }],
  },
  allowDeletes: {
    button: 'Allow deletes …',
    title: (s) => `Allow the deletes of ${s.name}?`,
    why: (s) => [
      'The guard holds deletes back because suspiciously many entities have no row. Was the table truncated, restored or exchanged? Then fix the table instead.',
      'First a dry run shows which entities are concerned. It publishes nothing.',
    ],
    steps: [
      { label: 'Show which entities', run: (s, tell) => dryRun(s, tell, true) },
      {
        label: 'Publish the deletes',
        title: (s, before) => `Publish ${many(before, 'delete')}?`,
        why: [
          'bridge reads the table once more and publishes a delete for each entity that still has no row. Consumers cannot take that back; an entity whose row comes back is published again as added.',
        ],
        run: (s) => allow(s, 'In this run deletes are published, however many.'),
      },
    ],
  },
  pause: {
    button: 'Pause …',
    title: (s) => `Pause ${s.name}?`,
    why: (s) => [
      `Rows in flight are published first. Then nothing of ${tablesOf(s)} is read or published, until a person resumes the stream: no rows, no updates, no reconcile. Nothing is lost by that.`,
    ],
    steps: [{ label: 'Pause', run: (s) => pauseOrResume(s, 'pause') }],
  },
  resume: {
    button: 'Resume …',
    title: (s) => `Resume ${s.name}?`,
    why: (s) => [`${s.name} goes on behind what was published of it, with ${tablesOf(s)}.`],
    steps: [{ label: 'Resume', run: (s) => pauseOrResume(s, 'resume') }],
  },
  resend: {
    button: 'Resend dead letters …',
    title: (s) => `Resend the dead letters of ${s.name}?`,
    why: (s) => [
      'bridge reads each row again and publishes what is true of it now. An old state is never published. First give the bus a higher limit, or the row is refused again.',
      'A dry run shows first what would be sent. It publishes nothing.',
    ],
    steps: [
      { label: 'Show what would be sent', run: (s) => resend(s, true) },
      {
        label: 'Resend',
        title: (s, before) => `Resend ${many(before, 'dead letter')}?`,
        why: ['bridge publishes what is true of these rows now, behind what was published of them. The dead letters stay where they are.'],
        run: (s) => resend(s, false),
      },
    ],
  },
};

const allow = (s, done) =>
  ask(path(s.name, 'reconcile?allowDeletes=true'), 'POST').then((a) => ({ done: `Accepted for ${many(a.shards, 'table')}. ${done}` }));

/** reused is allowDeletes for a table that is stopped because it uses ids again: it cannot be compared before. */
const reused = {
  title: (s) => `Publish ${s.name} as its tables are now?`,
  why: () => [
    'A table uses ids again that were published: it was truncated, restored or exchanged. Is it not what it should be? Then fix the table instead.',
    'bridge compares it from its first row, publishes what has changed, and a delete for each entity that is gone. Which these are cannot be shown before: the table is stopped. Consumers cannot take deletes back.',
  ],
  steps: [{ label: 'Publish changes and deletes', run: (s) => allow(s, 'The page shows how far it is.') }],
};

async function pauseOrResume(s, verb) {
  const a = await ask(path(s.name, verb), 'POST', 30);
  const flying = a.publishing ? ` Of ${many(a.publishing, 'table')} rows are still in flight.` : '';
  return { done: `${many(a.shards, 'table')} ${verb === 'pause' ? 'paused' : 'resumed'}.${flying}${a.notOnBus ? ` But ${a.notOnBus}.` : ''}` };
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** dryRun requests a dry run, waits for its end and returns what it found. */
async function dryRun(s, tell, deletes = false) {
  await ask(path(s.name, 'reconcile?dryRun=true'), 'POST');
  for (;;) {
    await pause(500);
    if (!$('#ask').open) return {};
    const now = (await ask(`/api/v1/status?working=true&limit=1&examples=20&stream=${encodeURIComponent(s.name)}`)).streams.find(
      (one) => one.name === s.name,
    );
    const r = now.summary.reconcile;
    if (!r.waiting) return foundBy(r.dryRun, deletes, s.kind);
    tell(`The dry run compares. ${many(r.waiting, 'table')} left.`);
  }
}

function foundBy(d, deletes, kind) {
  if (!d) return { done: 'The dry run was not done.', end: true };
  const cut = d.failed ? `${many(d.failed, 'table')} could not be compared: ${d.error}. Of the others: ` : '';
  const n = deletes ? d.absent : differences(d);
  const list = d.differences
    .filter((one) => !deletes || one.what === 'deleted')
    .map((one) => `${one.what}: ${one.entity || `row ${one.row}`} (${one.shard}, row ${one.row})`);
  const what = deletes
    ? `${many(n, 'entity has', 'entities have')} no row, and would be deleted.`
    : n
      ? `${many(n, 'difference')}: ${byKind(d)}. Nothing was published.`
      : kind === 'release'
        ? 'No row has an id that was not published and is no longer polled.'
        : 'There is no difference.';
  return {
    done: cut + what + (list.length && list.length < n ? ` The first ${list.length} are:` : ''),
    list,
    count: n,
    end: deletes && !n,
  };
}

async function resend(s, dry) {
  const r = await ask(path(s.name, `resend-all?dryRun=${dry}`), 'POST', 90);
  const list = r.letters.map((l) => `${l.shard}, row ${l.row}: ${l.fate}${l.why ? ` (${l.why})` : ''}; it was refused because ${l.reason}`);
  const fates = Object.entries(r.fates)
    .map(([fate, n]) => `${count(n)} ${dry && fate === 'published' ? 'to publish' : fate}`)
    .join(', ');
  const what = r.found ? `${many(r.found, 'dead letter')}: ${fates}.` : 'There are no dead letters.';
  const more = r.more ? ` There are more than these: type bridge deadletter resend --stream ${s.name}.` : '';
  return { done: `${what}${dry ? ' Nothing was published.' : ''}${more}`, list, count: r.found, end: !r.found || r.more };
}

export function actionBar(name) {
  const node = make('div', { class: 'actions', role: 'group', 'aria-label': `What to do with ${name}` });
  const buttons = {};
  let s = null;
  for (const [key, action] of Object.entries(actions)) {
    buttons[key] = make('button', { type: 'button', 'aria-haspopup': 'dialog' }, action.button);
    buttons[key].addEventListener('click', () => askFirst(key === 'allowDeletes' && !s.summary.reconcile.guards ? reused : action, s));
    node.append(buttons[key]);
  }
  return {
    node,
    update(now) {
      s = now;
      const again = [s.summary.worst, ...s.shards].some((sh) => sh?.cause === 'idsReused');
      buttons.resend.hidden = !s.resendable;
      buttons.resume.hidden = !s.summary.pausedAt;
      buttons.pause.hidden = s.summary.shards > 0 && s.summary.states.paused === s.summary.shards;
      buttons.allowDeletes.hidden = !s.summary.reconcile.guards && !(again && s.kind === 'capability');
    },
  };
}

// ---- The dialog.

const dialog = $('#ask');
let running = null;

/** actionOpen reports whether a person is being asked. */
export const actionOpen = () => dialog.open;

function askFirst(action, s) {
  running = { action, s, step: 0, before: 0 };
  explain(action.why(s));
  $('.token', dialog).hidden = true;
  begin(action.title(s));
  tell('');
  list([]);
  dialog.showModal();
  $('button[value=cancel]', dialog).focus();
}

const explain = (texts) => $('.why', dialog).replaceChildren(...texts.map((text) => make('p', {}, text)));

/** begin shows the step that is next. */
function begin(title) {
  const { action, step } = running,
    button = $('.main-button', dialog);
  say($('h2', dialog), title);
  say($('.wrong', dialog), '');
  const next = action.steps[step];
  button.hidden = !next;
  button.disabled = false;
  say(button, next ? next.label : '');
  say($('button[value=cancel]', dialog), next ? 'Cancel' : 'Close');
}

const tell = (text) => say($('.doing', dialog), text);

function list(texts) {
  $('.list', dialog).hidden = !texts.length;
  $('.list ul', dialog).replaceChildren(...texts.map((text) => make('li', {}, text)));
}

async function advance() {
  const mine = running,
    { action, s, step } = mine,
    button = $('.main-button', dialog);
  const typed = dialog.querySelector('.token input').value;
  if (typed) keepToken(typed);
  button.disabled = true;
  say($('.wrong', dialog), '');
  tell('bridge is asked …');
  try {
    const result = await action.steps[step].run(s, tell);
    if (running !== mine) return;
    tell(result.done || '');
    list(result.list || []);
    mine.step = result.end ? action.steps.length : step + 1;
    const next = action.steps[mine.step];
    if (next?.why) explain(next.why);
    begin(next?.title ? next.title(s, result.count) : action.title(s).replace('?', ''));
    $('button[value=cancel]', dialog).focus();
    dispatchEvent(new Event('action-done'));
  } catch (e) {
    if (running === mine) refused(e);
  }
}

/** refused shows why the daemon does not do it, and asks for the token where that is the reason. */
function refused(e) {
  tell('');
  say(
    $('.wrong', dialog),
    e.name === 'TimeoutError' ? 'bridge did not answer in time.' : e instanceof TypeError ? 'bridge does not answer.' : e.message,
  );
  const field = $('.token', dialog);
  field.hidden = e.status !== 401 && e.status !== 403;
  if (!field.hidden) field.querySelector('input').focus();
  $('.main-button', dialog).disabled = false;
}

dialog.addEventListener('close', () => {
  running = null;
});
$('button[value=cancel]', dialog).addEventListener('click', () => dialog.close());
$('form', dialog).addEventListener('submit', (event) => {
  event.preventDefault();
  advance();
});
