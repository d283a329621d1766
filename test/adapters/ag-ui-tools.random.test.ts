import * as fc from 'fast-check';
import { Observable, Subject } from 'rxjs';
import { expect, it } from 'vitest';
import type { AguiTools } from '../../src/adapters/ag-ui/run-tools.js';
import type { AguiEvent } from '../../src/adapters/ag-ui.js';
import { aguiFlow } from '../../src/adapters/ag-ui.js';
import type { ToolCall } from '../../src/index.js';
import { sized } from '../support/deep.js';

/** What a server says, in any order, also what it must not; and what tools and the reader do. */
type Deed =
  | { readonly do: 'start' | 'args' | 'end' | 'chunk' | 'result'; readonly id: string }
  | { readonly do: 'text'; readonly lane: string | undefined }
  | { readonly do: 'answer'; readonly which: number }
  | { readonly do: 'begin' | 'finish' | 'fail' | 'break' | 'complete' | 'leave' };

const ids = fc.constantFrom('a', 'b', 'c');
const deed: fc.Arbitrary<Deed> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('start', 'args', 'end', 'chunk'), id: ids }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('result'), id: ids }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('text'), lane: fc.constantFrom(undefined, 'sub') }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('answer'), which: fc.nat({ max: 3 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('begin', 'finish', 'fail', 'break', 'complete', 'leave') }) },
);

/** Calls that are answered when they are told to, or at once. */
function workshop(isSync: boolean, begun: () => void) {
  const calls: { readonly id: string; answer: () => void; isLeft: boolean; isAnswered: boolean }[] = [];
  const tools = {
    tools: [{ name: 'read' }],
    run: ([call]: readonly ToolCall[]) =>
      new Observable((subscriber) => {
        const one = {
          id: call!.id,
          isLeft: false,
          isAnswered: false,
          answer: () => {
            if (one.isLeft || one.isAnswered) return;
            one.isAnswered = true;
            subscriber.next({ content: 'read' });
            subscriber.complete();
          },
        };
        calls.push(one);
        begun();
        if (isSync) one.answer();
        return () => {
          one.isLeft = true;
        };
      }),
  } as unknown as AguiTools;
  return { calls, tools };
}

const eventOf = ({ do: what, ...about }: Deed): AguiEvent | undefined => {
  const { id = '', lane } = about as { readonly id?: string; readonly lane?: string };
  switch (what) {
    case 'start':
      return { type: 'TOOL_CALL_START', toolCallId: id, toolCallName: id === 'c' ? 'theirs' : 'read' };
    case 'args':
      return { type: 'TOOL_CALL_ARGS', toolCallId: id, delta: '{}' };
    case 'end':
      return { type: 'TOOL_CALL_END', toolCallId: id };
    case 'chunk':
      return { type: 'TOOL_CALL_CHUNK', toolCallId: id, toolCallName: id === 'c' ? 'theirs' : 'read', delta: '{}' };
    case 'result':
      return { type: 'TOOL_CALL_RESULT', toolCallId: id, messageId: 'm', content: 'theirs' };
    case 'text':
      return { type: 'TEXT_MESSAGE_CHUNK', messageId: lane ?? 'main', delta: 'x', ...(lane !== undefined && { subagentRunId: lane }) };
    case 'begin':
      return { type: 'RUN_STARTED', threadId: 't', runId: 'r' };
    case 'finish':
      return { type: 'RUN_FINISHED', threadId: 't', runId: 'r' };
    case 'fail':
      return { type: 'RUN_ERROR', message: 'no' };
    default:
      return undefined;
  }
};

it('whatever comes, and in whatever order: all is handed on as it came, a call has one result, and nothing runs on', () => {
  fc.assert(
    fc.property(fc.array(deed, { maxLength: 30 }), fc.boolean(), (deeds, isSync) => {
      const server = new Subject<AguiEvent>();
      const seen: AguiEvent[] = [];
      let end: string | undefined;
      const { calls, tools } = workshop(isSync, () => {
        expect([end, seen.findLast(({ type }) => type.startsWith('RUN_'))?.type ?? 'RUN_STARTED']).toEqual([undefined, 'RUN_STARTED']);
      });
      const run = aguiFlow({ tools }).runTools({ threadId: 't', runId: 'r' }, { run: () => server });
      const reading = run.subscribe({
        next: (event: AguiEvent) => {
          expect(end).toBe(undefined);
          seen.push(event);
        },
        error: () => (end = 'error'),
        complete: () => (end = 'complete'),
      });
      const said: AguiEvent[] = [];
      let isOver = false;
      for (const each of deeds) {
        const event = eventOf(each);
        if (event !== undefined) {
          if (!isOver) said.push(event);
          server.next(event);
        } else if (each.do === 'answer') calls[each.which]?.answer();
        else if (each.do === 'break') server.error(new Error('cut'));
        else if (each.do === 'complete') server.complete();
        else if (each.do === 'leave') {
          reading.unsubscribe();
          expect(calls.every(({ isLeft }) => isLeft)).toBe(true);
        }
        isOver ||= ['break', 'complete', 'leave'].includes(each.do);
      }
      if (!isOver) server.complete();
      for (let i = 0; i < 10; i++) for (const call of calls) call.answer();

      const isLeft = deeds.some((each) => each.do === 'leave');
      const ours = seen.filter((event) => String(event['messageId']).endsWith(':result'));
      const theirs = seen.filter((event) => !ours.includes(event));
      // In their order, none twice; all of them, unless it was cut off, but for answers to what was answered here.
      const answered = new Set<unknown>(calls.filter(({ isAnswered }) => isAnswered).map(({ id }) => id));
      const wanted = said.filter(({ type, toolCallId }) => type !== 'TOOL_CALL_RESULT' || !answered.has(toolCallId));
      expect(theirs).toEqual(wanted.slice(0, theirs.length));
      if (end === 'complete') expect(theirs).toHaveLength(wanted.length);
      if (!isLeft) expect(end).not.toBe(undefined);
      expect(calls.filter((call) => !call.isLeft)).toEqual([]);
      expect(calls.some(({ id }) => id === 'c')).toBe(false);
      if (!deeds.some((each) => ['fail', 'break', 'leave'].includes(each.do)))
        expect(ours.map((event) => event['toolCallId']).toSorted()).toEqual(
          calls
            .filter(({ isAnswered }) => isAnswered)
            .map(({ id }) => id)
            .toSorted(),
        );
      for (const event of ours) {
        const at = seen.indexOf(event);
        const id = event['toolCallId'];
        expect(ours.filter((other) => other['toolCallId'] === id)).toHaveLength(1);
        // Not before the call, and not in the middle of a text that is sent in pieces.
        expect(seen.slice(0, at).some((other) => other['toolCallId'] === id)).toBe(true);
        const [before, after] = [seen[at - 1], seen[at + 1]];
        if (before?.type.endsWith('_CHUNK') && before.type === after?.type && before['subagentRunId'] === event['subagentRunId'])
          expect([before['messageId'], before['toolCallId']]).not.toEqual([after['messageId'], after['toolCallId']]);
        expect(seen.slice(0, at).findLast(({ type }) => type.startsWith('RUN_'))?.type ?? 'RUN_STARTED').toBe('RUN_STARTED');
      }
    }),
    { numRuns: sized(200, 1000) },
  );
});
