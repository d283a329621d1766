import type { Charge } from '../../kernel/limits/limit.js';
import type { Alarm } from '../alarm.js';
import { LimiterQueue } from './limiter-queue.js';
import type { Rates } from './rates.js';
import type { Ticket } from './ticket.js';

/** The capacity of a limiter: slots, rates and pauses, and which of them is in the way of a job. */
export abstract class LimiterCapacity extends LimiterQueue {
  /** Limits that depend on the time; made for the first of them. */
  rates: Rates | undefined = undefined;
  /** Slots in total, and slots in use. */
  abstract slots: number;
  executing = 0;
  /** The time when the clock was last read; it stands for now until the next reading. Before the first it is never in the future, whatever a clock shows. */
  time = -Infinity;
  protected pausedUntil = -Infinity;
  protected isPaused = false;

  protected abstract get clock(): Alarm;

  /** How much longer everything is paused here, in ms. */
  get pausedForMs(): number {
    return this.isPaused ? Infinity : this.penaltyMs;
  }

  /** How much longer the pause of `penalize` lasts, in ms. */
  get penaltyMs(): number {
    return this.pausedUntil === -Infinity ? 0 : Math.max(0, this.pausedUntil - this.now());
  }

  /** The lowest value over this limiter and those above it. */
  minOf(of: (limiter: LimiterCapacity) => number): number {
    return of(this);
  }

  /** What could be spent at once of a unit, by a lane or in all, here and above. */
  left(unit: string, lane?: number): number {
    return this.minOf(({ rates }) => rates?.left(unit, lane) ?? Infinity);
  }

  /** Most that a batch of this lane may cost in a unit. Limits that hold nothing back make batches no smaller. */
  affordable(unit: string, lane: number): number {
    return this.minOf(({ rates, settings }) => (settings.enforce ? (rates?.left(unit, lane) ?? Infinity) : Infinity));
  }

  /** Reads the clock, and keeps the time. */
  now(): number {
    return (this.time = this.clock.now());
  }

  /** A job that wants more slots than there are takes all of them. */
  clamp(charge: Charge): Charge {
    const most = charge.slots > 1 ? this.minOf(({ slots }) => slots) : Infinity;
    return charge.slots > most ? { ...charge, slots: most } : charge;
  }

  hasSlots({ slots }: Charge, enforce = this.settings.enforce): boolean {
    return this.executing + slots <= this.slots || slots === 0 || this.executing === 0 || !enforce;
  }

  protected addRates(rules: readonly { addTo(rates: object | undefined, limiter: object): object }[]): void {
    for (const rule of rules) this.rates = rule.addTo(this.rates, this) as Rates;
  }

  /** Whether a grant depends on the time; if not, the clock need not be read. */
  protected get isTimed(): boolean {
    return this.rates?.isTimed === true || this.pausedUntil !== -Infinity || this.isPaused;
  }

  /** The limit here that is in the way of a job. */
  protected blockedBy(charge: Charge, lane: number): string | undefined {
    if (!this.hasSlots(charge)) return 'concurrency';
    const { enforce } = this.settings;
    if (this.isPaused || (enforce && this.time < this.pausedUntil)) return 'pause';
    return enforce ? this.rates?.blockedBy(charge, lane) : undefined;
  }

  /** When only a slot can be in the way here any more. */
  protected payableAt(charge: Charge, lane: number): number {
    if (this.isPaused) return Infinity;
    return this.settings.enforce ? Math.max(this.pausedUntil, this.rates?.payableAt(charge, lane) ?? this.time) : this.time;
  }

  /** What would hold a job back if this limiter did that, and for how long; undefined when nothing would. */
  protected wouldWait(charge: Charge, lane: number): { readonly limitedBy: string; readonly waitMs: number } | undefined {
    const { pausedUntil, rates, time } = this;
    const tooHeavyFor = rates?.all.find((rate) => rate.isTooHeavy(charge, lane));
    if (tooHeavyFor) return { limitedBy: tooHeavyFor.name, waitMs: Infinity };
    const other = time < pausedUntil ? 'pause' : rates?.blockedBy(charge, lane);
    const limitedBy = this.hasSlots(charge, true) ? other : 'concurrency';
    if (limitedBy === undefined) return undefined;
    return { limitedBy, waitMs: Math.max(pausedUntil, rates?.payableAt(charge, lane) ?? time) - time };
  }

  // ---- reserves of lanes ----------------------------------------------------------------------------------------------

  /** Whether the job whose turn it is waits for a rate, and for nothing else, so that more urgent lanes may use their reserves. */
  protected isPassable(leader: Ticket): boolean {
    const { charge, lane } = leader;
    const { enforce, queue } = this.settings;
    if (lane === 0 || queue.reserve === undefined || !enforce || !this.hasSlots(charge)) return false;
    return !this.isPaused && this.time >= this.pausedUntil && this.rates?.blockedBy(charge, lane) !== undefined;
  }

  /** The only job that may go before this one, whose turn it is: the first of the most urgent lane in which a job waits. */
  protected passing(leader: Ticket): Ticket | undefined {
    if (!this.isPassable(leader)) return undefined;
    for (let lane = 0; lane < leader.lane; lane++) if (this.queue.count(lane) > 0) return this.queue.head(lane);
    return undefined;
  }

  /** Whether a lane goes past the job whose turn it is. */
  protected passes(lane: number): boolean {
    const { first } = this;
    return first !== undefined && first.lane > lane && this.isPassable(first);
  }

  protected canPass({ charge, lane }: Pick<Ticket, 'charge' | 'lane'>): boolean {
    return this.blockedBy(charge, lane) === undefined && this.passableAt(charge, lane) <= this.time;
  }

  protected passableAt(charge: Charge, lane: number): number {
    return this.rates?.passableAt(charge, lane) ?? this.time;
  }
}
