// @ts-check
import { FairQueue } from './fair-queue.mjs';

/** A fixed number of seats. Who finds none free waits in line, and loses its place when it leaves. */
export class Seats {
  /** @type {FairQueue<object, () => void>} */
  #waiting = new FairQueue();
  #size;
  #free;

  /** @param {number} size */
  constructor(size) {
    this.#size = size;
    this.#free = size;
  }

  get queued() {
    return this.#waiting.size;
  }

  get busy() {
    return this.#size - this.#free;
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<() => void>} gives the seat back, to be called once
   */
  async take(signal) {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#wait(signal);
    return () => {
      const next = this.#waiting.take();
      if (next === undefined) this.#free++;
      else next();
    };
  }

  /**
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  #wait(signal) {
    return new Promise((resolve, reject) => {
      const owner = {};
      const leave = () => {
        this.#waiting.drop(owner);
        reject(signal.reason);
      };
      const sit = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(owner, [sit]);
    });
  }
}
