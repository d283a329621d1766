import { FlowConfigError } from '../../options/errors.js';
import { durationMs } from '../../options/options.js';

/** What a window function is told. */
export interface WindowContext {
  /** Leases the limiter has handed out, this operator's and others'. */
  readonly executing: number;
  /** Most leases at a time. */
  readonly concurrency: number;
  /** How busy the limiter is, 0 to 1: the share in use of its slots or of its rate, whichever is the scarcer. */
  readonly load: number;
  readonly queued: number;
  readonly queuedWeight: number;
  /** Age of the oldest waiting item, in ms. */
  readonly oldestMs: number;
}

/**
 * How long a batch that is not full is held for company while a permit is free:
 * not at all, a fixed time, a time that grows with the share of slots (or of the rate) in use (0 when idle, `maxMs` when all is in use),
 * or your own rule in ms. Asked again whenever anything happens.
 */
export type Window =
  | { readonly kind: 'natural' }
  | { readonly kind: 'fixed'; readonly ms: number }
  | { readonly kind: 'graded'; readonly maxMs: number }
  | ((context: WindowContext) => number);

/** @throws FlowConfigError */
export function windowRule(operator: string, window: Window): (context: WindowContext) => number {
  if (typeof window === 'function') return window;
  switch ((window as { kind?: unknown } | null)?.kind) {
    case 'natural':
      return () => 0;
    case 'fixed': {
      const ms = durationMs(operator, 'window.ms', (window as { ms: number }).ms);
      return () => ms;
    }
    case 'graded': {
      const maxMs = durationMs(operator, 'window.maxMs', (window as { maxMs: number }).maxMs);
      return ({ load }) => (load === 0 ? 0 : maxMs * load);
    }
    default:
      throw new FlowConfigError(
        operator,
        'window',
        "{ kind: 'natural' }, { kind: 'fixed', ms }, { kind: 'graded', maxMs } or a function",
        window,
      );
  }
}
