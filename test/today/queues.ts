/** Queues and batches of streams, without work. */

export type {
  BackpressureOptions,
  BatchOptions,
  CoalesceOptions,
  ConflateWhileBusyOptions,
  Intake,
  IntakeOptions,
  OfferOptions,
  ResequenceOptions,
  Store,
} from '../../operators/index.js';
export { backpressure, batch, coalesce, conflateWhileBusy, createIntake, resequence, toStore } from '../../operators/index.js';
