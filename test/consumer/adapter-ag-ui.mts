import { HttpAgent, type RunAgentInput } from '@ag-ui/client';
import type { Observable } from 'rxjs';
import { createToolRunner } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type AbandonedRun,
  type AguiAgent,
  type AguiEvent,
  type AguiFlow,
  type AguiFlowEvent,
  type AguiFlowOptions,
  type AguiInput,
  type AguiMiddleware,
  type AguiStream,
  aguiFlow,
  coalesceEvents,
  type DeltaOptions,
  run$,
} from 'sluice/ag-ui';

declare const input: RunAgentInput;
const tools = createToolRunner({ tools: [] });
const coalesce: DeltaOptions = { pace: 'frame' };
const onSupersede = ({ runId }: AbandonedRun) => runId;
const options: AguiFlowOptions = {
  fetch: (url, init) => fetch(url, init),
  tools,
  coalesce,
  onSupersede,
  limiter: createLimiter(),
  job: ({ runId }) => ({ id: runId }),
  cancelledAs: 'error',
};
const flow: AguiFlow = aguiFlow(options);
const agent = new HttpAgent({ url: 'https://host', fetch: flow.fetch });
agent.use(flow.coalesce, flow.switchRuns, flow.runTools, (given, next) => next.run(given).pipe(coalesceEvents(coalesce)));

type Theirs = ReturnType<HttpAgent['run']>;
const own: AguiAgent<RunAgentInput, Theirs> = agent;
const stream: AguiStream = agent.run(input);
const each: AguiMiddleware = flow.coalesce;
export const given: AguiInput = { threadId: 't', runId: 'r' };
same<Theirs>()(each(input, agent));
same<Observable<AguiFlowEvent>>()(flow.events);
run$(own, input, { signal: new AbortController().signal }).subscribe();
export const seen: (AguiEvent | AguiStream)[] = [{ type: 'A' }, stream];
