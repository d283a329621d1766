import type { FlowEvent } from '../../operators/index.js';
import type { FlowModel } from './flow-model.js';
import { sampleOf } from './limits.js';
import { turnEvents } from './turn-events.js';

/** Whatever can be subscribed to: an Observable of any version. */
export interface EventStream<E = unknown> {
  subscribe(observer: { next: (event: E) => void; error: (error: unknown) => void; complete: () => void }): { unsubscribe(): void };
}

/** A limiter, or a pipeline: something that says how it is, and maybe what happens. */
export interface Watched {
  snapshot(): object;
  readonly events?: EventStream;
  /** Of a limiter: tells a listener when something may have changed. `watch` of metrics is another, and is left alone. */
  watch?(listener: never): () => void;
}

/**
 * Adds events to a model, and says so: `changed(true)` shows it even while the picture is paused. Answers with how it is left, when there is something to leave.
 * Recordings are of this kind: `recorded` of `sluice/inspector`.
 * @beta
 */
export type Feeding = (model: FlowModel, changed: (isAsked?: boolean) => void) => (() => void) | undefined;

/**
 * What an inspector shows: events of operators, metrics (with what they observe), a limiter, a pipeline (`createEmbedder`, `createModelCaller`,
 * `createToolRunner`, `createAgentTurn`), a function that adds to the model by itself, or several of these together.
 * @beta
 */
export type InspectorSource = EventStream<FlowEvent> | Watched | Feeding | readonly InspectorSource[];

/** A source that a model listens to. */
export interface Connection {
  /** Asks limiters and pipelines how they are. Whoever draws calls it while things move. */
  readonly look: () => void;
  /** Leaves everything. */
  readonly leave: () => void;
}

/**
 * Lets a model hear what a source says, until it is left.
 *
 * @param onChange - called after each change, not for those of `look`
 */
export function connectSource(
  source: InspectorSource,
  model: FlowModel,
  onChange: (isAsked?: boolean) => void = () => undefined,
): Connection {
  const looks = new Set<() => void>();
  const leaves: (() => void)[] = [];
  connect(source, 1);
  look();

  return {
    look,
    leave: () => {
      for (const leave of leaves.splice(0)) leave();
      looks.clear();
    },
  };

  function look(): void {
    for (const ask of looks) {
      try {
        ask();
      } catch {
        // It has nothing to say any more. What is told of it is heard all the same.
        looks.delete(ask);
      }
    }
  }

  function connect(given: InspectorSource, number: number): void {
    if (Array.isArray(given)) {
      given.forEach((one: InspectorSource, at) => {
        connect(one, at + 1);
      });
    } else if (typeof given === 'function') {
      const leave = given(model, onChange);
      if (leave) leaves.push(leave);
    } else if ('snapshot' in given) watch(given, number);
    else hear(given as EventStream);
  }

  function watch(watched: Watched, number: number): void {
    if (watched.events) hear(watched.events);
    const limiter = isLimiter(watched) ? watched : undefined;
    if (limiter) leaves.push(limiter.watch(onChange));
    const name = `${limiter ? 'limiter' : 'pipeline'}${number > 1 ? ` ${number}` : ''}`;
    looks.add(() => {
      const now = model.now || Date.now();
      const { observed, calls, ...rest } = watched.snapshot() as Snapshot;
      if (observed === undefined) {
        model.sample(sampleOf(now, name, rest));
        return;
      }
      for (const [observedAs, gauges] of Object.entries(observed)) model.sample(sampleOf(now, observedAs, gauges));
      if (calls && calls.attempts > 0) model.recordedTokens = calls.promptTokens + calls.completionTokens;
    });
  }

  function hear(events: EventStream): void {
    const translate = turnEvents();
    const subscription = events.subscribe({
      next: (told) => {
        for (const event of translate(told)) model.add(event as FlowEvent);
        onChange();
      },
      // How a stream ends says nothing about the flow.
      error: () => undefined,
      complete: () => undefined,
    });
    leaves.push(() => {
      subscription.unsubscribe();
    });
  }
}

function isLimiter(watched: Watched): watched is Watched & { watch(listener: () => void): () => void } {
  return watched.watch !== undefined && !('metrics$' in watched);
}

/** Of metrics. */
interface Snapshot {
  readonly observed?: Readonly<Record<string, object>>;
  readonly calls?: { readonly attempts: number; readonly promptTokens: number; readonly completionTokens: number };
}
