import { Subject } from 'rxjs';
import type { FlowEvent } from '../../../operators/index.js';
import type { Preset } from '../engine/preset.js';
import type { State } from '../engine/scenario.js';
import type { Side } from '../engine/sides.js';
import type { World } from '../engine/world.js';
import { createWorld } from '../engine/world.js';

/** Most time of a frame that a run may take, in ms: the rest is for the picture. */
const BUDGET_MS = 9;
/** Virtual ms between two looks at the clock. */
const SLICE_MS = 8;
/** A page that was in the background goes on where it was. */
const LONGEST_FRAME_MS = 100;

/** A world, played frame by frame. */
export class Player {
  readonly events: Readonly<Record<Side, Subject<FlowEvent>>> = { plain: new Subject(), sluice: new Subject() };
  isPlaying = false;
  speed: number;
  private readonly world: World;
  private lastFrameAt: number | undefined;

  constructor({ scenario, speed }: State, { pipeline }: Preset) {
    this.speed = speed;
    this.world = createWorld(scenario, pipeline, (side, event) => {
      this.events[side].next(event);
    });
  }

  get now(): number {
    return this.world.now;
  }

  get isOver(): boolean {
    return this.world.isOver;
  }

  get boards(): World['boards'] {
    return this.world.boards;
  }

  /** One frame. Where it would take too long, less virtual time passes. */
  frame(at: number): void {
    const since = Math.min(at - (this.lastFrameAt ?? at), LONGEST_FRAME_MS);
    this.lastFrameAt = at;
    if (!this.isPlaying) return;
    const until = this.now + since * this.speed;
    const startedAt = performance.now();
    while (this.now < until && !this.isOver && performance.now() - startedAt < BUDGET_MS) {
      this.world.advance(Math.min(SLICE_MS, until - this.now));
    }
    if (this.isOver) this.isPlaying = false;
  }

  play(): void {
    this.isPlaying = !this.isOver;
    this.lastFrameAt = undefined;
  }

  pause(): void {
    this.isPlaying = false;
  }

  step(): void {
    this.pause();
    this.world.step();
  }

  /** To a moment, or to the end. */
  goTo(ms: number): void {
    if (ms === Infinity) this.world.finish();
    else this.world.advance(ms - this.now);
    this.isPlaying &&= !this.isOver;
  }

  close(): void {
    this.world.close();
    for (const events of Object.values(this.events)) events.complete();
  }
}
