import type { Observable } from 'rxjs';
import type { TestScheduler } from 'rxjs/testing';

/** What every operator is asked, whatever it does. */
export const SPEC_CASES = [
  'never',
  'empty',
  'one',
  'many',
  'error',
  'early leave',
  'throwing callback',
  'synchronous source',
  're-entrant source',
] as const;

/**
 * One example of an operator's behaviour, as data: it tests, and the drawing made from its run documents.
 * @stable
 */
export interface MarbleSpec {
  /** Name of the operator, as exported. */
  readonly operator: string;
  /** What the example shows: a sentence in the present tense, unique within the operator. */
  readonly title: string;
  /** The call as drawn between the inputs and the result, for example `batch({ maxSize: 2 })`. */
  readonly label: string;
  /**
   * Marbles of the input streams, by name. Letters stand for themselves, unless `values` says otherwise. One with a `^` is hot, the others are cold.
   */
  readonly inputs: Readonly<Record<string, string>>;
  /** Names of cold inputs whose first frame is emitted inside `subscribe`, as `of(…)` would. */
  readonly synchronous?: readonly string[];
  /**
   * Marbles of inner streams (calls of a tool, a model), by name: given to `build` as cold Observables. One named after the items it is for
   * (`a`, `abc`, and `abc 2` for another try) is drawn waiting from when they came to when it is subscribed to.
   */
  readonly inners?: Readonly<Record<string, string>>;
  /** When the operator subscribes to an input or inner stream and leaves it; in order when it does so several times. */
  readonly subscriptions?: Readonly<Record<string, string | readonly string[]>>;
  /** Marbles of the result. */
  readonly expected: string;
  /** An input whose items belong to lanes: it is drawn as a row per lane. */
  readonly lanes?: SpecLanes;
  /** What letters stand for, in the inputs, the inner streams and the result. */
  readonly values?: Readonly<Record<string, unknown>>;
  /** What `#` stands for, in the inputs, the inner streams and the result. @defaultValue `'error'` */
  readonly error?: unknown;
  /** When the consumer subscribes (`^`) and leaves (`!`). @defaultValue at once, and to the end */
  readonly unsub?: string;
  /** True for the one example that stands in the operator's doc comment. */
  readonly cover?: true;
  /** Set on the one example that answers one of the questions every operator is asked. */
  readonly shows?: (typeof SPEC_CASES)[number];
  /**
   * Numbers of the example that a reader may change, as options by name: `build` reads them from the kit, and `label` names each as
   * `name: value`.
   */
  readonly options?: Readonly<Record<string, number>>;
  /** The stream under test. */
  readonly build: (kit: SpecKit) => Observable<unknown>;
}

/** Which input has lanes, their names in the order they are drawn, and the lane of an item. */
export interface SpecLanes {
  readonly input: string;
  readonly names: readonly string[];
  readonly of: (item: never) => string;
}

/**
 * What `build` is given.
 * @stable
 */
export interface SpecKit {
  /** An input stream by its name; its values are whatever `values` makes of the letters, so the type is yours to name. */
  readonly input: <T = string>(name: string) => Observable<T>;
  /** An inner stream by its name. */
  readonly inner: <T = string>(name: string) => Observable<T>;
  /** Draws any stream (a call of a fake provider, a worker) as an inner one of this name. */
  readonly watch: <T>(name: string, stream: Observable<T>) => Observable<T>;
  /** The `options` of the spec, or what a reader has made of them. */
  readonly options: Readonly<Record<string, number>>;
  /** The virtual clock. rxjs' own schedulers are virtual too, so operators do not need it passed. */
  readonly scheduler: TestScheduler;
}

/** Something a stream did. `frame` is virtual time in ms. */
export type Mark =
  | { readonly frame: number; readonly kind: 'next'; readonly value: unknown }
  | { readonly frame: number; readonly kind: 'error'; readonly error: unknown }
  | { readonly frame: number; readonly kind: 'complete' };

/**
 * One subscription and what came through it.
 * @stable
 */
export interface Run {
  /** Name of the input or inner stream, or `result`. */
  readonly name: string;
  readonly from: number;
  /** Since when the items of an inner stream waited for it; absent when it is not named after items. */
  readonly waitingFrom?: number;
  /** When it was left by its subscriber; Infinity when it ended by itself or never. */
  readonly leftAt: number;
  readonly marks: readonly Mark[];
}

/**
 * What really happened when a spec ran.
 * @stable
 */
export interface Recording {
  /** Subscriptions to the inputs, in the order they were made. */
  readonly inputs: readonly Run[];
  /** Subscriptions to the inner streams, in the order they were made. */
  readonly inners: readonly Run[];
  readonly result: Run;
  /** Actions the operator left on the scheduler when the result had ended or the consumer had left. */
  readonly leftBehind: number;
}

/**
 * A spec of your own pipeline: what only names it may be left out.
 * @stable
 */
export type MarbleTest = Omit<MarbleSpec, 'operator' | 'title' | 'label' | 'cover' | 'shows'> &
  Partial<Pick<MarbleSpec, 'operator' | 'title' | 'label'>>;

/** A spec without a verdict: only to be drawn. */
export type MarblePicture = Omit<MarbleTest, 'expected' | 'subscriptions'>;

/** With names for what has none. */
export function specOf(test: MarblePicture | MarbleTest): MarbleSpec {
  return { operator: 'pipeline', title: 'as it runs', label: 'pipeline', expected: '', ...test };
}
