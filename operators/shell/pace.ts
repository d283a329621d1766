import type { SchedulerLike, Subscription } from 'rxjs';
import { animationFrames, take } from 'rxjs';
import { Alarm } from './alarm.js';

export interface PaceSettings {
  /** `'frame'`: the next animation frame rings as well. */
  readonly pace: 'time' | 'frame';
  readonly maxWaitMs: number;
  readonly scheduler: SchedulerLike;
}

/** Default of `maxWaitMs` beside frames: above the time between two of them even on a slow screen, or the time would always be first. */
export const FRAME_WAIT_MS = 100;

/** All that wait for a frame, so that what one lets go in it is taken by the next one in the same frame. */
const waiting = new Set<Pace>();

/** How many frames there were. */
let frames = 0;

/**
 * Rings once for each `arm`: after `maxWaitMs`, or with the next animation frame when that is sooner. Where no frames come (Node, a
 * worker, a tab nobody sees) the time rings alone, so nobody has to know which of these it is.
 *
 * One frame serves all: those that hand items on first, with those that are armed by that, then those that come last and show. Each is served once in
 * a frame, and never in the one it was made in, so that no circle can close. Each asks for frames of its own all the same, and needs no other.
 */
export class Pace {
  readonly #alarm: Alarm;
  readonly #onRing: () => void;
  readonly #maxWaitMs: number;
  readonly #isLast: boolean;
  #hasFrames: boolean;
  /** The frame that was asked for, while armed. */
  #frame: Subscription | undefined;
  /** The frame it was served in. */
  #served = frames;
  #isArmed = false;

  /** `onRing` must not throw. One that comes last is served when all others have been. */
  constructor({ pace, maxWaitMs, scheduler }: PaceSettings, onRing: () => void, isLast = false) {
    this.#alarm = new Alarm(scheduler, () => {
      this.#ring();
    });
    this.#onRing = onRing;
    this.#maxWaitMs = maxWaitMs;
    this.#isLast = isLast;
    this.#hasFrames = pace === 'frame';
  }

  static #serve(): void {
    const frame = ++frames;
    for (const isLast of [false, true]) {
      // It grows meanwhile.
      for (const pace of waiting) if (pace.#isLast === isLast) pace.#serveIn(frame);
    }
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
    if (!this.#hasFrames) return;
    waiting.add(this);
    if (this.#frame === undefined) this.#askForFrame();
  }

  stop(): void {
    this.#isArmed = false;
    this.#alarm.clear();
    waiting.delete(this);
    this.#frame?.unsubscribe();
    this.#frame = undefined;
  }

  #askForFrame(): void {
    const frame = animationFrames()
      .pipe(take(1))
      .subscribe({
        next: () => {
          this.#frame = undefined;
          Pace.#serve();
        },
        // The host has no frames.
        error: () => {
          this.#hasFrames = false;
        },
      });
    // One that came at once (the stub of a test) is over.
    if (!frame.closed) this.#frame = frame;
  }

  #serveIn(frame: number): void {
    if (this.#served === frame) return;
    this.#served = frame;
    this.#ring();
  }

  #ring(): void {
    if (!this.#isArmed) return;
    this.stop();
    this.#onRing();
  }
}
