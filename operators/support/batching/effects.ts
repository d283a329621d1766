import { Ring } from '../../kernel/queues/ring.js';

/**
 * What is done to the outside (listeners told, calls started and stopped) once the state of an engine is right: in order, and each
 * once. Whoever is reached by it may do anything, and finds nothing half done.
 */
export class Effects {
  readonly #waiting = new Ring<() => void>();
  #isRunning = false;

  get isIdle(): boolean {
    return this.#waiting.length === 0;
  }

  add(effect: () => void): void {
    this.#waiting.push(effect);
  }

  /** Does all that waits, and what comes of it. Asked from inside one of them, the rest comes after it. */
  run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    this.#runAll();
    this.#isRunning = false;
  }

  /** The same at once, also from inside one of them: for whoever must have come to an end before it returns. */
  runNow(): void {
    this.#runAll();
  }

  #runAll(): void {
    for (let effect = this.#waiting.shift(); effect; effect = this.#waiting.shift()) effect();
  }
}
