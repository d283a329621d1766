import { BehaviorSubject, type Observable } from 'rxjs';
import type { World } from './world.js';

/** Most calls at a time, which may change. When it is lowered in the midst of something, that holds from the next instant on. */
export class Width {
  readonly #changes: BehaviorSubject<number> | undefined;
  #now: number;
  #highest: number;
  #at = -1;

  constructor(
    readonly world: World,
    width: number,
    changing: boolean,
  ) {
    this.#now = width;
    this.#highest = width;
    this.#changes = changing ? new BehaviorSubject(width) : undefined;
  }

  get option(): number | Observable<number> {
    return this.#changes ?? this.#now;
  }

  change(width: number): void {
    if (this.#changes === undefined) return;
    this.note(width);
    this.#changes.next(width);
  }

  get observed(): boolean {
    return this.#changes?.observed ?? false;
  }

  note(width: number): void {
    if (this.#at !== this.world.clock.passed) this.#highest = this.#now;
    this.#at = this.world.clock.passed;
    this.#highest = Math.max(this.#highest, width);
    this.#now = width;
  }

  get now(): number {
    return this.#now;
  }

  get most(): number {
    return this.#at === this.world.clock.passed ? this.#highest : this.#now;
  }
}
