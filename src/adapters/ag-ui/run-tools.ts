import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import { attach, inTurn } from '../../../operators/toolkit.js';
import type { ToolRunner } from '../../pipelines/create-tool-runner.js';
import { inputOf } from '../../pipelines/tools/tool-formats.js';
import type { OpenPart } from './open-parts.js';
import { openParts } from './open-parts.js';
import { endOf } from './run-events.js';
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
  /** By id: those under way, and those that were answered, which are closed. */
  const calls = new Map<unknown, Subscription>();
  const results = new Set<AguiEvent>();
  /** The end of the run while calls are under way, and what is behind it. */
  let waiting: AguiEvent[] = [];
  let isDone = false;
  /** The run is: what comes behind its end, or was cut off by its failure, is no call. */
  let hasEnded = false;
  const { short, see } = openParts(begin);
  const turn = inTurn(to);

  to.add(giveUp);
  attach(source, to, {
    next: (event) => {
      turn(handOn, event);
    },
    error: (error) => {
      turn(() => {
        to.error(error);
      });
    },
    complete: () => {
      turn(() => {
        isDone = true;
        goOn();
      });
    },
  });

  function handOn(event: AguiEvent): void {
    if (waiting.length > 0) {
      waiting.push(event);
      return;
    }
    const { type, toolCallId } = event;
    const end = endOf(event);
    if (end === 'failed' || end === 'cancelled') giveUp();
    if (type === 'TOOL_CALL_RESULT') {
      // The server has answered it.
      calls.get(toolCallId)?.unsubscribe();
      calls.set(toolCallId, Subscription.EMPTY);
    }
    see(event);
    if (type === 'RUN_STARTED') hasEnded = false;
    if (end) {
      hasEnded = true;
      handOnResults();
      if (isUnderWay()) {
        waiting.push(event);
        return;
      }
    }
    to.next(end ? withoutAnswered(event) : event);
    handOnResults();
  }

  function isUnderWay(): boolean {
    return [...calls.values()].some(({ closed }) => !closed);
  }

  /** A result would cut off a text in the short form, and waits for its end. */
  function handOnResults(): void {
    for (const result of results) if (!short.has(result['subagentRunId']) && results.delete(result)) to.next(result);
  }

  /** With what waits for calls, when none is left. */
  function goOn(): void {
    if (isUnderWay()) return;
    const behind = waiting;
    waiting = [];
    behind.forEach(handOn);
    if (!isDone || isUnderWay()) return;
    // A text that is open has ended with its stream.
    short.clear();
    handOnResults();
    to.complete();
  }

  function begin({ whose, start, text }: OpenPart): void {
    const { toolCallId: id, toolCallName: name } = start as AguiEvent & { toolCallId: string; toolCallName: string };
    if (hasEnded || calls.has(id) || !tools.tools.some((tool) => tool.name === name)) return;
    const link = new Subscription();
    calls.set(id, link);
    const running = tools.run([{ id, name, input: inputOf(text) }]).subscribe({
      next: ({ content }) => {
        turn(() => {
          if (link.closed) return;
          // Taken out before it is told.
          link.unsubscribe();
          results.add({
            type: 'TOOL_CALL_RESULT',
            messageId: `${id}:result`,
            toolCallId: id,
            content,
            role: 'tool',
            ...(whose !== undefined && { subagentRunId: whose }),
          });
          handOnResults();
          goOn();
        });
      },
      error: (error: unknown) => {
        to.error(error);
      },
    });
    link.add(running);
  }

  function giveUp(): void {
    hasEnded = true;
    results.clear();
    for (const call of calls.values()) call.unsubscribe();
  }

  /** Nothing is left to whoever reads the end that was answered here. */
  function withoutAnswered(end: AguiEvent): AguiEvent {
    const outcome = end['outcome'] as { readonly pendingToolCallIds?: readonly string[] } | undefined;
    const pendingToolCallIds = outcome?.pendingToolCallIds?.filter((id) => !calls.has(id));
    return pendingToolCallIds ? { ...end, outcome: { ...outcome, pendingToolCallIds } } : end;
  }
}
