import type { FlowSink, Teller } from '../../options/events.js';
import { safeSink, teller } from '../../options/events.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { RunningWork, TicketOwner } from './ticket.js';

/** What tells the events of a limiter. */
interface ToldLoop {
  readonly settings: LimiterSettings;
  tell: Teller | undefined;
  listeners?: Listeners;
  now(): number;
}

/** A limiter, as those who listen see it. */
interface ToldLimiter {
  readonly settings: LimiterSettings;
  readonly grants: ToldLoop;
  /** Of an account: limiters of models. */
  readonly pools?: readonly { readonly limiter: ToldLimiter }[];
}

/** Listeners that are added to a limiter after it was made. */
export class Listeners {
  private readonly sinks = new Set<FlowSink>();
  private readonly limiter: ToldLoop;
  /** What the limiter tells by itself. */
  private readonly own: Teller | undefined;
  private readonly tell: Teller;

  constructor(limiter: ToldLoop) {
    const { tell } = limiter;
    this.limiter = limiter;
    this.own = tell;
    const stamp = tell ?? stamper(limiter);
    this.tell = (note) => {
      const event = stamp(note);
      for (const sink of [...this.sinks]) sink(event);
      return event;
    };
  }

  add(sink: FlowSink): () => void {
    const { limiter, sinks } = this;
    sinks.add(sink);
    limiter.tell = this.tell;
    return () => {
      sinks.delete(sink);
      if (sinks.size === 0) limiter.tell = this.own;
    };
  }
}

/** What {@link listenTo} calls. */
export interface LimiterListener {
  /** Its events, and those of the models of an account that have limits of their own. The listener of its options gets the same event, and gets it first. */
  readonly event?: FlowSink;
  /** It ends the work of `run`, with this error, as `close` does: for calls that have no other handle than the limiter. */
  readonly ended?: (error: unknown) => void;
}

/**
 * Listens to a limiter or account that was made elsewhere and given to your pipeline, beside the `onEvent` of its own options.
 *
 * - **Calls** `event` with each event of the limiter, and of the models of an account, after the listener of its options; `ended` with the error when
 *   the limiter is closed and ends running work.
 * - **Returns** a function that stops listening.
 * - **Errors:** what `event` throws is ignored. `ended` must not throw. An object that is not a limiter of this package reports nothing.
 *
 * @beta
 * @example
 * ```ts
 * import { createLimiter } from 'sluice/operators';
 * import { listenTo } from 'sluice/operators/build';
 *
 * const limiter = createLimiter({ concurrency: 1 });
 * const types: string[] = [];
 * const stop = listenTo(limiter, { event: ({ type }) => types.push(type) });
 * limiter.setLimits({ concurrency: 2 });
 * stop();
 * limiter.setLimits({ concurrency: 3 });
 * types; // => ['limitChanged']
 * ```
 */
export function listenTo(limiter: object, { event, ended }: LimiterListener): () => void {
  const stops = [event && hearEvents(limiter, safeSink(event) as FlowSink), ended && hearEnd(limiter, ended)];
  return () => {
    for (const stop of stops) stop?.();
  };
}

function hearEvents(limiter: object, sink: FlowSink): () => void {
  const { grants, pools = [] } = limiter as Partial<ToldLimiter>;
  const all = grants === undefined ? [] : [grants, ...pools.map((pool) => pool.limiter.grants)];
  const stops = all.map((one) => (one.listeners ??= new Listeners(one)).add(sink));
  return () => {
    for (const stop of stops) stop();
  };
}

/** Makes the events of a limiter that has no listener of its own. */
function stamper(limiter: ToldLoop): Teller {
  const options = { name: limiter.settings.name, onEvent: () => undefined };
  return teller(NAME, options, () => limiter.now()) as Teller;
}

function hearEnd(limiter: object, ended: (error: unknown) => void): () => void {
  const running = (limiter as { readonly grants?: TicketOwner }).grants?.running;
  const work: RunningWork = { previous: undefined, next: undefined, failWith: ended };
  running?.push(work);
  return () => {
    running?.remove(work);
  };
}
