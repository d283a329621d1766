import type { Charge } from '../../kernel/limits/limit.js';
import type { Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import type { LimiterLimits } from '../../options/limiter.js';
import { Alarm } from '../alarm.js';
import type { Rates } from './rates.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';

/** What a limiter has to give, and how much of it is taken: its slots, its rates, and its pauses. */
export abstract class Capacity<Self extends Capacity<Self>> {
  readonly settings: LimiterSettings;
  readonly tell: ((note: Note) => void) | undefined;
  /** Slots there are, and those in use. */
  concurrency: number;
  executing = 0;
  /** When the clock was last looked at; everything until the next time happens then. */
  time = 0;
  /** What depends on the time; made when there is such a limit. */
  rates: Rates | undefined = undefined;
  abstract readonly above: { readonly pump: Self } | undefined;
  protected alarm: Alarm | undefined = undefined;
  private pausedUntil = -Infinity;
  /** Paused by hand, until somebody says otherwise. */
  private isHeld = false;

  constructor(settings: LimiterSettings) {
    this.settings = settings;
    this.concurrency = settings.concurrency;
    this.tell = teller(NAME, settings, () => this.read());
  }

  /** Something may be free now. */
  protected abstract widened(): void;
  /** Nothing more can be granted for a while. */
  abstract rest(): void;
  /** It is time. */
  abstract pump(): void;

  read(): number {
    this.time = this.clock.now();
    return this.time;
  }

  get freeSlots(): number {
    return this.concurrency - this.executing;
  }

  /** What takes more slots than there are takes all of them. */
  hasSlots({ slots }: Charge): boolean {
    return this.executing + slots <= this.concurrency || slots === 0 || this.executing === 0;
  }

  /** The least of what all limiters say, here and above. */
  least(of: (pump: Self) => number): number {
    const own = of(this as unknown as Self);
    return this.above ? Math.min(own, this.above.pump.least(of)) : own;
  }

  get load(): number {
    const slots = this.concurrency === Infinity ? 0 : Math.min(1, this.executing / this.concurrency);
    const isPaused = this.pausedForMs > 0;
    return Math.max(isPaused ? 1 : slots, this.rates?.load() ?? 0, this.above?.pump.load ?? 0);
  }

  /** How much longer everything is paused here, in ms. */
  get pausedForMs(): number {
    return this.heldUntil === -Infinity ? 0 : Math.max(0, this.heldUntil - this.read());
  }

  /** How long the pause is to last yet that was asked for. */
  get saysToWaitMs(): number {
    return Math.max(0, this.pausedUntil - this.read());
  }

  setLimits({ concurrency = this.concurrency, rates = [] }: LimiterLimits): void {
    this.concurrency = concurrency;
    for (const rule of rates) this.rates = rule.join(this.rates, this) as Rates;
    this.tell?.({ type: 'limitChanged', concurrency });
    this.widened();
  }

  penalize(pauseMs: number): void {
    if (pauseMs > 0) {
      const until = this.read() + pauseMs;
      if (until <= this.pausedUntil) return;
      this.pausedUntil = until;
      this.tell?.({ type: 'throttled', pauseMs });
      // A pause lets nobody in, so there is only the timer to set.
      this.rest();
      return;
    }
    const wasPaused = this.pausedUntil !== -Infinity && this.read() < this.pausedUntil;
    this.pausedUntil = -Infinity;
    if (!wasPaused) return;
    this.rates?.resumed();
    this.tell?.({ type: 'throttled', pauseMs });
    this.widened();
  }

  /** By hand, until that is taken back. */
  hold(isHeld: boolean): void {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    if (isHeld) this.rest();
    else this.widened();
  }

  /** Goes on with a pause that was saved so long ago. */
  protected resume(pausedForMs: number, elapsedMs = 0): void {
    if (pausedForMs > elapsedMs) this.pausedUntil = this.read() + pausedForMs - elapsedMs;
  }

  /** What stands in the way of a job, here. */
  protected blockedBy(charge: Charge): string | undefined {
    if (!this.hasSlots(charge)) return 'concurrency';
    return this.time < this.heldUntil ? 'pause' : this.rates?.blockedBy(charge);
  }

  /** When nothing but a slot stands in the way here any more. */
  protected payableAt(charge: Charge): number {
    return Math.max(this.heldUntil, this.rates?.payableAt(charge) ?? this.time);
  }

  /** The error for a job that can never be paid, here or above. */
  protected tooHeavy(charge: Charge): Error | undefined {
    return this.rates?.tooHeavy(charge) ?? this.above?.pump.tooHeavy(charge);
  }

  /** Whether a grant depends on the time; when nothing does, nobody has to look at the clock. */
  protected get isTimed(): boolean {
    return this.rates?.isLimited === true || this.pausedUntil !== -Infinity || this.isHeld;
  }

  protected get clock(): Alarm {
    return (this.alarm ??= new Alarm(this.settings.scheduler, () => {
      this.pump();
    }));
  }

  private get heldUntil(): number {
    return this.isHeld ? Infinity : this.pausedUntil;
  }
}
