import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import { connect, trampoline } from '../../../operators/build.js';
import type { ToolRunner } from '../../pipelines/create-tool-runner.js';
import { inputOf } from '../../pipelines/tools/tool-formats.js';
import type { OpenPart } from './open-parts.js';
import { openParts } from './open-parts.js';
import { endOf } from './run-events.js';
import { ours } from './streams.js';
import type { AguiEvent, AguiInput, AguiMiddleware, AguiNext, AguiStream } from './types.js';

/** What is used of a tool runner. */
export type AguiTools = Pick<ToolRunner, 'run' | 'tools'>;

interface AguiMessage {
  readonly toolCalls?: readonly { readonly id: unknown }[];
  readonly toolCallId?: unknown;
}

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
  /** By id: those under way, and those that are over, which are closed. */
  const calls = new Map<unknown, Subscription>();
  /** Results made here, by the id of their call, and those that are to be handed on. */
  const made = new Map<unknown, AguiEvent>();
  const results = new Set<AguiEvent>();
  /** The end of the run while calls are under way, and what is behind it. */
  let waiting: AguiEvent[] = [];
  let isDone = false;
  /** The run is: what comes behind its end, or was cut off by its failure, is no call. */
  let hasEnded = false;
  const { short, see } = openParts(begin);
  const enqueue = trampoline(to);

  to.add(giveUp);
  connect(source, to, {
    next: (event) => {
      enqueue(handOn, event);
    },
    error: (error) => {
      enqueue(fail, error);
    },
    complete: () => {
      enqueue(() => {
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
      if (made.has(toolCallId)) return;
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
    to.next(withoutAnswered(event));
    // The server knows nothing of what was answered here.
    for (const [id, result] of made) if (lastAbout(event, id)?.toolCalls) results.add(result);
    handOnResults();
  }

  function fail(error: unknown): void {
    to.error(error);
  }

  function isUnderWay(): boolean {
    return [...calls.values()].some(({ closed }) => !closed);
  }

  /** Where an event takes the place of all messages: the last that is about a call. */
  function lastAbout(event: AguiEvent, callId: unknown): AguiMessage | undefined {
    const messages = event['messages'] as readonly AguiMessage[] | undefined;
    return messages?.findLast((one) => one.toolCallId === callId || one.toolCalls?.some(({ id }) => id === callId));
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
        enqueue(() => {
          if (link.closed) return;
          // Taken out before it is told.
          link.unsubscribe();
          const result = {
            type: 'TOOL_CALL_RESULT',
            messageId: `${id}:result`,
            toolCallId: id,
            content,
            ...(whose !== undefined && { subagentRunId: whose }),
          };
          made.set(id, result);
          results.add(result);
          handOnResults();
          goOn();
        });
      },
      error: fail,
    });
    link.add(running);
  }

  function giveUp(): void {
    hasEnded = true;
    results.clear();
    for (const call of calls.values()) call.unsubscribe();
  }

  /** Nothing is left to whoever reads the end that was answered here. */
  function withoutAnswered(event: AguiEvent): AguiEvent {
    const outcome = event['outcome'] as { readonly pendingToolCallIds?: readonly string[] } | undefined;
    const pendingToolCallIds = outcome?.pendingToolCallIds?.filter((id) => !calls.has(id));
    return pendingToolCallIds ? { ...event, outcome: { ...outcome, pendingToolCallIds } } : event;
  }
}
