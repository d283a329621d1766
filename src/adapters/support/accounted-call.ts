import type { PolicyCallOptions } from '../../../operators/index.js';
import type { CallFacts } from '../../account/entry.js';

/** A call, and what is written down about it; nothing about one that no model answers. */
export interface AccountedCall extends PolicyCallOptions {
  readonly facts?: (CallFacts & { readonly traceId: string | undefined }) | undefined;
}
