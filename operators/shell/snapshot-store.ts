import type { Observable, Subscription } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import { CallbackError } from '../options/errors.js';
import type { FlowSink, Note } from '../options/events.js';
import { teller } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';
import { required } from '../options/options.js';
import { listen } from './listen.js';
import type { PaceSettings } from './pace.js';
import { Pace } from './pace.js';
import { report } from './report.js';

export interface StoreSettings<S> {
  /** Undefined: every value is shown at once. */
  readonly pace: PaceSettings | undefined;
  readonly onError: ((error: unknown) => S) | undefined;
  readonly onEvent: FlowSink | undefined;
  readonly name: string | undefined;
}

/** A snapshot of a source that changes only together with a call of every listener. Its functions need no `this`. */
export class SnapshotStore<S> {
  readonly #source: Observable<S>;
  readonly #settings: StoreSettings<S>;
  readonly #pace: Pace | undefined;
  readonly #tellEvent: ((note: Note) => void) | undefined;
  /** In objects of their own, so that one function can listen twice. */
  readonly #listeners = new Set<{ readonly call: () => void }>();
  #connection: Subscription | undefined;
  #snapshot: S;
  /** Thrown instead of the snapshot. */
  #failure: { readonly error: unknown } | undefined;
  /** What has come and was not shown yet. */
  #newValue: { readonly value: S } | undefined;
  #newError: { readonly error: unknown } | undefined;
  #isDue = false;
  #isTelling = false;

  readonly getServerSnapshot: () => S;

  constructor(source: Observable<S>, initial: S, settings: StoreSettings<S>) {
    this.#source = source;
    this.#snapshot = initial;
    this.#settings = settings;
    this.#tellEvent = teller('toStore', settings, () => this.#pace?.now() ?? asyncScheduler.now());
    this.getServerSnapshot = () => initial;
    if (settings.pace) {
      this.#pace = new Pace(settings.pace, () => {
        this.#show();
      });
    }
  }

  readonly getSnapshot = (): S => {
    if (this.#failure !== undefined) throw this.#failure.error;
    return this.#snapshot;
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    const entry = { call: required('toStore', 'listener', listener) };
    this.#listeners.add(entry);
    if (this.#listeners.size === 1) this.#connect();
    return () => {
      if (this.#listeners.delete(entry) && this.#listeners.size === 0) this.#disconnect();
    };
  };

  #connect(): void {
    listen(
      this.#source,
      {
        next: (value) => {
          this.#take(value);
        },
        error: (error: unknown) => {
          this.#newError = { error };
          this.#finish();
        },
        complete: () => {
          this.#finish();
        },
      },
      (subscription) => {
        this.#connection = subscription;
      },
    );
  }

  #disconnect(): void {
    this.#pace?.stop();
    try {
      this.#connection?.unsubscribe();
    } catch (error) {
      // A teardown of the source: whoever leaves is no place to throw it at.
      report(error);
    }
    this.#newValue = undefined;
    this.#newError = undefined;
    // Whoever comes next asks again: a page that is shown anew after a failure must not fail before it has.
    this.#failure = undefined;
  }

  #take(value: S): void {
    const isFirst = this.#newValue === undefined;
    this.#newValue = { value };
    if (!isFirst) this.#tellEvent?.({ type: 'dropped', lane: DEFAULT_LANE, policy: 'latest' });
    if (this.#pace === undefined) this.#show();
    else if (isFirst) this.#pace.arm();
  }

  #finish(): void {
    this.#pace?.stop();
    this.#show();
  }

  /** Shows what has come; what listeners bring about meanwhile is shown afterwards, in a loop. */
  #show(): void {
    this.#isDue = true;
    if (this.#isTelling) return;
    this.#isTelling = true;
    while (this.#isDue) {
      this.#isDue = false;
      this.#showValue();
      this.#showError();
    }
    this.#isTelling = false;
  }

  #showValue(): void {
    if (this.#newValue === undefined) return;
    this.#snapshot = this.#newValue.value;
    this.#newValue = undefined;
    this.#tell();
  }

  #showError(): void {
    // A value that came while the last one was shown goes first.
    if (this.#newError === undefined || this.#newValue !== undefined) return;
    const { error } = this.#newError;
    this.#newError = undefined;
    const { onError } = this.#settings;
    try {
      if (onError) this.#snapshot = onError(error);
      else this.#failure = { error };
    } catch (thrown) {
      this.#failure = { error: new CallbackError('toStore', 'onError', 'threw', thrown) };
    }
    this.#tell();
  }

  #tell(): void {
    for (const entry of [...this.#listeners]) {
      // One of those before may have taken it away.
      if (!this.#listeners.has(entry)) continue;
      try {
        entry.call();
      } catch (error) {
        report(error);
      }
    }
  }
}
