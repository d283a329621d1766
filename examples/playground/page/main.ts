import type { RecordingPlayer } from '../../../src/inspector/index.js';
import type { Preset } from '../engine/preset.js';
import { loadPreset } from '../engine/preset.js';
import type { PresetName, State } from '../engine/scenario.js';
import { fromHash, PRESETS, presetOf, SPEED, toHash } from '../engine/scenario.js';
import { SIDES } from '../engine/sides.js';
import type { BoardView } from './boards.js';
import { controls } from './controls.js';
import { h, write } from './dom.js';
import { numbers } from './numbers.js';
import type { Player } from './player.js';

/** How often numbers are written while it plays, in ms. */
const NUMBERS_EVERY_MS = 120;
const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 10, 20];

const IDEAS: readonly (readonly [name: string, text: string])[] = [
  ['Gated batching', 'A batch is closed when a call can really leave, not when a timer says so: under load calls are fewer and fuller.'],
  ['Lanes', 'Items of an urgent lane lead the next call, whoever came first; the others ride along and are never starved.'],
  ['Splits', 'A failed batch is taken apart until the bad item stands alone; everybody else gets an answer.'],
  ['Cancellation', 'What nobody waits for any more is aborted at the provider, not just hidden.'],
];

const app = document.querySelector('#app') as HTMLElement;
const isCalm = matchMedia('(prefers-reduced-motion: reduce)');

let state: State;
let preset: Preset;
let player: Player | undefined;
let boards: readonly BoardView[] = [];
/** Loaded once, with the first preset. */
let modules: { readonly player: typeof import('./player.js'); readonly boards: typeof import('./boards.js') } | undefined;
/** Counts loads of presets, so that the last one asked for is the one shown. */
let asked = 0;
let numbersAt = 0;
let shownOver = false;

// --- What stands on the page from the beginning ---------------------------------------------------------------------------

const problems = h('div', { class: 'problems', role: 'alert', hidden: true });
const picker = h(
  'nav',
  { class: 'presets', 'aria-label': 'Stories' },
  ...Object.entries(PRESETS).map(([name, title]) =>
    h('button', { type: 'button', 'data-preset': name, 'aria-pressed': 'false', click: () => void choose(name as PresetName) }, title),
  ),
);
const title = h('h2', { id: 'story' });
const watch = h('p', { class: 'watch' });
const differs = h('p', { class: 'differs' });
const playButton = h('button', { type: 'button', class: 'primary', click: togglePlay }, 'Play');
const stepButton = h('button', { type: 'button', click: step, title: 'On to the next event' }, 'Step');
const restartButton = h(
  'button',
  {
    type: 'button',
    click: () => {
      restart(true);
    },
  },
  'Restart',
);
const endButton = h('button', { type: 'button', click: toEnd, title: 'At once, without the picture' }, 'To the end');
const speedSelect = h('select', { id: 'speed', change: setSpeed });
const clock = h('output', { class: 'clock', 'aria-label': 'Time' });
const progress = h('progress', { max: 1, value: 0, 'aria-label': 'How far the run is' });
const announcer = h('p', { class: 'visually-hidden', role: 'status' });
const table = numbers();
const settings = controls((scenario) => {
  state = { preset: state.preset, scenario, speed: state.speed };
  restart(player?.isPlaying ?? false);
});
const boardsPlace = h('div', { id: 'boards', class: 'boards', tabindex: -1 });
const recordingPlace = h('div');
const file = h('input', {
  type: 'file',
  accept: '.json,.jsonl,application/json',
  class: 'visually-hidden',
  tabindex: -1,
  'aria-hidden': 'true',
  change: () => void openFile(),
});
const openButton = h(
  'button',
  {
    type: 'button',
    click: () => {
      file.click();
    },
  },
  'Open a recording…',
);
const copyButton = h('button', { type: 'button', class: 'primary', click: () => void showCode() }, 'Copy as code');
const linkButton = h('button', { type: 'button', click: () => void copyLink() }, 'Copy link');

app.append(
  h(
    'header',
    { class: 'top' },
    h('h1', {}, 'Sluice playground'),
    h(
      'p',
      {},
      'An agent makes more calls than its provider takes. The same load runs through two pipelines: see what each of them makes of it.',
    ),
    h(
      'details',
      { class: 'ideas' },
      h('summary', {}, 'Four ideas, a sentence each'),
      h('dl', {}, ...IDEAS.flatMap(([name, text]) => [h('div', {}, h('dt', {}, name), h('dd', {}, text))])),
    ),
    picker,
  ),
  problems,
  h(
    'main',
    {},
    h(
      'div',
      { class: 'content' },
      h(
        'section',
        { class: 'story', 'aria-labelledby': 'story' },
        title,
        watch,
        differs,
        h(
          'div',
          { class: 'transport', role: 'group', 'aria-label': 'Run' },
          playButton,
          stepButton,
          restartButton,
          endButton,
          h('label', { for: 'speed' }, 'Speed'),
          speedSelect,
          clock,
          progress,
        ),
        announcer,
      ),
      table.element,
      boardsPlace,
      recordingPlace,
    ),
    h(
      'aside',
      { 'aria-label': 'Settings' },
      h('details', { class: 'settings', open: innerWidth > 900 }, h('summary', {}, 'Settings'), settings.element),
    ),
  ),
  h(
    'footer',
    { class: 'bottom' },
    h('div', { class: 'actions' }, linkButton, openButton, file),
    h(
      'p',
      {},
      'Everything runs in this page, on a virtual clock and a simulated provider; nothing is sent anywhere. The same address makes the same numbers, on every machine.',
    ),
  ),
);
speedSelect.append(...SPEEDS.map((speed) => h('option', { value: speed }, `${String(speed)} ×`)));

// --- Presets ---------------------------------------------------------------------------------------------------------------

async function choose(name: PresetName): Promise<void> {
  await show(`#preset=${name}`);
}

/** Shows what an address says. */
async function show(hash: string): Promise<void> {
  const mine = ++asked;
  const { preset: name } = presetOf(hash);
  const [loaded] = await Promise.all([loadPreset[name](), loadBoards()]);
  if (mine !== asked) return;
  preset = loaded;
  const read = fromHash(hash, preset.scenario);
  state = read.state;
  complain(read.problems);
  for (const button of picker.querySelectorAll('button')) button.setAttribute('aria-pressed', String(button.dataset['preset'] === name));
  write(title, PRESETS[name]);
  write(watch, preset.watch);
  write(differs, preset.differs);
  table.tell(preset.shows);
  settings.show(preset, state.scenario);
  showSpeed();
  const { flow, recipe } = await preset.pipeline.sources();
  const { bodyOf } = await import('../engine/code.js');
  if (mine !== asked) return;
  write(boards[0]?.code as Node, bodyOf(recipe));
  write(boards[1]?.code as Node, bodyOf(flow));
  restart(state.atMs === undefined && !isCalm.matches);
  document.documentElement.dataset['ready'] = name;
}

function complain(lines: readonly string[]): void {
  problems.hidden = lines.length === 0;
  problems.replaceChildren(
    ...(lines.length === 0
      ? []
      : [
          h('strong', {}, 'This address is not quite right. What could not be read stands as the story has it:'),
          h('ul', {}, ...lines.map((line) => h('li', {}, line))),
        ]),
  );
}

let loading: Promise<void> | undefined;

async function loadBoards(): Promise<void> {
  loading ??= beginBoards();
  await loading;
}

async function beginBoards(): Promise<void> {
  const [playerModule, boardsModule, { defineInspector }] = await Promise.all([
    import('./player.js'),
    import('./boards.js'),
    import('../../../src/inspector/index.js'),
  ]);
  defineInspector();
  modules = { player: playerModule, boards: boardsModule };
  boards = SIDES.map((side) => boardsModule.boardView(side, side === 'sluice' ? [copyButton] : []));
  boardsPlace.replaceChildren(...boards.map(({ element }) => element));
  requestAnimationFrame(frame);
}

// --- The run ---------------------------------------------------------------------------------------------------------------

function restart(plays: boolean): void {
  if (!modules) return;
  player?.close();
  player = new modules.player.Player(state, preset);
  for (const [i, side] of SIDES.entries()) {
    const { inspector } = boards[i] as BoardView;
    inspector.maxBatchSize = state.scenario.maxSize;
    inspector.clock = () => player?.now ?? 0;
    inspector.source = player.events[side];
  }
  if (state.atMs !== undefined) player.goTo(state.atMs);
  if (plays) player.play();
  shownOver = false;
  showRun();
  remember();
}

function frame(at: number): void {
  requestAnimationFrame(frame);
  if (!player) return;
  const wasPlaying = player.isPlaying;
  player.frame(at);
  if (wasPlaying && (at - numbersAt > NUMBERS_EVERY_MS || !player.isPlaying)) {
    numbersAt = at;
    showRun();
  }
}

function showRun(): void {
  if (!player) return;
  const { plain, sluice } = player.boards;
  table.show({ plain: plain.counts, sluice: sluice.counts });
  const { seconds } = state.scenario;
  write(clock, `${(player.now / 1000).toFixed(2)} s of ${String(seconds)} s`);
  progress.value = Math.min(1, player.now / 1000 / seconds);
  write(playButton, player.isPlaying ? 'Pause' : player.isOver ? 'Play again' : 'Play');
  stepButton.disabled = player.isOver;
  endButton.disabled = player.isOver;
  if (player.isOver && !shownOver) {
    shownOver = true;
    say(`The run is over after ${(player.now / 1000).toFixed(1)} seconds.`);
  }
}

function togglePlay(): void {
  if (!player) return;
  if (player.isOver) {
    forgetPlace();
    restart(true);
    return;
  }
  const pauses = player.isPlaying;
  if (pauses) player.pause();
  else player.play();
  showRun();
  if (pauses) keepPlace();
  else forgetPlace();
}

function step(): void {
  if (!player || player.isOver) return;
  player.step();
  showRun();
  keepPlace();
}

function toEnd(): void {
  player?.goTo(Infinity);
  showRun();
  keepPlace();
}

/** Where it stands still is part of the address. */
function keepPlace(): void {
  if (!player) return;
  const atMs = Math.round(player.now);
  state = { ...state, atMs };
  say(`Paused at ${(atMs / 1000).toFixed(2)} seconds.`);
  remember();
}

function forgetPlace(): void {
  const { atMs: _gone, ...rest } = state;
  state = rest;
}

function setSpeed(): void {
  state = { ...state, speed: Number(speedSelect.value) };
  if (player) player.speed = state.speed;
  remember();
}

function showSpeed(): void {
  const { speed } = state;
  if (![...speedSelect.options].some(({ value }) => Number(value) === speed)) {
    speedSelect.append(h('option', { value: speed }, `${String(speed)} ${SPEED.unit}`));
  }
  speedSelect.value = String(speed);
}

// --- The address -----------------------------------------------------------------------------------------------------------

let rememberSoon: ReturnType<typeof setTimeout> | undefined;

/** Browsers refuse an address that changes too often. */
function remember(): void {
  clearTimeout(rememberSoon);
  rememberSoon = setTimeout(() => {
    history.replaceState(null, '', toHash(state, preset.scenario));
  }, 200);
}

// By now `remember` may have written another one over it.
addEventListener('hashchange', ({ newURL }) => void show(new URL(newURL).hash));

async function copyLink(): Promise<void> {
  clearTimeout(rememberSoon);
  history.replaceState(null, '', toHash(state, preset.scenario));
  await copy(location.href, announcer);
}

// --- Code and recordings ---------------------------------------------------------------------------------------------------

async function showCode(): Promise<void> {
  const { copiedCode } = await import('../engine/code.js');
  const code = await copiedCode(PRESETS[state.preset], state.scenario, preset.pipeline);
  const told = h('p', { role: 'status' });
  const dialog = h(
    'dialog',
    { class: 'code', 'aria-labelledby': 'code-title' },
    h('h2', { id: 'code-title' }, 'The pipeline on this page, as TypeScript'),
    h('p', {}, 'It runs in Node as it is, on the same load, and prints the numbers of the Sluice board at the end of the run.'),
    h('pre', { tabindex: 0, role: 'region', 'aria-label': 'Code' }, h('code', {}, code)),
    h(
      'div',
      { class: 'actions' },
      h('button', { type: 'button', class: 'primary', click: () => void copy(code, told) }, 'Copy'),
      h(
        'button',
        {
          type: 'button',
          click: () => {
            dialog.close();
          },
        },
        'Close',
      ),
      told,
    ),
  );
  dialog.addEventListener('close', () => {
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  await copy(code, told);
}

async function copy(text: string, told: Node): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    write(told, 'It is copied.');
  } catch {
    write(told, 'This browser lets nobody copy here: select the text.');
  }
}

function say(text: string): void {
  write(announcer, text);
}

async function openFile(): Promise<void> {
  const [chosen] = file.files ?? [];
  if (!chosen || !modules) return;
  file.value = '';
  const inspector = modules.boards.inspectorElement();
  inspector.heading = `Picture of ${chosen.name}`;
  let playing: RecordingPlayer;
  try {
    const { importRecording, playRecording } = await import('../../../src/inspector/index.js');
    playing = playRecording(inspector, importRecording(await chosen.text()));
    complain([]);
  } catch (error) {
    complainOf(chosen.name, error);
    return;
  }
  const close = h(
    'button',
    {
      type: 'button',
      click: () => {
        playing.leave();
        recordingPlace.replaceChildren();
        openButton.focus();
      },
    },
    'Close the recording',
  );
  const heading = h('h2', { id: 'recording', tabindex: -1 }, `Recording: ${chosen.name}`);
  recordingPlace.replaceChildren(
    h('section', { class: 'board opened', 'aria-labelledby': 'recording' }, h('header', {}, heading, close), playing.controls, inspector),
  );
  heading.focus();
}

function complainOf(name: string, error: unknown): void {
  problems.hidden = false;
  problems.replaceChildren(h('strong', {}, `${name} is no recording: `), error instanceof Error ? error.message : String(error));
}

void show(location.hash);
