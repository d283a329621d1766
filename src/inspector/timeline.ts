import type { Recording } from './export-recording.js';
import type { FlowModel } from './flow-model.js';
import { addBefore } from './recording.js';

/** Something to be done to the model, at its time. */
interface Step {
  readonly at: number;
  to(model: FlowModel): void;
}

/** Plays a recording into a model, moment by moment. */
export class Timeline {
  /** How far it is, in ms since its beginning. */
  positionMs = 0;
  readonly startsAt: number;
  readonly lengthMs: number;
  readonly #recording: Recording;
  readonly #steps: readonly Step[];
  #model: FlowModel | undefined;
  /** All before this time has been played. */
  #until = -Infinity;
  #next = 0;

  constructor(recording: Recording) {
    this.#recording = recording;
    this.#steps = stepsOf(recording);
    this.startsAt = this.#steps[0]?.at ?? 0;
    this.lengthMs = (this.#steps.at(-1)?.at ?? 0) - this.startsAt;
  }

  get isOver(): boolean {
    return this.#next >= this.#steps.length;
  }

  /** Goes on in an empty model, in which everything until now is played again. */
  playInto(model: FlowModel): void {
    addBefore(model, this.#recording);
    this.#model = model;
    this.#next = 0;
    this.#play(this.#until);
  }

  /** On to the next moment at which something happens; false at the end. */
  step(): boolean {
    const next = this.#steps[this.#next];
    if (next === undefined) return false;
    this.positionMs = next.at - this.startsAt;
    // Not by the position: a sum of fractions may fall short of it.
    this.#play(next.at);
    return true;
  }

  /** To a time. False when that was back: an empty model is needed. */
  seek(ms: number): boolean {
    const to = Math.max(0, Math.min(ms || 0, this.lengthMs));
    const until = to === this.lengthMs ? Infinity : this.startsAt + to;
    const isForward = until >= this.#until;
    this.positionMs = to;
    if (isForward) this.#play(until);
    else this.#until = until;
    return isForward;
  }

  #play(until: number): void {
    this.#until = until;
    for (let step = this.#steps[this.#next]; step && step.at <= until; step = this.#steps[++this.#next]) {
      if (this.#model) step.to(this.#model);
    }
  }
}

/** In the order of their times; an event without one belongs to the one before. */
function stepsOf({ events, samples }: Recording): Step[] {
  let last = -Infinity;
  const first = events.find(({ at }) => at !== undefined)?.at ?? 0;
  const steps: Step[] = events.map((event) => {
    last = Math.max(last, event.at ?? first);
    return {
      at: last,
      to: (model) => {
        model.add(event);
      },
    };
  });
  const looks = samples.map(
    (sample): Step => ({
      at: Math.max(sample.at, first),
      to: (model) => {
        model.sample(sample);
      },
    }),
  );
  return [...steps, ...looks].sort((a, b) => a.at - b.at);
}
