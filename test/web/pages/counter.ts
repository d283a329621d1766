import { Subject } from 'rxjs';
import { toStore } from '../../../operators/index.js';

/** What the frameworks show, each in its own way: the same store of a source that the test speaks for. */
export const source = new Subject<number>();
export const store = toStore(source, 0, { pace: 'frame' });

/** What a test may do on the page. */
export interface CounterPage {
  emit(...values: readonly number[]): void;
  isObserved(): boolean;
  unmount(): void | Promise<void>;
}

declare global {
  var counter: CounterPage;
}

export function expose(unmount: () => void | Promise<void>, of: Subject<number> = source): void {
  globalThis.counter = {
    emit: (...values) => {
      for (const value of values) of.next(value);
    },
    isObserved: () => of.observed,
    unmount,
  };
}

export const root = document.querySelector('#root') as HTMLElement;
