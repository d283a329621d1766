import { HttpAgent, type RunAgentInput } from '@ag-ui/client';
import type { Observable } from 'rxjs';
import { createToolRunner } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type AbandonedRun,
  type AguiAgent,
  type AguiEvent,
  type AguiFetch,
  type AguiFlow,
  type AguiFlowEvent,
  type AguiFlowOptions,
  type AguiInput,
  type AguiMiddleware,
  type AguiNext,
  type AguiOutcome,
  type AguiStream,
  type AguiTools,
  aguiFlow,
  coalesceEvents,
  type DeltaOptions,
  type EventOf,
  type RunOptions,
  run$,
} from 'sluice/ag-ui';

declare const input: RunAgentInput;
const tools: AguiTools = createToolRunner({ tools: [] });
const coalesce: DeltaOptions = { pace: 'frame' };
const send: AguiFetch = (url, init) => fetch(url, init);
const onSupersede = ({ runId }: AbandonedRun) => runId;
const options: AguiFlowOptions = { fetch: send, tools, coalesce, onSupersede, limiter: createLimiter(), job: ({ runId }) => ({ id: runId }), cancelledAs: 'error' };
const flow: AguiFlow = aguiFlow(options);
const agent = new HttpAgent({ url: 'https://host', fetch: flow.fetch });
agent.use(flow.coalesce, flow.switchRuns, flow.runTools, (given, next) => next.run(given).pipe(coalesceEvents(coalesce)));

type Theirs = ReturnType<HttpAgent['run']>;
const own: AguiAgent<RunAgentInput, Theirs> = agent;
const next: AguiNext<RunAgentInput, Theirs> = agent;
const stream: AguiStream = agent.run(input);
const each: AguiMiddleware = flow.coalesce;
const given: RunOptions & AguiInput = { threadId: 't', runId: 'r' };
const outcome: AguiOutcome = 'finished';
same<Observable<EventOf<Theirs>>>()(run$(own, input, given));
same<Theirs>()(each(input, next));
same<Observable<AguiFlowEvent>>()(flow.events);
export const seen: (AguiEvent | AguiStream | AguiOutcome)[] = [{ type: 'A' }, stream, outcome];
