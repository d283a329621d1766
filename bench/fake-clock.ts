interface Timer {
  readonly run: () => void;
  /** Undefined for a timer that rings once. */
  readonly everyMs: number | undefined;
  at: number;
}

const REPLACED = ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval'] as const;

/** A clock that runs as fast as it can. It replaces Node's timers and `Date.now` meanwhile, so the measured code does not notice. */
export class FakeClock {
  nowMs = 0;
  readonly #timers = new Map<number, Timer>();
  #ids = 0;

  /** Runs everything that is due, timer by timer, until it is done or nothing is left to wait for. */
  async during(start: () => void, isDone: () => boolean): Promise<void> {
    const real = { now: Date.now, ...Object.fromEntries(REPLACED.map((name) => [name, globalThis[name]])) };
    const clear = (id: number): void => {
      this.#timers.delete(id);
    };
    const fakes = {
      setTimeout: (run: () => void, delayMs?: number) => this.#add(run, delayMs, false),
      setInterval: (run: () => void, delayMs?: number) => this.#add(run, delayMs, true),
      clearTimeout: clear,
      clearInterval: clear,
    };
    Object.assign(globalThis, fakes);
    Date.now = () => this.nowMs;
    try {
      start();
      do {
        // What is left to microtasks happens in between.
        await new Promise(setImmediate);
      } while (!isDone() && this.#ringNext());
    } finally {
      const { now, ...timers } = real;
      Object.assign(globalThis, timers);
      Date.now = now;
    }
  }

  /** As in Node, no timer is shorter than a millisecond. */
  #add(run: () => void, delayMs = 1, repeats: boolean): number {
    const everyMs = Math.max(1, Math.trunc(delayMs));
    this.#timers.set(++this.#ids, { run, everyMs: repeats ? everyMs : undefined, at: this.nowMs + everyMs });
    return this.#ids;
  }

  #ringNext(): boolean {
    let next: [number, Timer] | undefined;
    for (const each of this.#timers) if (next === undefined || each[1].at < next[1].at) next = each;
    if (next === undefined) return false;
    const [id, timer] = next;
    this.nowMs = timer.at;
    if (timer.everyMs === undefined) this.#timers.delete(id);
    else timer.at += timer.everyMs;
    timer.run();
    return true;
  }
}
