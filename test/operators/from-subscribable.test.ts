import type { BaseEvent } from '@ag-ui/client';
import { AbstractAgent, EventType } from '@ag-ui/client';
import { lastValueFrom, Observable, of, Subject, take, toArray } from 'rxjs';
import * as rxjs5 from 'rxjs5';
import * as rxjs6 from 'rxjs6';
import * as rxjs70 from 'rxjs70';
import { describe, expect, it } from 'vitest';
import { CallbackError, FlowConfigError, switchLatest } from '../../operators/index.js';
import type { SubscribableLike } from '../../operators/interop.js';
import { fromSubscribable } from '../../operators/interop.js';

const fault = new Error('broken');

/** Every copy's Observable, as it is made from a producer. */
type Producer = (observer: {
  next(value: number): void;
  error(error: unknown): void;
  complete(): void;
  readonly closed?: boolean;
}) => () => void;
const copies: readonly (readonly [string, (producer: Producer) => SubscribableLike<number>])[] = [
  ['RxJS 5', (producer) => new rxjs5.Observable<number>((observer) => producer(observer))],
  ['RxJS 6', (producer) => new rxjs6.Observable<number>((observer) => producer(observer))],
  ['RxJS 7.0', (producer) => new rxjs70.Observable<number>((observer) => producer(observer))],
  ['ours', (producer) => new Observable<number>((observer) => producer(observer))],
  [
    'no RxJS',
    (producer) => ({
      subscribe: (observer) => ({ unsubscribe: producer(observer as Parameters<Producer>[0]) }),
    }),
  ],
];

/** Everything that happens around one stream, in order. */
function logged(make: (producer: Producer) => SubscribableLike<number>) {
  const log: unknown[] = [];
  let observer: Parameters<Producer>[0] | undefined;
  const stream = fromSubscribable((signal) => {
    log.push('made');
    signal.addEventListener('abort', () => log.push((signal.reason as Error).name));
    return make((given) => {
      observer = given;
      log.push('subscribed');
      return () => log.push('left');
    });
  });
  const watch = () =>
    stream.subscribe({
      next: (value) => log.push(value),
      error: (error: unknown) => log.push(error),
      complete: () => log.push('complete'),
    });
  return { log, watch, send: () => observer! };
}

describe.each(copies)('a stream of %s', (_, make) => {
  it('is made anew for every subscription, and hands on what it says', async () => {
    let made = 0;
    const stream = fromSubscribable(() =>
      make((observer) => {
        made++;
        for (const n of [1, 2, 3]) observer.next(n * made);
        observer.complete();
        return () => undefined;
      }),
    );
    expect(made).toBe(0);
    expect(await lastValueFrom(stream.pipe(toArray()))).toEqual([1, 2, 3]);
    expect(await lastValueFrom(stream.pipe(toArray()))).toEqual([2, 4, 6]);
  });

  it('is told by the signal that its consumer leaves, and then left, once', () => {
    const { log, watch, send } = logged(make);
    const subscription = watch();
    send().next(1);
    subscription.unsubscribe();
    subscription.unsubscribe();
    send().next(2);
    expect(log).toEqual(['made', 'subscribed', 1, 'AbortError', 'left']);
  });

  it.each(['complete', 'error'] as const)('is not aborted after its own %s', (end) => {
    const { log, watch, send } = logged(make);
    const subscription = watch();
    send()[end](fault);
    subscription.unsubscribe();
    expect(log).toEqual(['made', 'subscribed', end === 'error' ? fault : 'complete', 'left']);
  });

  it('is aborted while it emits inside subscribe, as soon as its consumer has enough', () => {
    const log: unknown[] = [];
    fromSubscribable((signal) => {
      signal.addEventListener('abort', () => log.push('abort'));
      return make((observer) => {
        for (let n = 0; n < 10_000 && !signal.aborted; n++) {
          observer.next(n);
          log.push(`sent ${String(n)}`);
        }
        return () => log.push('left');
      });
    })
      .pipe(take(2))
      .subscribe();
    expect(log).toEqual(['sent 0', 'abort', 'sent 1', 'left']);
  });
});

describe('fromSubscribable', () => {
  it.each([undefined, null, 5, 'text', {}, Promise.resolve(1)])('errors when the factory makes %o', (made) => {
    const seen: unknown[] = [];
    let aborted = false;
    fromSubscribable((signal) => {
      signal.addEventListener('abort', () => (aborted = true));
      return made as never;
    }).subscribe({ error: (error: unknown) => seen.push(error) });
    expect(seen[0]).toBeInstanceOf(CallbackError);
    expect(String(seen[0])).toMatch(/fromSubscribable: `factory` must make something with `subscribe`, made /);
    expect(aborted).toBe(false);
  });

  it('errors with what the factory or subscribe throws, the same object', () => {
    const thrower = (): never => {
      throw fault;
    };
    const seen: unknown[] = [];
    for (const factory of [thrower, () => ({ subscribe: thrower })]) {
      fromSubscribable<number>(factory).subscribe({ error: (error: unknown) => seen.push(error) });
    }
    expect(seen).toEqual([fault, fault]);
  });

  it('does not subscribe when the factory made its consumer leave', () => {
    const consumer = new Subject<void>();
    let subscribed = 0;
    const subscription = consumer.subscribe();
    const outer = new Observable<number>((subscriber) => {
      subscriber.add(subscription);
      return fromSubscribable<number>(() => {
        subscriber.unsubscribe();
        return {
          subscribe: () => {
            subscribed++;
            return { unsubscribe: () => undefined };
          },
        };
      }).subscribe(subscriber);
    });
    outer.subscribe();
    expect([subscribed, consumer.observed]).toEqual([0, false]);
  });

  it.each([undefined, null, of(1), 'text'])('needs a function, not %o', (factory) => {
    expect(() => fromSubscribable(factory as never)).toThrow(FlowConfigError);
  });
});

/** An agent whose client has an RxJS of its own, as installed. */
class Agent extends AbstractAgent {
  readonly aborted: string[] = [];
  readonly events = new Map<string, { next(event: BaseEvent): void; complete(): void }>();

  override run({ runId }: Parameters<AbstractAgent['run']>[0]): ReturnType<AbstractAgent['run']> {
    const { Observable: Nested } = nested;
    return new Nested((observer: { next(event: BaseEvent): void; complete(): void }) => {
      this.events.set(runId, observer);
    });
  }

  override abortRun(): void {
    this.aborted.push('aborted');
  }
}

const nested = (await import(new URL('../../node_modules/@ag-ui/client/node_modules/rxjs/dist/cjs/index.js', import.meta.url).href)) as {
  readonly Observable: new (subscribe: (observer: never) => unknown) => ReturnType<AbstractAgent['run']>;
};

describe('a run of AG-UI', () => {
  it('is of another RxJS, and superseded by the next one', () => {
    const agent = new Agent();
    const run$ = (runId: string) =>
      fromSubscribable((signal) => {
        signal.addEventListener('abort', () => {
          agent.abortRun();
        });
        return agent.run({ runId, threadId: 't', messages: [], tools: [], context: [], state: {}, forwardedProps: {} });
      });
    expect(
      agent.run({ runId: '0', threadId: 't', messages: [], tools: [], context: [], state: {}, forwardedProps: {} }),
    ).not.toBeInstanceOf(Observable);
    const questions = new Subject<string>();
    const seen: unknown[] = [];
    questions.pipe(switchLatest((id) => run$(id))).subscribe(({ type }) => seen.push(type));
    questions.next('1');
    agent.events.get('1')!.next({ type: EventType.RUN_STARTED });
    questions.next('2');
    agent.events.get('1')!.next({ type: EventType.RUN_ERROR });
    agent.events.get('2')!.next({ type: EventType.RUN_FINISHED });
    agent.events.get('2')!.complete();
    expect([seen, agent.aborted]).toEqual([['RUN_STARTED', 'RUN_FINISHED'], ['aborted']]);
  });
});
