import type { SchedulerLike, Subscription } from 'rxjs';
import { animationFrames, take } from 'rxjs';
import { Alarm } from './alarm.js';

export interface PaceSettings {
  /** `'frame'`: the next animation frame rings as well. */
  readonly pace: 'time' | 'frame';
  readonly maxWaitMs: number;
  readonly scheduler: SchedulerLike;
}

/**
 * Rings once for each `arm`: after `maxWaitMs`, or with the next animation frame when that is sooner. Where no frames come (Node, a
 * worker, a tab nobody sees) the time rings alone, so nobody has to know which of these it is.
 */
export class Pace {
  readonly #alarm: Alarm;
  readonly #onRing: () => void;
  readonly #maxWaitMs: number;
  #hasFrames: boolean;
  /** The frame that was asked for; one that is late rings for whoever waits by then. */
  #frame: Subscription | undefined;
  #isArmed = false;

  /** `onRing` must not throw. */
  constructor({ pace, maxWaitMs, scheduler }: PaceSettings, onRing: () => void) {
    this.#alarm = new Alarm(scheduler, () => {
      this.#ring();
    });
    this.#onRing = onRing;
    this.#maxWaitMs = maxWaitMs;
    this.#hasFrames = pace === 'frame';
  }

  /** True from `arm` until it rings. */
  get isArmed(): boolean {
    return this.#isArmed;
  }

  now(): number {
    return this.#alarm.now();
  }

  /** Rings `maxWaitMs` from now at the latest, and no more for what it was armed for before. */
  arm(): void {
    this.#isArmed = true;
    this.#alarm.set(this.#alarm.now() + this.#maxWaitMs);
    if (this.#hasFrames && this.#frame === undefined) this.#askForFrame();
  }

  stop(): void {
    this.#isArmed = false;
    this.#alarm.clear();
    this.#frame?.unsubscribe();
    this.#frame = undefined;
  }

  #askForFrame(): void {
    const frame = animationFrames()
      .pipe(take(1))
      .subscribe({
        next: () => {
          this.#frame = undefined;
          this.#alarm.clear();
          this.#ring();
        },
        // The host has no frames.
        error: () => {
          this.#hasFrames = false;
        },
      });
    // One that came at once (the stub of a test) is over.
    if (!frame.closed) this.#frame = frame;
  }

  #ring(): void {
    if (!this.#isArmed) return;
    this.#isArmed = false;
    this.#onRing();
  }
}
