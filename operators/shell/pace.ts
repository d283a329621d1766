import type { SchedulerLike } from 'rxjs';
import { animationFrames, Subscription, take } from 'rxjs';
import { LONGEST_DELAY_MS } from './alarm.js';

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
  readonly #settings: PaceSettings;
  readonly #onRing: () => void;
  readonly #isLast: boolean;
  #hasFrames: boolean;
  #timer: Subscription | undefined = undefined;
  /** The frame that was asked for, while armed. */
  #frame: Subscription | undefined = undefined;
  /** The frame it was served in. */
  #served = frames;
  /** True from `arm` until it rings. */
  isArmed = false;

  /** `onRing` must not throw. One that comes last is served when all others have been. */
  constructor(settings: PaceSettings, onRing: () => void, isLast = false) {
    this.#settings = settings;
    this.#onRing = onRing;
    this.#isLast = isLast;
    this.#hasFrames = settings.pace === 'frame';
  }

  static #serve(): void {
    const frame = ++frames;
    for (const isLast of [false, true]) {
      // It grows meanwhile.
      for (const pace of waiting) {
        if (pace.#isLast !== isLast || pace.#served === frame) continue;
        pace.#served = frame;
        pace.#ring();
      }
    }
  }

  now(): number {
    return this.#settings.scheduler.now();
  }

  /** Rings `maxWaitMs` from now at the latest, and no more for what it was armed for before. */
  arm(): void {
    const { scheduler, maxWaitMs } = this.#settings;
    this.isArmed = true;
    this.#timer?.unsubscribe();
    // Made first: some schedulers run a delay of 0 at once, and what rang may have armed it again.
    const timer = new Subscription();
    this.#timer = timer;
    if (maxWaitMs < Infinity) {
      const ring = (): void => {
        this.#ring();
      };
      timer.add(scheduler.schedule(ring, Math.min(maxWaitMs, LONGEST_DELAY_MS)));
    }
    if (!this.#hasFrames) return;
    waiting.add(this);
    if (this.#frame === undefined) this.#askForFrame();
  }

  stop(): void {
    this.isArmed = false;
    this.#timer?.unsubscribe();
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

  #ring(): void {
    if (!this.isArmed) return;
    this.stop();
    this.#onRing();
  }
}
