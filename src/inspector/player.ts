import { FlowModel, type FlowModelOptions } from './flow-model.js';
import type { Recording } from './recording.js';
import { begin } from './recording.js';

/** Something to be done to the model, at its time. */
interface Step {
  readonly at: number;
  to(model: FlowModel): void;
}

/** Plays a recording into a model: as time passes, moment by moment, or to a given time. */
export class Player {
  model: FlowModel;
  /** How far it is, in ms since its beginning. */
  positionMs = 0;
  readonly lengthMs: number;
  readonly #recording: Recording;
  readonly #options: FlowModelOptions;
  readonly #steps: readonly Step[];
  readonly #startsAt: number;
  #next = 0;

  constructor(recording: Recording, options: FlowModelOptions) {
    this.#recording = recording;
    this.#options = options;
    this.#steps = stepsOf(recording);
    this.#startsAt = this.#steps[0]?.at ?? 0;
    this.lengthMs = (this.#steps.at(-1)?.at ?? 0) - this.#startsAt;
    this.model = this.#begin();
  }

  get isOver(): boolean {
    return this.#next >= this.#steps.length;
  }

  /** On by so many ms. */
  advance(ms: number): void {
    if (ms > 0) this.seek(this.positionMs + ms);
  }

  /** On to the next moment at which something happens; false at the end. */
  step(): boolean {
    const next = this.#steps[this.#next];
    if (next === undefined) return false;
    this.positionMs = next.at - this.#startsAt;
    // Not by the position: a sum of fractions may fall short of it.
    this.#play(next.at);
    return true;
  }

  /** To a time; back to an earlier one it begins anew, with a new model. */
  seek(ms: number): void {
    const to = Math.max(0, Math.min(ms || 0, this.lengthMs));
    if (to < this.positionMs) {
      this.#next = 0;
      this.model = this.#begin();
    }
    this.positionMs = to;
    this.#play(to === this.lengthMs ? Infinity : this.#startsAt + to);
  }

  #begin(): FlowModel {
    const model = new FlowModel(this.#options);
    begin(model, this.#recording);
    return model;
  }

  #play(until: number): void {
    for (let step = this.#steps[this.#next]; step && step.at <= until; step = this.#steps[++this.#next]) step.to(this.model);
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
