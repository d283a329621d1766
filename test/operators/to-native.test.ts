import { concat, defer, EMPTY, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { FlowConfigError, isFlowError } from '../../operators/index.js';
import { toNative } from '../../operators/interop.js';
import { PlatformObservable } from '../support/platform-observable.js';

const fault = new Error('broken');
const observableClass = PlatformObservable;

function watch<T>(source: Observable<T>) {
  const seen: unknown[] = [];
  const controller = new AbortController();
  toNative(source, { observableClass }).subscribe(
    { next: (value) => seen.push(value), error: (error) => seen.push({ error }), complete: () => seen.push('complete') },
    { signal: controller.signal },
  );
  return { seen, controller };
}

describe('toNative, as every operator is asked', () => {
  it('says nothing for a source that says nothing', () => {
    expect(watch(NEVER).seen).toEqual([]);
  });

  it('completes on an empty source', () => {
    expect(watch(EMPTY).seen).toEqual(['complete']);
  });

  it('hands on the only value', () => {
    expect(watch(of('a')).seen).toEqual(['a', 'complete']);
  });

  it('hands on all values in order', () => {
    expect(watch(of(1, 2, 3)).seen).toEqual([1, 2, 3, 'complete']);
  });

  it('hands on an error as the same object', () => {
    const { seen } = watch(
      concat(
        of(1),
        throwError(() => fault),
      ),
    );
    expect(seen).toEqual([1, { error: fault }]);
    expect((seen[1] as { error: unknown }).error).toBe(fault);
  });

  it('leaves the source in the moment the signal aborts', () => {
    const source = new Subject<number>();
    const { seen, controller } = watch(source);
    source.next(1);
    controller.abort();
    expect(source.observed).toBe(false);
    source.next(2);
    expect(seen).toEqual([1]);
  });

  it('hands on what a callback of the source throws', () => {
    const broken = new Observable<number>(() => {
      throw fault;
    });
    expect(watch(broken).seen).toEqual([{ error: fault }]);
  });

  it('stops a source that emits inside subscribe as soon as its consumer has enough', () => {
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 10_000) subscriber.next(made++);
    });
    const controller = new AbortController();
    const seen: number[] = [];
    toNative(source, { observableClass }).subscribe(
      {
        next: (value) => {
          seen.push(value);
          if (value === 1) controller.abort();
        },
      },
      { signal: controller.signal },
    );
    expect([seen, made]).toEqual([[0, 1], 2]);
  });

  it('hands on what the consumer sends while it is handed a value', () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    toNative(source, { observableClass }).subscribe({
      next: (value) => {
        seen.push(value);
        if (value === 1) source.next(2);
      },
    });
    source.next(1);
    expect(seen).toEqual([1, 2]);
  });
});

describe('toNative', () => {
  it('is shared by its subscribers, as the platform has it', () => {
    const source = new Subject<number>();
    let subscriptions = 0;
    const counted = defer(() => {
      subscriptions++;
      return source;
    });
    const native = toNative(counted, { observableClass });
    const controllers = [new AbortController(), new AbortController()];
    for (const { signal } of controllers) native.subscribe({}, { signal });
    expect(subscriptions).toBe(1);
    controllers[0]!.abort();
    expect(source.observed).toBe(true);
    controllers[1]!.abort();
    expect(source.observed).toBe(false);
  });

  it('takes the class of the platform when it has one', () => {
    vi.stubGlobal('Observable', PlatformObservable);
    try {
      expect(toNative(of(1))).toBeInstanceOf(PlatformObservable);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it('says what is missing where the platform has none', () => {
    let thrown: unknown;
    try {
      toNative(of(1));
    } catch (error) {
      thrown = error;
    }
    expect(isFlowError(thrown, 'FLOW_CONFIG_INVALID')).toBe(true);
    expect((thrown as Error).message).toBe(
      'toNative: expected `observableClass` to be a class, because this platform has no `Observable` of its own, got `undefined`',
    );
  });

  it.each([null, undefined, [1], 'text', new PlatformObservable(() => undefined)])('needs an Observable of RxJS, not %o', (source) => {
    expect(() => toNative(source as never, { observableClass })).toThrow(FlowConfigError);
    expect(() => toNative(source as never, { observableClass })).toThrow(/^toNative: expected `source` to be an Observable, got /);
  });
});
