import type { Observable } from 'rxjs';
import type { Settled } from '../../../operators/index.js';
import type { PlainSetting } from './plain.js';
import type { NumberName, PresetName } from './scenario.js';
import type { Counts, Item, Scenario, Setting } from './setting.js';

/** A pipeline in two versions. */
export interface Pipeline {
  readonly flow: (setting: Setting) => Observable<Settled<Item, Item>>;
  readonly recipe: (setting: PlainSetting) => Observable<Item>;
  /** Whether an item takes the place of the one before. */
  readonly newestOnly: boolean;
  /** What of a scenario it goes by. */
  readonly fields: readonly NumberName[];
  readonly hasFairness: boolean;
  /** Both, as they are written. */
  readonly sources: () => Promise<{ readonly flow: string; readonly recipe: string }>;
}

/** A story: a pipeline, numbers that make it happen, and what to look at. */
export interface Preset {
  readonly pipeline: Pipeline;
  readonly scenario: Scenario;
  /** What lanes stand for. */
  readonly lanes: readonly string[];
  readonly watch: string;
  readonly differs: string;
  /** The numbers that show it. */
  readonly shows: readonly (keyof Counts)[];
  /** Those that are lower on our board, whatever the seed. */
  readonly tells: readonly (keyof Counts)[];
}

/** Each is loaded when it is looked at. */
export const loadPreset: Readonly<Record<PresetName, () => Promise<Preset>>> = {
  'smart-batcher': async () => (await import('./presets/smart-batcher.js')).preset,
  'one-bad-prompt': async () => (await import('./presets/one-bad-prompt.js')).preset,
  'background-and-chat': async () => (await import('./presets/background-and-chat.js')).preset,
  'changing-ones-mind': async () => (await import('./presets/changing-ones-mind.js')).preset,
  'storm-of-429s': async () => (await import('./presets/storm-of-429s.js')).preset,
  'one-slow-tenant': async () => (await import('./presets/one-slow-tenant.js')).preset,
  'agent-turn': async () => (await import('./presets/agent-turn.js')).preset,
};
