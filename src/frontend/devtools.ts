import { EventClient } from '@tanstack/devtools-event-client';
import { check } from '../../operators/build.js';
import type { FlowEvent } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import type { FlowCounters, LaneView } from '../inspector/counters.js';
import { exportRecording } from '../inspector/export-recording.js';
import { FlowModel } from '../inspector/flow-model.js';
import type { LimitView } from '../inspector/limits.js';
import type { Connection, InspectorSource } from '../inspector/source.js';
import { connectSource } from '../inspector/source.js';

/**
 * What goes over the bus, below the plugin `sluice`; all of it is JSON.
 * @beta
 */
export interface DevtoolsEvents {
  /** A source of this key is there. A panel answers with `hello`. */
  readonly announce: { readonly key: string };
  /** A panel is there, and wants to see everything. */
  readonly hello: Readonly<Record<string, never>>;
  /** All that was so far: text for `importRecording` of `sluice/inspector`. */
  readonly recording: { readonly key: string; readonly text: string };
  /** What has happened since, at most 2,000 events, and the numbers as they are. */
  readonly update: {
    readonly key: string;
    readonly events: readonly FlowEvent[];
    readonly counters: FlowCounters;
    readonly lanes: readonly LaneView[];
    readonly limits: readonly LimitView[];
  };
}

/** @beta */
export interface DevtoolsOptions {
  /** Tells this source from others on the bus. */
  readonly key: string;
}

/** As bundlers look for it. */
declare const process: { readonly env: { readonly NODE_ENV?: string } };

const NAME = 'toDevtools';
const UPDATE_MS = 100;

/**
 * Hands what the inspector shows to the event bus of TanStack Devtools (`@tanstack/devtools-event-client`), for a panel there.
 *
 * - **Emits** `announce` at once, a `recording` for each panel that says `hello`, and from then on an `update` when something has happened, at most ten
 *   a second. As long as no panel has said `hello` there is no timer, and nothing more goes over the bus.
 * - **Holds at most** what the inspector holds: the last 2,000 events, and counters.
 * - **Never** carries anything that came from a payload.
 * - **Does nothing** unless `process.env.NODE_ENV` is `'development'` (bundlers leave all of it out), nor on a server where no bus of TanStack runs.
 *
 * @beta
 * @returns how to leave: the source is left, and the bus is told nothing more.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, in development, when `source` is no object, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { createMetrics } from 'sluice/metrics';
 * import { toDevtools } from 'sluice/devtools';
 *
 * const metrics = createMetrics(); // onEvent: metrics.sink
 * const leave = toDevtools(metrics, { key: 'embeddings' });
 * leave(); // => undefined
 * ```
 */
export function toDevtools(source: InspectorSource, options: DevtoolsOptions): () => void {
  // Not an early return: of what stands behind one, bundlers keep what it names.
  if (process.env.NODE_ENV === 'development') {
    if (hasBus()) return connect(source, options);
  }
  return doNothing;
}

function connect(source: InspectorSource, options: DevtoolsOptions): () => void {
  const { key } = check.options(NAME, options, {}, { key: check.nonEmpty });
  if (typeof (source as unknown) !== 'object' || (source as unknown) === null)
    throw new FlowConfigError(NAME, 'source', 'an object', source);
  return new Link(key, source).close;
}

/** A server has a bus where TanStack's plugin for it runs; elsewhere the client would keep a timer for nobody. */
function hasBus(): boolean {
  return typeof window !== 'undefined' || Boolean((globalThis as { __TANSTACK_EVENT_TARGET__?: unknown }).__TANSTACK_EVENT_TARGET__);
}

const doNothing = (): void => undefined;

class Link {
  readonly #key: string;
  readonly #model = new FlowModel();
  /** The newest event that panels have been told of. */
  #told: FlowEvent | undefined;
  readonly #source: Connection;
  readonly #ignore: () => void;
  #isAsked = false;
  /** Where updates go; undefined while no panel is there. */
  #bus: EventClient<DevtoolsEvents> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(key: string, source: InspectorSource) {
    this.#key = key;
    const bus = newClient();
    this.#ignore = bus.on('hello', () => {
      this.#isAsked = true;
      clearTimeout(this.#timer);
      // Not at once: a client that connects while another one hands on what it has kept lets that one do so again, without end.
      this.#timer = setTimeout(this.#answer, 0);
    });
    this.#source = connectSource(source, this.#model, () => {
      if (this.#bus !== undefined) this.#timer ??= setTimeout(this.#answer, UPDATE_MS);
    });
    bus.emit('announce', { key });
  }

  readonly close = (): void => {
    clearTimeout(this.#timer);
    this.#ignore();
    this.#source.leave();
  };

  readonly #answer = (): void => {
    this.#timer = undefined;
    this.#source.look();
    const { counters, lanes, limits, events } = this.#model;
    if (this.#isAsked) {
      this.#isAsked = false;
      // One that has found no bus within a second and a half gives up for good: for a panel that is opened later there is a new one.
      this.#bus = newClient();
      this.#bus.emit('recording', { key: this.#key, text: exportRecording(this.#model, this.#key) });
    } else {
      const fresh = this.#told === undefined ? events : events.slice(events.lastIndexOf(this.#told) + 1);
      this.#bus?.emit('update', { key: this.#key, events: fresh, counters, lanes, limits });
    }
    this.#told = events.at(-1);
  };
}

function newClient(): EventClient<DevtoolsEvents> {
  return new EventClient<DevtoolsEvents>({ pluginId: 'sluice' });
}
