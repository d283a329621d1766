import { ClosedError } from '../../../operators/index.js';
import type { RunGiven } from './runner-types.js';
import type { JobHost } from './tool-job.js';
import { ToolJob } from './tool-job.js';
import { failed } from './tool-results.js';
import type { ToolSetup } from './tool-setup.js';
import { NAME } from './tool-setup.js';
import type { ToolCall, ToolError, ToolResult } from './tool-types.js';

/** What a session needs of its runner. */
export interface SessionHost extends JobHost {
  readonly setups: ReadonlyMap<string, ToolSetup>;
  /** Whether it takes calls from outside, or from tools that run others. */
  takes(inside: boolean): boolean;
  opened(job: ToolJob): void;
  /** Gives up many calls at once: none of them starts in the slot of another. */
  together(giveUp: () => void): void;
  /** Calls that are being turned away: nothing of them comes after `drained`. */
  turningAway: number;
  tellSettled(result: ToolResult, lane: string, id: string): void;
  /** Tells a call from all others in events. */
  nextId(): string;
}

export interface SessionKind {
  /** The calls of a tool that runs others. */
  readonly inside: boolean;
  /** A stream may use an id again when its first call is over; a request uses each once. */
  readonly reusesIds: boolean;
  /** Longest time for all its calls, in ms. */
  readonly deadlineMs?: number;
}

/** The calls of one request, or of one stream: each id belongs to one of them. */
export class ToolSession {
  readonly #host: SessionHost;
  readonly #kind: SessionKind;
  readonly #given: RunGiven;
  readonly #emit: (result: ToolResult) => void;
  readonly #open = new Set<ToolJob>();
  readonly #ids = new Set<string>();
  readonly #deadlineMs: number;
  readonly #deadlineAt: number;
  #accepted = 0;
  #hasLeft = false;
  /** Why it takes no more calls. */
  #end: { readonly error: ToolError; readonly cause: unknown } | undefined;

  constructor(host: SessionHost, kind: SessionKind, given: RunGiven, emit: (result: ToolResult) => void) {
    this.#host = host;
    this.#kind = kind;
    this.#given = given;
    this.#emit = emit;
    this.#deadlineMs = kind.deadlineMs ?? Infinity;
    this.#deadlineAt = host.now() + this.#deadlineMs;
  }

  /** Calls that are not over. */
  get size(): number {
    return this.#open.size;
  }

  accept(call: ToolCall): void {
    if (this.#hasLeft) return;
    const index = this.#accepted++;
    const setup = this.#host.setups.get(call.name);
    const id = this.#host.nextId();
    const refusal = this.#refusal(call, setup);
    if (setup === undefined || refusal !== undefined) {
      const { error, cause } = refusal ?? this.#unknown();
      this.#turnAway(failed({ call, index, attempts: 0, durationMs: 0 }, error, cause), id, setup ? call.name : 'default');
      return;
    }
    this.#ids.add(call.id);
    const about = { call, id, index, given: this.#given, deadlineMs: this.#deadlineMs, deadlineAt: this.#deadlineAt };
    const job = new ToolJob(this.#host, setup, about, (result) => {
      this.#open.delete(job);
      if (this.#kind.reusesIds) this.#ids.delete(call.id);
      this.#emit(result);
    });
    this.#open.add(job);
    // Before the event: a listener may close the runner, or leave.
    this.#host.opened(job);
    this.#tellAccepted(id, call.name);
    job.start();
  }

  /** Ends all calls with this error, and those still to come. */
  end(error: ToolError, cause: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { error, cause };
    this.#host.together(() => {
      for (const job of [...this.#open]) job.cancel(error, cause);
    });
  }

  /** Cancels the open calls: the subscriber has left. */
  leave(): void {
    this.#hasLeft = true;
    this.#host.together(() => {
      for (const job of [...this.#open]) job.leave();
    });
    this.#open.clear();
  }

  /** It never is on its way. */
  #turnAway(result: ToolResult, id: string, lane: string): void {
    const host = this.#host;
    host.turningAway++;
    this.#tellAccepted(id, lane);
    // A listener may have unsubscribed.
    if (this.#hasLeft) host.config.tell?.({ type: 'cancelled', lane, batchId: id, count: 1 });
    else {
      host.tellSettled(result, lane, id);
      this.#emit(result);
    }
    host.turningAway--;
    host.checkDrained();
  }

  #tellAccepted(id: string, lane: string): void {
    const { config, counts } = this.#host;
    config.tell?.({ type: 'accepted', lane, batchId: id, queued: counts.queued });
  }

  #refusal(call: ToolCall, setup: ToolSetup | undefined): { readonly error: ToolError; readonly cause?: unknown } | undefined {
    if (this.#end !== undefined) return this.#end;
    const { inside } = this.#kind;
    if (!this.#host.takes(inside))
      return { error: { code: 'closed', message: 'the runner is closed and accepts no more calls' }, cause: new ClosedError(NAME) };
    if (this.#ids.has(call.id))
      return { error: { code: 'duplicate_id', message: 'another call has the same id; give every call its own' } };
    if (inside && setup?.tool.runsTools)
      return {
        error: {
          code: 'nested_batch',
          message: `\`${call.name}\` cannot be called from within itself or its like; make its calls directly`,
        },
      };
    return undefined;
  }

  #unknown(): { readonly error: ToolError; readonly cause?: unknown } {
    const available = [...this.#host.setups.keys()].filter((name) => !this.#kind.inside || !this.#host.setups.get(name)?.tool.runsTools);
    return { error: { code: 'unknown_tool', message: `there is no such tool; there are: ${available.join(', ')}`, available } };
  }
}
