import type { Observable, Subscription } from 'rxjs';
import { map, VirtualTimeScheduler } from 'rxjs';
import type { FlowEvent } from '../../../operators/index.js';
import { reported } from './plain.js';
import type { Pipeline } from './preset.js';
import type { Counts, Item, Scenario, Tally } from './setting.js';
import { createSetting } from './setting.js';
import type { Side } from './sides.js';

/** Longest a board may take when no more items come, in ms. */
const AFTER_MS = 60_000;

/** One pipeline at work. */
export interface Board {
  readonly counts: Counts;
  readonly isOver: boolean;
  /** What its stream ended with, if it did. */
  readonly failure: unknown;
}

export interface World {
  /** Virtual ms since the start. */
  readonly now: number;
  readonly boards: Readonly<Record<Side, Board>>;
  readonly isOver: boolean;
  /** Lets so much virtual time pass; everything due by then happens. */
  advance(ms: number): void;
  /** On to the next moment at which anything is told. */
  step(): void;
  /** On to the end. */
  finish(): void;
  close(): void;
}

/** Two boards on the same load and the same kind of provider, on one virtual clock. The same scenario always makes the same numbers. */
export function createWorld(scenario: Scenario, pipeline: Pipeline, onEvent: (side: Side, event: FlowEvent) => void): World {
  const scheduler = new VirtualTimeScheduler();
  const endMs = scenario.seconds * 1000 + AFTER_MS;
  let told = 0;

  const start = (side: Side): BoardState => {
    const sink = (event: FlowEvent): void => {
      told++;
      onEvent(side, event);
    };
    const setting = createSetting(scenario, scheduler, sink, pipeline.newestOnly);
    const output: Observable<readonly [item: Item, isAnswer: boolean]> =
      side === 'plain'
        ? reported(setting, pipeline.recipe).pipe(map((item) => [item, true] as const))
        : pipeline.flow(setting).pipe(map(({ input, status }) => [input, status === 'fulfilled'] as const));
    return new BoardState(setting.tally, output);
  };
  const boards = { plain: start('plain'), sluice: start('sluice') };

  const flush = (until: number): void => {
    scheduler.maxFrames = until;
    scheduler.flush();
    // With nothing left to do, it is over when that was.
    if (scheduler.actions.length > 0) scheduler.frame = until;
  };
  const isOver = (): boolean => scheduler.frame >= endMs || scheduler.actions.length === 0;

  return {
    boards,
    get now() {
      return scheduler.frame;
    },
    get isOver() {
      return isOver();
    },
    advance: (ms) => {
      if (!isOver()) flush(Math.min(scheduler.frame + ms, endMs));
    },
    step: () => {
      const before = told;
      while (told === before && !isOver()) flush(Math.min(scheduler.actions[0]?.delay ?? endMs, endMs));
    },
    finish: () => {
      flush(endMs);
    },
    close: () => {
      for (const board of Object.values(boards)) board.leave();
    },
  };
}

class BoardState implements Board {
  failure: unknown;
  private readonly run: Subscription;

  constructor(
    private readonly tally: Tally,
    output: Observable<readonly [item: Item, isAnswer: boolean]>,
  ) {
    this.run = output.subscribe({
      next: ([item, isAnswer]) => {
        tally.settle(item, isAnswer);
      },
      error: (error: unknown) => {
        this.failure = error;
      },
    });
  }

  get counts(): Counts {
    return this.tally.counts;
  }

  get isOver(): boolean {
    return this.run.closed;
  }

  leave(): void {
    this.run.unsubscribe();
  }
}
