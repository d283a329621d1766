import type { Observable } from 'rxjs';
import { NEVER, of } from 'rxjs';

/** What an item became that did not go out. */
export class Failed {
  constructor(readonly reason: unknown) {}
}

/** Makes one item of one item: the work of whatever has some. The signal is made when it is asked for. */
export type Work = (item: number, context: { readonly signal: AbortSignal }) => Observable<number>;

/** An operator of whatever shape, as the checks see it: items in, items out. */
export interface Shape {
  /** One emission for all that goes out together. */
  readonly run: (input: Observable<number>, options: object, work: Work) => Observable<readonly (number | Failed)[]>;
  /** Options under which it keeps what it can keep. @defaultValue {} */
  readonly holding?: object;
}

export const fault = new Error('the fault of the source');
export const echo: Work = (item) => of(item);
export const never: Work = () => NEVER;
