/** Queues and batches of streams, without work. */

export type {
  BackpressureOptions,
  CoalesceOptions,
  ConflateWhileBusyOptions,
  Intake,
  IntakeOptions,
  OfferOptions,
  ResequenceOptions,
  Store,
} from '../../operators/index.js';
export { backpressure, coalesce, conflateWhileBusy, createIntake, resequence, toStore } from '../../operators/index.js';
