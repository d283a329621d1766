import { MessageSchema } from '@ag-ui/core/schemas';
import type { RawMessageStreamEvent } from '@anthropic-ai/sdk/resources/messages';
import * as fc from 'fast-check';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { concat, from, NEVER, of, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { TurnMessage } from '../../src/frontend/turn-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { sized } from '../support/deep.js';
import { messageFaults } from '../support/message-faults.js';
import { tool, whole } from './turn-kit.js';

/** What an answer is made of, in no protocol's words. */
type Piece =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'thought'; readonly text: string }
  | { readonly kind: 'sealed' }
  | { readonly kind: 'call' };

type AssistantMessage = Extract<TurnMessage, { role: 'assistant' }>;

type Block = Record<string, unknown> & { readonly type: string };

/** How a provider streams an answer, and what it wants to have back. */
interface Provider {
  readonly name: string;
  readonly protocol: 'anthropic' | 'responses';
  readonly events: (pieces: readonly Piece[]) => readonly object[];
  readonly blocks: (pieces: readonly Piece[]) => readonly Block[];
  /** What stands in the answer that a conversation has last. */
  readonly written: (messages: readonly TurnMessage[]) => readonly Block[];
}

const INPUT = '{"q":"x"}';
const halves = (text: string): readonly string[] => [text.slice(0, text.length >> 1), text.slice(text.length >> 1)];

const anthropicBlock = (piece: Piece, i: number): Block => {
  switch (piece.kind) {
    case 'text':
      return { type: 'text', text: piece.text };
    case 'thought':
      return { type: 'thinking', thinking: piece.text, signature: `signature ${String(i)}` };
    case 'sealed':
      return { type: 'redacted_thinking', data: `data ${String(i)}` };
    case 'call':
      return { type: 'tool_use', id: `call_${String(i)}`, name: 'read', input: { q: 'x' } };
  }
};

const anthropicEvents = (piece: Piece, index: number): readonly RawMessageStreamEvent[] => {
  const start = (content_block: object): RawMessageStreamEvent => ({
    type: 'content_block_start',
    index,
    content_block: content_block as never,
  });
  const delta = (of: object): RawMessageStreamEvent => ({ type: 'content_block_delta', index, delta: of as never });
  const stop: RawMessageStreamEvent = { type: 'content_block_stop', index };
  switch (piece.kind) {
    case 'text':
      return [start({ type: 'text', text: '' }), ...halves(piece.text).map((text) => delta({ type: 'text_delta', text })), stop];
    case 'thought': {
      const said = piece.text === '' ? [] : halves(piece.text).map((thinking) => delta({ type: 'thinking_delta', thinking }));
      const signed = delta({ type: 'signature_delta', signature: `signature ${String(index)}` });
      return [start({ type: 'thinking', thinking: '', signature: '' }), ...said, signed, stop];
    }
    case 'sealed':
      return [start({ type: 'redacted_thinking', data: `data ${String(index)}` }), stop];
    case 'call':
      return [
        start({ type: 'tool_use', id: `call_${String(index)}`, name: 'read', input: {} }),
        ...halves(INPUT).map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
        stop,
      ];
  }
};

const responsesBlock = (piece: Piece, i: number): Block => {
  switch (piece.kind) {
    case 'text':
      return { type: 'message', role: 'assistant', content: piece.text };
    case 'thought':
    case 'sealed':
      return {
        type: 'reasoning',
        id: `rs_${String(i)}`,
        summary: piece.kind === 'thought' ? [{ type: 'summary_text', text: piece.text }] : [],
        encrypted_content: `sealed ${String(i)}`,
      };
    case 'call':
      return { type: 'function_call', call_id: `call_${String(i)}`, name: 'read', arguments: INPUT };
  }
};

const responsesEvents = (piece: Piece, output_index: number): readonly ResponseStreamEvent[] => {
  const sequence_number = 0;
  const item = responsesBlock(piece, output_index);
  const added = { type: 'response.output_item.added', output_index, sequence_number, item: item as never } as const;
  const done = { type: 'response.output_item.done', output_index, sequence_number, item: item as never } as const;
  const about = { item_id: `item_${String(output_index)}`, output_index, sequence_number } as const;
  if (piece.kind === 'text') {
    const deltas = halves(piece.text).map(
      (delta) =>
        ({ type: 'response.output_text.delta' as const, delta, content_index: 0, logprobs: [], ...about }) satisfies ResponseStreamEvent,
    );
    return [added, ...deltas, done];
  }
  if (piece.kind !== 'call') return [{ ...added, item: { ...item, encrypted_content: '' } as never }, done];
  const args = halves(INPUT).map((delta) => ({ type: 'response.function_call_arguments.delta', delta, ...about }) as const);
  return [{ ...added, item: { ...item, arguments: '' } as never }, ...args, done];
};

const withoutSecret = (event: ResponseStreamEvent): object =>
  'item' in event ? { ...event, item: { ...event.item, encrypted_content: undefined } } : event;

const providers: readonly Provider[] = [
  {
    name: 'Anthropic',
    protocol: 'anthropic',
    events: (pieces) => [
      ...pieces.flatMap(anthropicEvents),
      { type: 'message_delta', delta: { stop_reason: pieces.some(({ kind }) => kind === 'call') ? 'tool_use' : 'end_turn' } },
    ],
    blocks: (pieces) => pieces.map(anthropicBlock),
    written: (messages) => toMessages(messages, 'anthropic').findLast(({ role }) => role === 'assistant')?.content as Block[],
  },
  {
    name: 'Responses',
    protocol: 'responses',
    events: (pieces) => [...pieces.flatMap(responsesEvents), { type: 'response.completed', response: {} }],
    blocks: (pieces) => pieces.map(responsesBlock),
    written: (messages) => {
      const items = toMessages(messages, 'responses').map(
        (item) => ('role' in item ? { ...item, type: 'message' } : item) as unknown as Block,
      );
      const own = items.filter(({ type, role }) => role !== 'user' && type !== 'function_call_output');
      return own;
    },
  },
  {
    name: 'Responses that encrypt at the end',
    protocol: 'responses',
    events: (pieces) => [
      ...pieces.flatMap(responsesEvents).map(withoutSecret),
      {
        type: 'response.completed',
        response: {
          output: pieces
            .map(responsesBlock)
            .map((item) => (item.type === 'message' ? { ...item, content: [{ text: item['content'] }] } : item)),
        },
      },
    ],
    blocks: (pieces) => pieces.map(responsesBlock),
    written: (messages) => {
      const items = toMessages(messages, 'responses').map(
        (item) => ('role' in item ? { ...item, type: 'message' } : item) as unknown as Block,
      );
      const own = items.filter(({ type, role }) => role !== 'user' && type !== 'function_call_output');
      return own;
    },
  },
];

const KINDS = new Set(['thinking', 'redacted_thinking', 'reasoning']);
const isOpaque = ({ type }: Block): boolean => KINDS.has(type);
const read = tool('read', () => 'done');

const opaque = fc.constantFrom<Piece>({ kind: 'thought', text: 'well, let me see' }, { kind: 'thought', text: '' }, { kind: 'sealed' });
/** An answer as models give it: thoughts anywhere, text before the calls, and no two texts side by side. */
const answers = fc
  .tuple(
    fc.array(opaque, { maxLength: 2 }),
    fc.option(fc.constant<Piece>({ kind: 'text', text: 'I look it up.' })),
    fc.array(opaque, { maxLength: 2 }),
  )
  .chain(([before, text, between]) =>
    fc
      .array(fc.oneof(opaque, fc.constant<Piece>({ kind: 'call' })), { maxLength: 5 })
      .map((rest) => [...before, ...(text ? [text] : []), ...between, ...rest]),
  );

/** Without what nothing follows. */
function cropped(blocks: readonly Block[]): readonly Block[] {
  return blocks.slice(0, blocks.findLastIndex((block) => !isOpaque(block)) + 1);
}

function expectTaken(messages: readonly TurnMessage[]): void {
  for (const protocol of ['chat', 'anthropic', 'responses'] as const)
    expect([protocol, messages.length === 0 ? [] : messageFaults(toMessages(messages, protocol), protocol)]).toEqual([protocol, []]);
  for (const message of messages) {
    if (message.role !== 'assistant' || !message.isCut) continue;
    for (const { afterCalls } of message.opaque ?? []) expect(afterCalls).toBeLessThan(message.toolCalls.length);
  }
}

describe.each(providers)('what $name wants back', ({ protocol, events, blocks, written }) => {
  const other = protocol === 'anthropic' ? 'responses' : 'anthropic';

  it('comes back as it was, in its place, at the next step and in the next turn, and after a reload', async () => {
    await fc.assert(
      fc.asyncProperty(answers, async (pieces) => {
        const given: (readonly TurnMessage[])[] = [];
        const turns = createAgentTurn({
          tools: createToolRunner({ tools: [read] }),
          model: (messages, { step }) => {
            given.push(messages);
            return step === 1 && given.length === 1 ? from(events(pieces)) : of('The end.');
          },
        });
        await whole(turns.ask('Read.'));
        const expected = cropped(blocks(pieces));
        const hasCalls = pieces.some(({ kind }) => kind === 'call');
        if (hasCalls) expect(written(given[1] as readonly TurnMessage[])).toEqual(expected);
        await whole(turns.ask('And now?'));
        const first = turns.history().slice(0, 2);
        if (expected.length > 0) expect(written(first)).toEqual(expected);
        expectTaken(turns.history());
        const later = createAgentTurn({
          tools: createToolRunner({ tools: [read] }),
          model: () => of('Later.'),
          history: JSON.parse(JSON.stringify(turns.history())) as TurnMessage[],
        });
        expect(later.history()).toEqual(turns.history());
        for (const foreign of [other, 'chat', 'ag-ui'] as const)
          expect(JSON.stringify(toMessages(turns.history(), foreign))).not.toMatch(/signature|sealed|data \d/);
      }),
      { numRuns: sized(15, 60) },
    );
  });

  it.each(['superseded', 'failed', 'stopped'] as const)(
    'wherever its answer is cut, a turn that is %s leaves a history that providers accept',
    async (how) => {
      await fc.assert(
        fc.asyncProperty(answers, fc.nat(), async (pieces, at) => {
          const all = events(pieces);
          const said = all.slice(0, at % all.length);
          const turns = createAgentTurn({
            tools: createToolRunner({ tools: [tool('read', () => NEVER)] }),
            model: (messages, { step }) => {
              expectTaken(messages);
              if (messages.at(-1)?.content === 'again' || step > 1) return of('The end.');
              return concat(from(said), how === 'failed' ? throwError(() => new Error('the model has failed')) : NEVER);
            },
          });
          turns.ask('Read.').subscribe();
          if (how === 'stopped') turns.stop();
          await whole(turns.ask('again'));
          expectTaken(turns.history());
          const cut = turns.history().find((message) => message.role === 'assistant' && message.isCut === true) as
            | AssistantMessage
            | undefined;
          // What was signed stands in front of a call that is answered, or is gone.
          for (const { afterCalls } of cut?.opaque ?? []) {
            const answered = { role: 'tool', toolCallId: cut?.toolCalls[afterCalls]?.id };
            expect(turns.history()).toContainEqual(expect.objectContaining(answered));
          }
        }),
        { numRuns: sized(20, 100) },
      );
    },
  );

  it('goes on after a reload in the middle of its calls, with what stood before them', async () => {
    const pieces: readonly Piece[] = [{ kind: 'thought', text: 'hm' }, { kind: 'call' }, { kind: 'sealed' }, { kind: 'call' }];
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [tool('read', () => NEVER)] }), model: () => from(events(pieces)) });
    turns.ask('Read.').subscribe();
    const saved = JSON.parse(JSON.stringify(turns.history('default', { open: true }))) as TurnMessage[];
    const given: (readonly TurnMessage[])[] = [];
    const later = createAgentTurn({
      tools: createToolRunner({ tools: [read] }),
      history: saved,
      model: (messages) => {
        given.push(messages);
        return of('The end.');
      },
    });
    await whole(later.resume());
    expect(written(given[0] as readonly TurnMessage[])).toEqual(blocks(pieces));
    turns.close();
  });
});

it('drops thinking without a signature, which providers would refuse', async () => {
  const thought = anthropicEvents({ kind: 'thought', text: 'hm' }, 0).filter((event) => !JSON.stringify(event).includes('signature_delta'));
  const turns = createAgentTurn({
    tools: createToolRunner({ tools: [read] }),
    model: (_messages, { step }) => (step === 1 ? from([...thought, ...anthropicEvents({ kind: 'call' }, 1)]) : of('The end.')),
  });
  await whole(turns.ask('Read.'));
  expect(turns.history().map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  expect(JSON.stringify(turns.history())).not.toContain('opaque');
});

describe('what an agent of AG-UI wants back', () => {
  /** Thoughts, a text and calls, each of which may have an encrypted value. */
  const aguiAnswers = fc.record({
    thoughts: fc.array(fc.record({ text: fc.constantFrom('', 'well, let me see'), isSealed: fc.boolean(), isShort: fc.boolean() }), {
      maxLength: 3,
    }),
    text: fc.record({ text: fc.constantFrom('', 'I look it up.'), isSealed: fc.boolean() }),
    calls: fc.array(fc.record({ id: fc.constantFrom('call', 'functions.read:0'), isSealed: fc.boolean(), isEarly: fc.boolean() }), {
      minLength: 1,
      maxLength: 3,
    }),
  });
  const sealed = (subtype: 'message' | 'tool-call', entityId: string) => ({
    type: 'REASONING_ENCRYPTED_VALUE',
    subtype,
    entityId,
    encryptedValue: `sealed ${entityId}`,
  });

  it('comes back where its client would keep it: with the thought, the answer and the call', async () => {
    await fc.assert(
      fc.asyncProperty(aguiAnswers, async ({ thoughts, text, calls }) => {
        const events = [
          ...thoughts.flatMap((thought, i) => {
            const messageId = `thought_${i}`;
            const deltas = thought.text === '' ? [] : halves(thought.text);
            const said = thought.isShort
              ? (deltas.length > 0 ? deltas : ['']).map((delta, at) => ({
                  type: 'REASONING_MESSAGE_CHUNK',
                  ...(at === 0 && { messageId }),
                  delta,
                }))
              : [
                  { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' },
                  ...deltas.map((delta) => ({ type: 'REASONING_MESSAGE_CONTENT', messageId, delta })),
                  { type: 'REASONING_MESSAGE_END', messageId },
                ];
            return [...said, ...(thought.isSealed ? [sealed('message', messageId)] : [])];
          }),
          ...halves(text.text).map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta })),
          ...(text.isSealed ? [sealed('message', 'm')] : []),
          ...calls.flatMap(({ id, isSealed, isEarly }, i) => {
            const toolCallId = `${id}${i}`;
            const value = isSealed ? [sealed('tool-call', toolCallId)] : [];
            return [
              { type: 'TOOL_CALL_START', toolCallId, toolCallName: 'read' },
              ...(isEarly ? value : []),
              ...halves(INPUT).map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId, delta })),
              { type: 'TOOL_CALL_END', toolCallId },
              ...(isEarly ? [] : value),
            ];
          }),
          { type: 'RUN_FINISHED', threadId: 't', runId: 'r' },
        ];
        const turns = createAgentTurn({
          tools: createToolRunner({ tools: [read] }),
          model: (_messages, { step }) => (step === 1 ? from(events) : of('The end.')),
        });
        await whole(turns.ask('Read.'));
        const saved = JSON.parse(JSON.stringify(turns.history())) as TurnMessage[];
        const messages = toMessages(
          createAgentTurn({ tools: createToolRunner({ tools: [read] }), model: () => of(''), history: saved }).history(),
          'ag-ui',
        );
        const own = messages.slice(
          1,
          messages.findIndex(({ role }) => role === 'tool'),
        );
        const valueOf = (isSealed: boolean, id: string) => (isSealed ? { encryptedValue: `sealed ${id}` } : {});
        expect(own).toEqual([
          ...thoughts.flatMap((thought, i) =>
            thought.isSealed ? [{ id: `thought_${i}`, role: 'reasoning', content: thought.text, ...valueOf(true, `thought_${i}`) }] : [],
          ),
          {
            id: 'message_2',
            role: 'assistant',
            content: text.text,
            toolCalls: calls.map(({ id, isSealed }, i) => ({
              id: `${id}${i}`.replace(/[.:]/g, '_'),
              type: 'function',
              function: { name: 'read', arguments: INPUT },
              ...valueOf(isSealed, `${id}${i}`),
            })),
            ...valueOf(text.isSealed, 'm'),
          },
        ]);
        for (const message of own) expect(MessageSchema.safeParse(message).success).toBe(true);
        for (const foreign of ['chat', 'anthropic', 'responses'] as const)
          expect(JSON.stringify(toMessages(turns.history(), foreign))).not.toContain('sealed');
      }),
      { numRuns: sized(20, 100) },
    );
  });
});

it('what is said in no shape there is costs no turn its end, and no conversation its history', async () => {
  const anything = fc.anything({ maxDepth: 2 });
  const odd = fc.oneof(
    fc.record({ type: fc.constant('opaque'), protocol: anything, block: anything }),
    fc.record({
      type: fc.constant('response.completed'),
      response: fc.record({
        output: fc.array(
          fc.oneof(
            anything,
            fc.record({
              type: fc.constantFrom('message', 'reasoning', 'function_call'),
              content: fc.oneof(anything, fc.array(fc.record({ text: anything }))),
              encrypted_content: anything,
            }),
          ),
        ),
      }),
    }),
    fc.record({
      type: fc.constant('REASONING_ENCRYPTED_VALUE'),
      subtype: anything,
      entityId: anything,
      encryptedValue: fc.oneof(anything, fc.string()),
    }),
    fc.record({ type: fc.constantFrom('REASONING_MESSAGE_START', 'REASONING_MESSAGE_CHUNK'), messageId: anything, delta: anything }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(odd, { maxLength: 4 }), async (events) => {
      const turns = createAgentTurn({
        tools: createToolRunner({ tools: [read] }),
        model: (_messages, { step }) => (step === 1 ? from([...events, 'Well.']) : of('The end.')),
      });
      const told = await whole(turns.ask('Read.'));
      expect(['finished', 'failed']).toContain(told.at(-1)?.type);
      for (const protocol of ['chat', 'anthropic', 'responses', 'ag-ui'] as const) toMessages(turns.history(), protocol);
    }),
    { numRuns: sized(40, 300) },
  );
});
