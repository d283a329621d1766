import type { Charge } from '../../kernel/limits/limit.js';
import type { LimiterLimits } from '../../options/limiter.js';
import { count, durationMs, known, orDefault } from '../../options/options.js';
import { Alarm } from '../alarm.js';
import type { Rates } from './rates.js';
import type { LimiterSettings } from './settings.js';
import { NAME, ratesOption } from './settings.js';
import { WaitingRoom } from './waiting-room.js';

/** What a limiter has to give, and how much of it is taken: its slots, its rates, and its pauses. */
export abstract class Capacity extends WaitingRoom {
  /** Slots there are, and those in use. */
  slots: number;
  executing = 0;
  /** When the clock was last looked at; everything until the next time happens then. */
  time = 0;
  /** What depends on the time; made when there is such a limit. */
  rates: Rates | undefined = undefined;
  protected alarm: Alarm | undefined = undefined;
  private pausedUntil = -Infinity;
  /** Paused by hand, until somebody says otherwise. */
  private isHeld = false;

  constructor(settings: LimiterSettings) {
    super(settings);
    const { concurrency, rates, learn, restore } = settings;
    this.slots = concurrency;
    this.adopt(learn ? [...rates, learn] : rates);
    if (restore === undefined) return;
    const pauseMs = restore.pausedForMs - (this.rates?.restore(restore) ?? 0);
    if (pauseMs > 0) this.pausedUntil = this.read() + pauseMs;
  }

  /** Something may be free now. */
  protected abstract widened(): void;
  /** Nothing more can be granted for a while. */
  abstract rest(): void;
  /** It is time. */
  abstract pump(): void;

  get load(): number {
    const slots = this.slots === Infinity ? 0 : Math.min(1, this.executing / this.slots);
    return Math.max(this.pausedForMs > 0 ? 1 : slots, this.rates?.load() ?? 0);
  }

  /** How much longer everything is paused here, in ms. */
  get pausedForMs(): number {
    return this.isHeld ? Infinity : this.asksToWaitMs;
  }

  /** How long the pause is to last yet that was asked for. */
  get asksToWaitMs(): number {
    return this.pausedUntil === -Infinity ? 0 : Math.max(0, this.pausedUntil - this.read());
  }

  /** The least of what all limiters say, here and above. */
  least(of: (limiter: Capacity) => number): number {
    return of(this);
  }

  /** Looks at the clock. */
  read(): number {
    this.time = this.clock.now();
    return this.time;
  }

  setLimits(limits: LimiterLimits): void {
    known(NAME, limits, ['concurrency', 'rates']);
    const concurrency = count(NAME, 'concurrency', orDefault(limits.concurrency, this.slots));
    const rates = ratesOption(NAME, 'rates', orDefault(limits.rates, []));
    this.slots = concurrency;
    this.adopt(rates);
    this.tell?.({ type: 'limitChanged', concurrency });
    this.widened();
  }

  penalize(pauseMs: number): void {
    durationMs(NAME, 'pauseMs', pauseMs);
    const now = this.read();
    // A shorter pause never ends a longer one; one of 0 does.
    if (pauseMs > 0 ? now + pauseMs <= this.pausedUntil : now >= this.pausedUntil) return;
    this.pausedUntil = pauseMs > 0 ? now + pauseMs : -Infinity;
    if (pauseMs === 0) this.rates?.resumed();
    this.tell?.({ type: 'throttled', pauseMs });
    if (pauseMs === 0) this.widened();
    else this.rest();
  }

  /** By hand, until that is taken back. */
  protected hold(isHeld: boolean): void {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    if (isHeld) this.rest();
    else this.widened();
  }

  /** What stands in the way of a job, here. */
  protected blockedBy(charge: Charge): string | undefined {
    if (!this.hasSlots(charge)) return 'concurrency';
    return this.isHeld || this.time < this.pausedUntil ? 'pause' : this.rates?.blockedBy(charge);
  }

  /** What takes more slots than there are takes all of them. */
  hasSlots({ slots }: Charge): boolean {
    return this.executing + slots <= this.slots || slots === 0 || this.executing === 0;
  }

  /** When nothing but a slot stands in the way here any more. */
  protected payableAt(charge: Charge): number {
    return this.isHeld ? Infinity : Math.max(this.pausedUntil, this.rates?.payableAt(charge) ?? this.time);
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

  private adopt(rules: readonly { addTo(rates: object | undefined, pump: object): object }[]): void {
    for (const rule of rules) this.rates = rule.addTo(this.rates, this) as Rates;
  }
}
