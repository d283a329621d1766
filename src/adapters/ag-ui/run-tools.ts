import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import { connect } from '../../../operators/toolkit.js';
import type { ToolRunner } from '../../pipelines/create-tool-runner.js';
import { inputOf } from '../../pipelines/tools/tool-formats.js';
import type { ShortText } from './chunk-lanes.js';
import { chunkLanes } from './chunk-lanes.js';
import { endOf } from './run-events.js';
import { said } from './said.js';
import { ours } from './streams.js';
import type { AguiEvent, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './types.js';

/** What is used of a tool runner. */
export type AguiTools = Pick<ToolRunner, 'run' | 'tools'>;

/** The middleware that makes the calls of a run; without tools it is not there. */
export function toolMiddleware(tools: AguiTools | undefined): AguiMiddleware {
  return <I extends AguiInput, O extends AguiStream>(input: I, next: AguiNext<I, O>): O =>
    tools === undefined
      ? next.run(input)
      : (new Observable<AguiEvent>((to) => {
          makeCalls(tools, ours(next.run(input)), to);
        }) as unknown as O);
}

/** The calls of one run. A result goes in as soon as it is there; the end of the run waits for all of them. */
function makeCalls(tools: AguiTools, source: Observable<AguiEvent>, to: Subscriber<AguiEvent>): void {
  /** Calls in the long form whose arguments are coming. */
  const arriving = new Map<unknown, ShortText>();
  const underWay = new Map<unknown, Subscription>();
  const answered = new Set<unknown>();
  const lanes = chunkLanes();
  /** What has come and was not handed on: the end of the run while calls are under way, and what is behind it. */
  const queue: AguiEvent[] = [];
  /** Those that wait for the end of a text, which they would cut off. */
  let results: AguiEvent[] = [];
  let isBusy = false;
  let isDone = false;
  /** The run is: what comes behind its end, or was cut off by its failure, is no call. */
  let hasEnded = false;

  to.add(giveUp);
  connect(source, to, {
    next: (event) => {
      queue.push(event);
      handOn();
    },
    error: (error) => {
      giveUp();
      to.error(error);
    },
    complete: () => {
      isDone = true;
      handOn();
    },
  });

  /** What is asked for meanwhile is done in the same loop. */
  function handOn(): void {
    if (isBusy) return;
    isBusy = true;
    do handOnResults();
    while (queue[0] !== undefined && take(queue[0]));
    isBusy = false;
    if (!isDone || queue.length > 0 || underWay.size > 0) return;
    // A text that is open has ended with its stream.
    for (const result of results) to.next(result);
    to.complete();
  }

  function handOnResults(): void {
    const ready = results.filter((result) => !lanes.isOpen(result['subagentRunId']));
    results = results.filter((result) => !ready.includes(result));
    for (const result of ready) to.next(result);
  }

  /** False for the end of a run that has to wait. */
  function take(event: AguiEvent): boolean {
    const { type, toolCallId: id, toolCallName: name, subagentRunId, delta } = event;
    const end = endOf(event);
    const begun = lanes.see(event).filter(({ kind }) => kind === 'TOOL_CALL');
    const call = arriving.get(id);
    if (type === 'TOOL_CALL_START') arriving.set(id, { kind: '', id, name, subagentRunId, text: '' });
    else if (type === 'TOOL_CALL_ARGS' && call) call.text += String(delta);
    else if (type === 'TOOL_CALL_END' && call && arriving.delete(id)) begun.push(call);
    // The server has answered it.
    else if (type === 'TOOL_CALL_RESULT') settle(id);
    else if (type === 'RUN_STARTED') hasEnded = false;
    else if (end === 'failed' || end === 'cancelled') giveUp();
    else if (end) {
      begun.forEach(begin);
      hasEnded = true;
      handOnResults();
      if (underWay.size > 0) return false;
    }
    queue.shift();
    to.next(end ? withoutAnswered(event) : event);
    begun.forEach(begin);
    return true;
  }

  function begin({ id, name, subagentRunId, text }: ShortText): void {
    const isOurs = typeof id === 'string' && tools.tools.some((tool) => tool.name === name);
    if (hasEnded || !isOurs || answered.has(id) || underWay.has(id)) return;
    const link = new Subscription();
    underWay.set(id, link);
    const running = tools.run([{ id, name: name as string, input: inputOf(text) }]).subscribe({
      next: ({ content }) => {
        // Taken out before it is told.
        if (!settle(id)) return;
        results.push({
          ...{ type: 'TOOL_CALL_RESULT', messageId: `${id}:result`, toolCallId: id, content, role: 'tool' },
          ...said({ subagentRunId }),
        });
        handOn();
      },
      error: (error: unknown) => {
        to.error(error);
      },
    });
    link.add(running);
  }

  /** True when it was ours and under way. */
  function settle(id: unknown): boolean {
    answered.add(id);
    underWay.get(id)?.unsubscribe();
    return underWay.delete(id);
  }

  function giveUp(): void {
    hasEnded = true;
    results = [];
    for (const link of underWay.values()) link.unsubscribe();
    underWay.clear();
  }

  /** Nothing is left to whoever reads the end that was answered here. */
  function withoutAnswered(end: AguiEvent): AguiEvent {
    const outcome = end['outcome'] as { readonly pendingToolCallIds?: unknown } | undefined;
    const pending = outcome?.pendingToolCallIds;
    if (!Array.isArray(pending)) return end;
    return { ...end, outcome: { ...outcome, pendingToolCallIds: pending.filter((id) => !answered.has(id)) } };
  }
}
