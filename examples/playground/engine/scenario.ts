import type { Scenario } from './setting.js';

/** A number that somebody may set. */
export interface Field {
  readonly label: string;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly about: string;
}

/** A scenario, and what the page adds to it. */
export interface State {
  readonly preset: PresetName;
  readonly scenario: Scenario;
  /** How many virtual seconds pass in one of ours. */
  readonly speed: number;
  /** Where the run stands still, in virtual ms; absent when it plays from the beginning. */
  readonly atMs?: number;
}

export type NumberName = { [K in keyof Scenario]: Scenario[K] extends number ? K : never }[keyof Scenario];

const field = (label: string, unit: string, min: number, max: number, step: number, about: string): Field => ({
  label,
  unit,
  min,
  max,
  step,
  about,
});

/** What may be set, and from where to where. The order is that of the page. */
export const FIELDS: Readonly<Record<NumberName, Field>> = {
  p0: field('Load user', 'items/s', 0, 500, 0.5, 'the urgent lane'),
  p1: field('Load normal', 'items/s', 0, 500, 0.5, 'the middle lane'),
  p2: field('Load background', 'items/s', 0, 500, 0.5, 'the lane that can wait'),
  burst: field('Bursts', '×', 1, 10, 0.5, 'how many times as dense items come for a part of every 4 s'),
  tokens: field('Item', 'tokens', 1, 2000, 1, 'size of a mean item'),
  windowMs: field('Window', 'ms', 5, 2000, 5, 'longest a batch is held for company'),
  maxSize: field('Batch', 'items', 1, 100, 1, 'most items in one call'),
  concurrency: field('Slots', 'calls', 1, 32, 1, 'most calls at a time'),
  requestsPerMinute: field('Requests', 'per min', 10, 100_000, 10, 'what the provider allows; more is answered 429'),
  tokensPerMinute: field('Tokens', 'per min', 60_000, 10_000_000, 10_000, 'what the provider allows; more is answered 429'),
  poison: field('Bad items', '%', 0, 50, 0.5, 'items that fail every call they are in'),
  failures: field('Failures', '%', 0, 90, 1, 'calls that fail by chance (503)'),
  latencyMs: field('Latency', 'ms', 10, 10_000, 10, 'mean time of a call'),
  spread: field('Spread', '%', 0, 90, 5, 'how far a call is from the mean at most'),
  slowdown: field('Slow tenant', '×', 1, 50, 1, 'how many times as long its calls take'),
  seconds: field('Length', 's', 1, 600, 1, 'how long items come'),
  seed: field('Seed', '', 1, 999_999, 1, 'the same seed, the same run'),
};

export const SPEED = field('Speed', '×', 0.05, 20, 0.05, 'virtual seconds in a second');

export const FAIRNESS: Readonly<Record<Scenario['fairness'], string>> = {
  strict: 'urgent first, with a floor',
  weighted: 'in proportion, 4 : 3 : 2',
  roundRobin: 'in turn',
};

export const PRESETS = {
  'smart-batcher': 'Smart batcher',
  'one-bad-prompt': 'One bad prompt',
  'background-and-chat': 'Background blocks the chat',
  'changing-ones-mind': 'Changing one’s mind',
  'storm-of-429s': '429 storm',
  'one-slow-tenant': 'One slow tenant',
  'agent-turn': 'Agent turn',
} as const;

export type PresetName = keyof typeof PRESETS;

export const DEFAULT_PRESET: PresetName = 'smart-batcher';

/** What presets begin with. */
export const BASE: Scenario = {
  seed: 7,
  seconds: 20,
  p0: 0,
  p1: 0,
  p2: 0,
  burst: 1,
  tokens: 100,
  windowMs: 100,
  maxSize: 20,
  fairness: 'strict',
  concurrency: 4,
  requestsPerMinute: 6000,
  tokensPerMinute: 10_000_000,
  poison: 0,
  failures: 0,
  latencyMs: 400,
  spread: 30,
  slowdown: 1,
};

const names = Object.keys(FIELDS) as NumberName[];

/** An address's part that says all of a state: what differs from the preset's own. */
export function toHash({ preset, scenario, speed, atMs }: State, own: Scenario): string {
  const query = new URLSearchParams({ preset });
  for (const name of names) if (scenario[name] !== own[name]) query.set(name, String(scenario[name]));
  if (scenario.fairness !== own.fairness) query.set('fairness', scenario.fairness);
  if (speed !== 1) query.set('speed', String(speed));
  if (atMs !== undefined) query.set('atMs', String(atMs));
  return `#${query.toString()}`;
}

/** The preset that an address names, and what is wrong with the name. */
export function presetOf(hash: string): { readonly preset: PresetName; readonly problems: readonly string[] } {
  const named = new URLSearchParams(hash.replace(/^#/, '')).get('preset');
  if (named === null) return { preset: DEFAULT_PRESET, problems: [] };
  if (Object.hasOwn(PRESETS, named)) return { preset: named as PresetName, problems: [] };
  return { preset: DEFAULT_PRESET, problems: [`there is no preset “${short(named)}”`] };
}

/** The state that an address says. Whatever of it cannot be is the preset's own, and told of. */
export function fromHash(hash: string, own: Scenario): { readonly state: State; readonly problems: readonly string[] } {
  const { preset, problems: first } = presetOf(hash);
  const problems = [...first];
  const changes: Record<string, unknown> = {};
  let speed = 1;
  let atMs: number | undefined;
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ''))) {
    if (name === 'preset') continue;
    if (name === 'fairness') {
      if (Object.hasOwn(FAIRNESS, text)) changes[name] = text;
      else problems.push(`fairness is one of ${Object.keys(FAIRNESS).join(', ')}, not “${short(text)}”`);
      continue;
    }
    const limits = name === 'speed' ? SPEED : name === 'atMs' ? AT : Object.hasOwn(FIELDS, name) ? FIELDS[name as NumberName] : undefined;
    const problem = limits
      ? wrongIn(limits, text, name === 'seed' || name === 'concurrency' || name === 'maxSize')
      : 'is nothing that can be set';
    if (problem !== undefined) problems.push(`${short(name)} ${problem}`);
    else if (name === 'speed') speed = Number(text);
    else if (name === 'atMs') atMs = Number(text);
    else changes[name] = Number(text);
  }
  return { state: { preset, scenario: Object.assign({ ...own }, changes), speed, ...(atMs !== undefined && { atMs }) }, problems };
}

const AT: Field = field('At', 'ms', 0, 1_000_000, 1, '');

/** What is wrong with a value, in words that go on from its name. */
export function wrongIn({ min, max, unit }: Field, text: string, isWhole: boolean): string | undefined {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= min && value <= max && (!isWhole || Number.isInteger(value))) return undefined;
  return `is a ${isWhole ? 'whole number' : 'number'} from ${String(min)} to ${String(max)}${unit && ` ${unit}`}, not “${short(text)}”`;
}

function short(text: string): string {
  return text.length > 20 ? `${text.slice(0, 20)}…` : text;
}
