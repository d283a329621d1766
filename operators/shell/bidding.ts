import type { Bidder, Permit, Permits, Place } from '../options/permits.js';

/** Who wants permits, one at a time. */
export interface Wanting {
  /** Whether there still is anything to be done under one. */
  isWanting(): boolean;
  /** There is one for `take`. */
  permitted(): void;
  refused(error: unknown): void;
}

/** Asking `Permits` for one permit after the other. */
export class Bidding implements Bidder {
  private readonly permits: Permits;
  private readonly owner: Wanting;
  private place: Place | undefined = undefined;
  private granting: Permit | undefined = undefined;

  constructor(permits: Permits, owner: Wanting) {
    this.permits = permits;
    this.owner = owner;
  }

  /** Whether one has been asked for or granted that was not taken. */
  get isWaiting(): boolean {
    return this.place !== undefined || this.granting !== undefined;
  }

  /** Whether one was granted that was not taken. */
  get isGranted(): boolean {
    return this.granting !== undefined;
  }

  /** The permit for what is next; undefined while it has to be waited for, and then `permitted` tells when to ask again. */
  take(): Permit | undefined {
    if (this.place) return undefined;
    const permit = this.granting ?? this.permits.take?.();
    if (permit === undefined) {
      this.place = ASKING;
      const place = this.permits.enlist(this);
      // Granted or refused at once, there is no place to keep.
      if (this.place === ASKING) this.place = place;
    }
    const granted = permit ?? this.granting;
    this.granting = undefined;
    return granted;
  }

  /** Wants none any more. */
  leave(): void {
    const { place, granting } = this;
    this.place = this.granting = undefined;
    place?.withdraw();
    granting?.release('unused');
  }

  bid(): number | undefined {
    if (this.owner.isWanting()) return 0;
    this.place = undefined;
    return undefined;
  }

  granted(permit: Permit): void {
    this.place = undefined;
    this.granting = permit;
    this.owner.permitted();
  }

  refused(error: unknown): void {
    this.place = undefined;
    this.owner.refused(error);
  }
}

const ASKING: Place = { poke: () => undefined, withdraw: () => undefined };
