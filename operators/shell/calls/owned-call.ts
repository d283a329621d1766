import type { ObservableInput } from 'rxjs';
import type { WorkResult } from '../../options/types.js';
import { Call } from './call.js';

/** The owner of a call: makes it, and receives its values and its end. */
export interface CallOwner<C, R> {
  work(call: C): WorkResult<R> | ObservableInput<R>;
  got(call: C, value: R): void;
  done(call: C, value: R): void;
  failed(call: C, error: unknown): void;
}

/** A call that leaves everything to its owner, which has several calls. */
export abstract class OwnedCall<R> extends Call<R> {
  constructor(protected readonly owner: CallOwner<OwnedCall<R>, R>) {
    super();
  }

  work(): WorkResult<R> | ObservableInput<R> {
    return this.owner.work(this);
  }

  override got(value: R): void {
    this.owner.got(this, value);
  }

  done(value: R): void {
    this.owner.done(this, value);
  }

  failed(error: unknown): void {
    this.owner.failed(this, error);
  }
}
