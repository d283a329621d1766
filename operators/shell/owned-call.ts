import type { WorkResult } from '../options/types.js';
import { Call } from './call.js';

/** Who makes a call, and hears of it. */
export interface CallOwner<C, R> {
  work(call: C): WorkResult<R>;
  got(call: C, value: R, isWhole: boolean): void;
  done(call: C): void;
  failed(call: C, error: unknown): void;
}

/** A call that leaves everything to its owner, who has several of them. */
export abstract class OwnedCall<R> extends Call<R> {
  constructor(private readonly owner: CallOwner<OwnedCall<R>, R>) {
    super();
  }

  work(): WorkResult<R> {
    return this.owner.work(this);
  }

  override got(value: R, isWhole: boolean): void {
    this.owner.got(this, value, isWhole);
  }

  done(): void {
    this.owner.done(this);
  }

  failed(error: unknown): void {
    this.owner.failed(this, error);
  }
}
