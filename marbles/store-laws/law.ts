import type { Schedule } from './schedules.js';
import type { Trial } from './trial.js';

/** A rule that every store obeys. */
export interface StoreLaw {
  readonly title: string;
  /** False when the law has nothing to say about the store. */
  readonly appliesTo?: (trial: Trial) => boolean;
  /** One schedule, which is over when it resolves. */
  readonly check?: (trial: Trial) => Promise<void>;
  /** The same as data, so that a schedule that fails can be shortened. */
  readonly draw?: (trial: Trial) => Schedule;
  /** Once is enough: nothing in it is drawn, or it takes long. */
  readonly isOnce?: true;
}
