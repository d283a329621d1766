import type { SchedulerLike } from 'rxjs';
import { animationFrames, noop, Subscription, take } from 'rxjs';
import { FRAME_WAIT_MS } from '../../options/defaults.js';
import { LONGEST_DELAY_MS } from './scheduler.js';

export interface PaceSettings {
  /** `'frame'`: the next animation frame rings as well. */
  readonly pace: 'time' | 'frame';
  readonly maxWaitMs?: number | undefined;
  readonly scheduler: SchedulerLike;
}

/** What rings, to the frames. */
interface Stage {
  readonly isLast: boolean;
  /** The frame it was served in. */
  served: number;
  readonly ring: () => void;
}

/** All that wait for a frame, so that what one lets go in it is taken by the next one in the same frame. */
const waiting = new Set<Stage>();

/** How many frames there were. */
let frames = 0;

function serve(): void {
  frames++;
  for (const isLast of [false, true]) {
    // It grows meanwhile.
    for (const stage of waiting) {
      if (stage.isLast !== isLast || stage.served === frames) continue;
      stage.served = frames;
      stage.ring();
    }
  }
}

export interface Pace {
  /** Rings `maxWaitMs` from now at the latest, and no more for what it was armed for before. */
  arm(): void;
  stop(): void;
}

/**
 * Rings once for each `arm`: after `maxWaitMs`, or with the next animation frame when that is sooner. Where no frames come (Node, a worker, a hidden
 * tab) the timer rings alone, so callers need not know where they run.
 *
 * One frame serves all: those that hand items on first, with those that are armed by that, then those that come last and show. Each is served once in
 * a frame, and never in the one it was made in, so that no circle can close. Each asks for frames of its own all the same, and needs no other.
 *
 * @param timeMs - `maxWaitMs` where it is left out and there are no frames
 * @param onRing - must not throw
 * @param isLast - served when all others have been
 */
export function createPace({ pace, maxWaitMs, scheduler }: PaceSettings, timeMs: number, onRing: () => void, isLast = false): Pace {
  const waitMs = maxWaitMs ?? (pace === 'frame' ? FRAME_WAIT_MS : timeMs);
  /** Open while armed. */
  let timer = Subscription.EMPTY;
  /** The one that was asked for, while armed. */
  let frame = Subscription.EMPTY;
  const stage: Stage = {
    isLast,
    served: frames,
    ring: () => {
      if (timer.closed) return;
      stop();
      onRing();
    },
  };
  function arm(): void {
    timer.unsubscribe();
    // Made first: some schedulers run a delay of 0 at once, and what rang may have armed it again.
    const next = new Subscription();
    timer = next;
    if (waitMs < Infinity) next.add(scheduler.schedule(stage.ring, Math.min(waitMs, LONGEST_DELAY_MS)));
    if (pace === 'time') return;
    waiting.add(stage);
    // The host may have no frames.
    if (frame.closed) frame = animationFrames().pipe(take(1)).subscribe({ next: serve, error: noop });
  }
  function stop(): void {
    timer.unsubscribe();
    frame.unsubscribe();
    waiting.delete(stage);
  }
  return { arm, stop };
}
