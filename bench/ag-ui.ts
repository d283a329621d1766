import type { BaseEvent, Message } from '@ag-ui/client';
import { EventType, HttpAgent } from '@ag-ui/client';
import { filter } from 'rxjs';
import { aguiFlow } from '../src/adapters/ag-ui.js';
import type { Case } from './harness.js';
import { assertCount, numbers } from './harness.js';

/** What `pipe` takes. */
type Same<O> = (source: O) => O;

const DELTAS = 2000;
const HISTORY = 40;
/** As a socket hands it on. */
const READ_BYTES = 16_384;

const history: readonly Message[] = numbers(HISTORY).map((i) => ({
  id: `h${String(i)}`,
  role: i % 2 === 0 ? 'user' : 'assistant',
  content: `What was said before, in a few words, the ${String(i)}th time.`,
}));

/** The body of a run: one message of many deltas. */
function makeBody(): Uint8Array {
  const text = numbers(DELTAS).map((i) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: `word${String(i)} ` }));
  const events = [
    { type: 'RUN_STARTED', threadId: 't', runId: 'r' },
    { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' },
    ...text,
    { type: 'TEXT_MESSAGE_END', messageId: 'm' },
    { type: 'RUN_FINISHED', threadId: 't', runId: 'r' },
  ];
  return new TextEncoder().encode(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
}

const whole = makeBody();
const letters = numbers(DELTAS).reduce((sum, i) => sum + `word${String(i)} `.length, 0);

/** A server without a socket: what the client does with the answer is what is measured. */
const answering = (body: Uint8Array) => () => {
  let at = 0;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      // Every read is a turn of its own.
      await new Promise((resolve) => setImmediate(resolve));
      controller.enqueue(body.subarray(at, (at += READ_BYTES)));
      if (at >= body.length) controller.close();
    },
  });
  return Promise.resolve(new Response(stream as unknown as BodyInit));
};

async function run(agent: HttpAgent, want: number): Promise<void> {
  agent.setMessages([...history]);
  await agent.runAgent({ runId: 'r' });
  const text = agent.messages.at(-1)?.content;
  assertCount('letters', typeof text === 'string' ? text.length : NaN, want);
}

const flow = aguiFlow({ fetch: answering(whole) });
const piped = new HttpAgent({ url: 'https://host', fetch: flow.fetch }).use(flow.coalesce, flow.switchRuns, flow.runTools);
const alone = new HttpAgent({ url: 'https://host', fetch: answering(whole) });
/** The floor: all of it is read and parsed, and none of its text goes on. */
const silent = new HttpAgent({ url: 'https://host', fetch: answering(whole) }).use((input, next) => {
  const events = next.run(input);
  // The client has an RxJS of its own.
  return events.pipe(filter(({ type }: BaseEvent) => type !== EventType.TEXT_MESSAGE_CONTENT) as unknown as Same<typeof events>);
});

export const agUi: Case = {
  title: `one run of an agent of AG-UI: deltas of a message, ${String(HISTORY)} messages before it`,
  n: DELTAS,
  contestants: {
    'HttpAgent alone': () => run(alone, letters),
    'sluice/ag-ui': () => run(piped, letters),
    'its text left out': () => run(silent, 0),
  },
  gates: [
    { of: 'sluice/ag-ui', to: 'HttpAgent alone', most: 0.25 },
    { of: 'sluice/ag-ui', to: 'its text left out', most: 2.5 },
  ],
};
