// AG-UI through operators: questions → the newest run → merged events → a store → a hook.
import { HttpAgent } from '@ag-ui/client';
import { catchError, map, of, Subject, scan } from 'rxjs';
import { switchLatest, toStore } from '../../../operators/index.js';
import { aguiFlow, run$ } from '../../../src/adapters/ag-ui.js';
import { useFlowValue } from '../../../src/frontend/react.js';
import { agentUrl, history, pace, show, Transcript } from './chat.js';

interface Event {
  readonly type: string;
  readonly delta?: string;
}
interface Answer {
  readonly text: string;
  readonly status: string;
}

const STATUS: Readonly<Record<string, string>> = { RUN_STARTED: 'running', RUN_FINISHED: 'finished', RUN_ERROR: 'failed' };
const agent = new HttpAgent({ url: agentUrl('ag-ui'), fetch: aguiFlow().fetch });
const asks = new Subject<string | undefined>();

const answer = (question: string, signal: AbortSignal) => {
  const messages = [...history, { id: crypto.randomUUID(), role: 'user' as const, content: question }];
  const input = { threadId: 'thread', runId: crypto.randomUUID(), messages, tools: [], context: [], state: {}, forwardedProps: {} };
  return run$(agent, input, { signal }).pipe(
    map((event) => event as Event),
    // A run that fails is an event: it must not end the answers to the questions after it.
    catchError(() => of<Event>({ type: 'RUN_ERROR' })),
    scan(
      ({ text, status }, { type, delta }): Answer => ({
        text: type === 'TEXT_MESSAGE_CONTENT' ? text + (delta ?? '') : text,
        status: STATUS[type] ?? status,
      }),
      { text: '', status: 'running' },
    ),
  );
};
const answers = asks.pipe(
  switchLatest((question, { signal }) => (question === undefined ? of({ text: '', status: 'stopped' }) : answer(question, signal))),
);
const store = toStore(answers, { text: '', status: 'idle' }, { ...pace, keepAliveMs: 50 });

const Page = () => <Transcript {...useFlowValue(store)} />;

show(<Page />, {
  send: (text) => {
    asks.next(text);
  },
  stop: () => {
    asks.next(undefined);
  },
});
