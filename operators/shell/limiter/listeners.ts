import type { FlowEvent, FlowSink, Teller } from '../../options/events.js';
import { safeSink, teller } from '../../options/events.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';

/** A limiter, as those who listen see it. */
interface ToldLimiter {
  readonly settings: LimiterSettings;
  tell: Teller | undefined;
  listeners?: Listeners;
  /** Of an account: limiters of models. */
  readonly pools?: readonly { readonly limiter: ToldLimiter }[];
  now(): number;
}

/** Those who listen to a limiter that was made before they came. */
export class Listeners {
  private readonly sinks = new Set<FlowSink>();
  private readonly limiter: ToldLimiter;
  /** What the limiter tells by itself. */
  private readonly own: Teller | undefined;
  private readonly tell: Teller;

  constructor(limiter: ToldLimiter) {
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

/**
 * Tells of everything that a limiter of ours tells from now on, and the models of an account that have limits of their own, until the returned
 * function is called. The listener of its options gets the same event, and gets it first.
 */
export function listenTo(limiter: object, listener: (event: FlowEvent) => void): () => void {
  const sink = safeSink(listener) as FlowSink;
  const { settings, pools = [] } = limiter as Partial<ToldLimiter>;
  // One of another make tells nothing.
  const all = settings === undefined ? [] : [limiter as ToldLimiter, ...pools.map((pool) => pool.limiter)];
  const stops = all.map((one) => (one.listeners ??= new Listeners(one)).add(sink));
  return () => {
    for (const stop of stops) stop();
  };
}

/** What its events call a limiter of ours; undefined when it was given no name. */
export function limiterName(limiter: object): string | undefined {
  return (limiter as Partial<ToldLimiter>).settings?.name;
}

/** Makes the events of a limiter that has no listener of its own. */
function stamper(limiter: ToldLimiter): Teller {
  const options = { name: limiter.settings.name, onEvent: () => undefined };
  return teller(NAME, options, () => limiter.now()) as Teller;
}
