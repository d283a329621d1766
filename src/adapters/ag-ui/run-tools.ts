import type { Subscriber } from 'rxjs';
import { Subscription } from 'rxjs';
import { connect } from '../../../operators/toolkit.js';
import type { ToolRunner } from '../../pipelines/create-tool-runner.js';
import { inputOf } from '../../pipelines/tools/tool-formats.js';
import type { ShortText } from './chunk-lanes.js';
import { ChunkLanes } from './chunk-lanes.js';
import { said } from './said.js';
import { inPlaceOf } from './streams.js';
import type { AguiEvent, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './types.js';

/** What is used of a tool runner. */
export type AguiTools = Pick<ToolRunner, 'run' | 'tools'>;

/** The middleware that makes the calls of a run; without tools it is not there. */
export function toolMiddleware(tools: AguiTools | undefined): AguiMiddleware {
  return <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
    tools === undefined
      ? next.run(input)
      : inPlaceOf(next, (to, run) => {
          connect(run(input), to, new ToolCalls(tools, to));
        });
}

/** A call whose arguments are coming. */
type Call = Omit<ShortText, 'kind'>;

/** The calls of one run. A result goes in as soon as it is there; the end of the run waits for all of them. */
class ToolCalls {
  /** Calls in the long form. */
  readonly #arriving = new Map<unknown, Call>();
  readonly #underWay = new Map<unknown, Subscription>();
  readonly #answered = new Set<unknown>();
  readonly #lanes = new ChunkLanes();
  /** Results that wait for the end of a text, which they would cut off. */
  #results: AguiEvent[] = [];
  /** The end of the run, and what came behind it. */
  #held: AguiEvent[] = [];
  #isDone = false;
  /** The run is: what comes behind its end, or was cut off by its failure, is no call. */
  #hasEnded = false;

  constructor(
    readonly tools: AguiTools,
    readonly to: Subscriber<AguiEvent>,
  ) {}

  next(event: AguiEvent): void {
    if (this.#held.length > 0) this.#held.push(event);
    else this.#take(event);
  }

  error(error: unknown): void {
    this.#giveUp();
    this.to.error(error);
  }

  complete(): void {
    this.#isDone = true;
    this.#release();
  }

  #take(event: AguiEvent): void {
    const { type, toolCallId: id, toolCallName: name, subagentRunId, delta } = event;
    const ended = this.#lanes.see(event).filter(({ kind }) => kind === 'TOOL_CALL');
    const call = this.#arriving.get(id);
    if (type === 'TOOL_CALL_START') this.#arriving.set(id, { id, name, subagentRunId, text: '' });
    else if (type === 'TOOL_CALL_ARGS' && call !== undefined) call.text += String(delta);
    // The server has answered it.
    else if (type === 'TOOL_CALL_RESULT') this.#settle(id);
    else if (type === 'RUN_STARTED') this.#hasEnded = false;
    else if (type === 'RUN_ERROR' || isCancelled(event)) this.#giveUp();
    else if (type === 'RUN_FINISHED') {
      this.#held = [event];
      for (const each of ended) this.#begin(each);
      this.#hasEnded = true;
      this.#release();
      return;
    }
    this.to.next(event);
    for (const each of ended) this.#begin(each);
    if (type === 'TOOL_CALL_END' && call !== undefined) {
      this.#arriving.delete(id);
      this.#begin(call);
    }
    this.#release();
  }

  #begin({ id, name, subagentRunId, text }: Call): void {
    const isOurs = typeof id === 'string' && this.tools.tools.some((tool) => tool.name === name);
    if (this.#hasEnded || !isOurs || this.#answered.has(id) || this.#underWay.has(id)) return;
    const link = new Subscription();
    this.#underWay.set(id, link);
    this.to.add(link);
    const running = this.tools.run([{ id, name: name as string, input: inputOf(text) }]).subscribe({
      next: ({ content }) => {
        // Taken out before it is told.
        if (!this.#settle(id)) return;
        this.#results.push({
          ...{ type: 'TOOL_CALL_RESULT', messageId: `${id}:result`, toolCallId: id, content, role: 'tool' },
          ...said({ subagentRunId }),
        });
        this.#release();
      },
      error: (error: unknown) => {
        this.to.error(error);
      },
    });
    link.add(running);
  }

  /** True when it was ours and under way. */
  #settle(id: unknown): boolean {
    const link = this.#underWay.get(id);
    this.#answered.add(id);
    this.#underWay.delete(id);
    link?.unsubscribe();
    return link !== undefined;
  }

  #giveUp(): void {
    this.#hasEnded = true;
    for (const link of this.#underWay.values()) link.unsubscribe();
    this.#underWay.clear();
    this.#results = [];
  }

  /** Hands on what nothing stands in the way of any more. */
  #release(): void {
    this.#releaseResults((result) => !this.#lanes.isOpen(result['subagentRunId']));
    if (this.#underWay.size > 0) return;
    const [end, ...later] = this.#held;
    this.#held = [];
    const isDone = this.#isDone;
    // Not before all of it is out: each may release what it has brought about.
    this.#isDone = false;
    if (end !== undefined) this.to.next(this.#withoutAnswered(end));
    for (const event of later) this.next(event);
    this.#isDone ||= isDone;
    if (!this.#isDone || this.#held.length > 0 || this.#underWay.size > 0) return;
    // A text that is open has ended with its stream.
    this.#releaseResults(() => true);
    this.to.complete();
  }

  #releaseResults(isReady: (result: AguiEvent) => boolean): void {
    const ready = this.#results.filter(isReady);
    if (ready.length > 0) this.#results = this.#results.filter((result) => !ready.includes(result));
    for (const result of ready) this.to.next(result);
  }

  /** Nothing is left to whoever reads the end that was answered here. */
  #withoutAnswered(end: AguiEvent): AguiEvent {
    const outcome = end['outcome'] as { readonly pendingToolCallIds?: unknown } | undefined;
    const pending = outcome?.pendingToolCallIds;
    if (!Array.isArray(pending)) return end;
    return { ...end, outcome: { ...outcome, pendingToolCallIds: pending.filter((id) => !this.#answered.has(id)) } };
  }
}

function isCancelled({ type, outcome }: AguiEvent): boolean {
  return type === 'RUN_FINISHED' && (Object(outcome) as { readonly type?: unknown }).type === 'cancelled';
}
