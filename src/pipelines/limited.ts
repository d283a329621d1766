import { Observable } from 'rxjs';
import { contextVariable } from '#async-context';
import { check, streamOf } from '../../operators/build.js';
import type { Lease, Limiter, WorkResult } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';

/** Marks what keeps to a limiter, for this copy of the package and any other. */
const LIMITED = Symbol.for('sluice.limited');

export function markLimited<T extends object>(it: T): T {
  return Object.defineProperty(it, LIMITED, { value: true });
}

/** Two limiters, one behind the other, would make each attempt several times, and wait for each other's permits. */
export function isLimited(it: unknown): boolean {
  return LIMITED in (Object(it) as object);
}

/** A request to a model or a server, or a tool, which may make requests of its own. */
export type CallKind = 'request' | 'tool';

/** A call that is made under a permit and has no answer yet. */
interface Held {
  readonly operator: string;
  readonly kind: CallKind;
  /** Where it takes slots: its limiter, and those above. */
  readonly limiters: readonly object[];
  /** Forgotten when it is over: promises that were made inside it hold this object. */
  lease: Lease | undefined;
  /** The call around it. */
  readonly around: Held | undefined;
  isOpen: boolean;
  fault: FlowConfigError | undefined;
}

const HELD = /* @__PURE__ */ contextVariable<Held>();

/** What a call is made under. */
export interface HeldRules {
  readonly operator: string;
  readonly kind: CallKind;
  readonly limiter: Limiter;
  /** Slots it takes. @defaultValue 1 */
  readonly slots?: number | undefined;
}

/**
 * Makes a call under a permit: until it has its answer, no request inside it may take a slot of the same limiter, or one above. When one has tried,
 * the call fails with that error, whatever the code in between has made of it.
 */
export function underPermit<R>(
  { operator, kind, limiter, slots }: HeldRules,
  lease: Lease | undefined,
  work: () => WorkResult<R>,
): WorkResult<R> {
  const limiters = slots === 0 ? [] : withParents(limiter);
  const held: Held = { operator, kind, limiters, lease, around: HELD.get(), isOpen: true, fault: undefined };
  const isOver = (): void => {
    held.isOpen = false;
    held.lease = undefined;
  };
  const failed = (error: unknown): unknown => {
    isOver();
    return held.fault ?? error;
  };
  let answer: WorkResult<R>;
  try {
    answer = HELD.run(held, work);
  } catch (error) {
    throw failed(error);
  }
  // A promise stays one: it keeps its permit until it is really over.
  if (check.isPromise(answer)) {
    return Promise.resolve(answer).then(
      (value) => {
        isOver();
        return value;
      },
      (error: unknown) => {
        throw failed(error);
      },
    );
  }
  const stream = streamOf<R>(answer);
  if (stream === undefined) {
    isOver();
    return answer;
  }
  return new Observable<R>((subscriber) => {
    subscriber.add(isOver);
    HELD.run(held, () => {
      subscriber.add(
        stream.subscribe({
          next: (value) => {
            // The request inside has been answered; a tool may make others.
            if (kind === 'request') isOver();
            subscriber.next(value);
          },
          error: (error: unknown) => {
            subscriber.error(failed(error));
          },
          complete: () => {
            subscriber.complete();
          },
        }),
      );
    });
  });
}

/**
 * The permit under which this call is made, if it is made inside another one.
 *
 * @throws FlowConfigError when a request around it holds a permit of the same limiter, or of one above: it would wait for itself
 */
export function permitAround({ operator, limiter, slots }: Omit<HeldRules, 'kind'>): Lease | undefined {
  let lease: Lease | undefined;
  for (let held = HELD.get(); held; held = held.around) {
    if (!held.isOpen) continue;
    lease ??= held.lease;
    // What a tool calls are calls of its own.
    if (held.kind === 'tool') break;
    const { limiters } = held;
    if (slots !== 0 && withParents(limiter).some((one) => limiters.includes(one))) {
      const problem = `\`${held.operator}\` already holds a permit of the same limiter for this request`;
      throw (held.fault = check.misused(operator, 'limiter', problem, 'Limit each request once: remove `limiter` from one of them.'));
    }
  }
  return lease;
}

function withParents(limiter: object): readonly object[] {
  const all: object[] = [];
  for (let at: object | undefined = limiter; at; at = (at as { readonly parent?: object }).parent) all.push(at);
  return all;
}
