import type { VirtualTimeScheduler } from 'rxjs';
import { Observable } from 'rxjs';
import { connect } from '../operators/shell/streams/connect.js';
import { watchHost } from './host-watch.js';

/** @stable */
export interface LeakCheckOptions {
  /** A virtual clock whose actions count too: the one of `virtualTime`, a spec or your own `TestScheduler`. @defaultValue none */
  readonly scheduler?: VirtualTimeScheduler;
  /** Limiters and fake providers that must be as free afterwards as before, by the name the error calls them. @defaultValue none */
  readonly holders?: Readonly<Record<string, LeakHolder>>;
}

/** Whatever hands out permits (a limiter) or runs calls (a fake provider, a worker). */
export type LeakHolder =
  | { snapshot(): { readonly executing: number; readonly queued: number } }
  | { readonly inFlight: number }
  | { running(): number };

/** @stable */
export interface LeakCheck {
  /** The same stream; a subscription to it that is neither ended nor left counts as left behind. */
  readonly watch: <T>(name: string, stream: Observable<T>) => Observable<T>;
  /** What is there now and was not when the check began, a line each. */
  readonly left: () => readonly string[];
  /** Ends the check. @throws LeakError when something is left behind. */
  readonly verify: () => void;
  /** Ends the check without a verdict, so that `using leaks = leakCheck()` cleans up after a test that failed earlier. */
  readonly [Symbol.dispose]: () => void;
}

/** Something was left behind; `left` names each thing. */
export class LeakError extends Error {
  override readonly name = 'LeakError';
  constructor(readonly left: readonly string[]) {
    super(`left behind:\n${left.map((line) => `  - ${line}`).join('\n')}`);
  }
}

/**
 * Notices what a piece of code leaves behind: host timers and listeners on abort signals that it set up, actions on a virtual clock,
 * subscriptions, permits of a limiter and calls under way. Begin before, `verify()` after. While it is on, the host's timer functions and
 * `EventTarget.prototype.addEventListener` are wrapped, so everything in the process counts: do not run tests beside it in the same
 * process.
 *
 * @stable
 * @throws LeakError from `verify()`, with a line for each thing left behind and where it was set up.
 * @example
 * ```ts
 * import { interval, take } from 'rxjs';
 * import { leakCheck, virtualTime } from 'sluice/marbles';
 *
 * const left = virtualTime(({ scheduler, advance }) => {
 *   const leaks = leakCheck({ scheduler });
 *   const ticks = leaks.watch('ticks', interval(100)).pipe(take(3)).subscribe();
 *   advance(250);
 *   const before = leaks.left();
 *   ticks.unsubscribe();
 *   leaks.verify();
 *   return before;
 * });
 * left; // => ['a scheduler action due at 300 ms', 'a subscription to ticks']
 * ```
 */
export function leakCheck({ scheduler, holders = {} }: LeakCheckOptions = {}): LeakCheck {
  const actionsBefore = new Set<unknown>(scheduler?.actions);
  const heldBefore = new Map(Object.entries(holders).map(([name, holder]) => [name, heldBy(holder)]));
  const open: string[] = [];
  const host = watchHost();

  const left = (): string[] => [
    ...host.left(),
    ...(scheduler?.actions ?? [])
      .filter((action) => !actionsBefore.has(action))
      .map(({ delay }) => `a scheduler action due at ${String(delay)} ms`),
    ...open.map((name) => `a subscription to ${name}`),
    ...Object.entries(holders).flatMap(([name, holder]) => {
      const before = heldBefore.get(name);
      return heldBy(holder).flatMap(({ what, count }, index) => {
        const more = count - (before?.[index]?.count ?? 0);
        return more > 0 ? [`${String(more)} ${what} of ${name}`] : [];
      });
    }),
  ];

  return {
    watch: (name, stream) =>
      new Observable((subscriber) => {
        open.push(name);
        subscriber.add(() => {
          open.splice(open.indexOf(name), 1);
        });
        connect(stream, subscriber, {
          next: (value) => {
            subscriber.next(value);
          },
        });
      }),
    left,
    verify: () => {
      const found = left();
      host.stop();
      if (found.length > 0) throw new LeakError(found);
    },
    [Symbol.dispose]: () => {
      host.stop();
    },
  };
}

/** What a holder has given away now. */
function heldBy(holder: LeakHolder): { readonly what: string; readonly count: number }[] {
  if ('snapshot' in holder) {
    const { executing, queued } = holder.snapshot();
    return [
      { what: 'permit(s)', count: executing },
      { what: 'waiter(s)', count: queued },
    ];
  }
  return [{ what: 'call(s) under way', count: 'inFlight' in holder ? holder.inFlight : holder.running() }];
}
