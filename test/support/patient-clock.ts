import { VirtualTimeScheduler } from 'rxjs';

/** How long work outside of the clock may take when nothing is scheduled: a client that loads a module, or waits for a timer of the host. */
const PATIENCE_MS = 10_000;
/** Turns of the event loop in which whatever waits for a promise, or for a part of a body, goes on. */
const TURNS = 4;
/** That of the host, also where a test has put this clock in its place. */
const hostTimeout = globalThis.setTimeout;

/** Virtual time for work made of promises: the next timer is due once all promises have gone on as far as they can. */
export class PatientClock extends VirtualTimeScheduler {
  /** Lets time pass until the promise settles. Throws when nothing is scheduled that could settle it, or `mostMs` have passed. */
  async until<R>(promise: PromiseLike<R>, mostMs = Infinity): Promise<R> {
    const state = { isSettled: false };
    const settled = (): void => {
      state.isSettled = true;
    };
    promise.then(settled, settled);
    await this.#rest();
    const isSettled = (): boolean => state.isSettled;
    while (!isSettled()) {
      const next = await this.#nextOr(isSettled);
      if (isSettled()) break;
      if (next === undefined) throw new Error(`nothing is scheduled at ${String(this.frame)} ms, and it has not ended`);
      if (next > mostMs) throw new Error(`it has not ended after ${String(this.frame)} ms`);
      this.#moveTo(next);
      await this.#rest();
    }
    return promise;
  }

  /** Lets `ms` pass. */
  async pass(ms: number): Promise<void> {
    const end = this.frame + ms;
    await this.#rest();
    for (let next = this.#next(); next !== undefined && next <= end; next = this.#next()) {
      this.#moveTo(next);
      await this.#rest();
    }
    this.#moveTo(end);
    await this.#rest();
  }

  /** Lets time pass until nothing is scheduled any more. */
  async drain(): Promise<void> {
    await this.#rest();
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#moveTo(next);
      await this.#rest();
    }
  }

  /** Waits for a while when nothing is scheduled. */
  async #nextOr(isOver: () => boolean): Promise<number | undefined> {
    const endsAt = performance.now() + PATIENCE_MS;
    while (this.#next() === undefined && !isOver() && performance.now() < endsAt) {
      await new Promise<void>((resolve) => {
        hostTimeout(resolve, 1);
      });
    }
    return this.#next();
  }

  #next(): number | undefined {
    return this.actions[0]?.delay;
  }

  #moveTo(frame: number): void {
    this.maxFrames = frame;
    this.flush();
    this.maxFrames = Infinity;
    this.frame = frame;
  }

  async #rest(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++)
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
  }
}
