import { delay, map, type Observable } from 'rxjs';
import {
  type AnthropicLimits,
  type AnthropicOptions,
  anthropic,
  type AssertEqual,
  type AzureLimits,
  type AzureOptions,
  azure,
  type BookDifference,
  type BookEntry,
  type CallRecord,
  type ClientBooks,
  type ClientSnapshot,
  checkLaws,
  createWorker,
  draw,
  drawSvg,
  type FakeErrorRate,
  type FakeFate,
  type FakeLatency,
  type FakeContext,
  type FakeProvider,
  type FakeProviderCall,
  FakeProviderError,
  type FakeProviderOptions,
  type FullestWindow,
  fakeProvider,
  type GeminiDay,
  type GeminiLimits,
  type GeminiOptions,
  gemini,
  type Law,
  LawBrokenError,
  type LawSubject,
  LeakError,
  type LeakCheck,
  type LeakCheckOptions,
  type LeakHolder,
  laws,
  leakCheck,
  MarbleMismatchError,
  type MarblePicture,
  type MarbleSpec,
  type MarbleTest,
  type Mark,
  type OpenAILimits,
  type OpenAIOptions,
  openai,
  type ProviderAnswer,
  type ProviderBody,
  type ProviderBooks,
  type ProviderCall,
  type ProviderEvent,
  type ProviderFate,
  type ProviderFaults,
  type ProviderOptions,
  type ProviderPreset,
  type ProviderQuestion,
  type ProviderReply,
  type ProviderRequest,
  type ProviderSimulation,
  type ProviderUnit,
  type Recording,
  type Run,
  record,
  renderPage,
  renderSvg,
  renderText,
  runSpec,
  type SpecKit,
  type SpecLanes,
  seededRandom,
  type VirtualClock,
  virtualTime,
  type Worker,
  type WorkerCall,
  type WorkerOptions,
} from 'sluice/marbles';
import { batch } from 'sluice/operators';

// Specs, drawings and runs
const build = ({ input, scheduler }: SpecKit) => input('source').pipe(delay(1, scheduler));
const test: MarbleTest = { inputs: { source: '-a-|' }, expected: '--a-|', build };
const lanes: SpecLanes = { input: 'source', names: ['one'], of: () => 'one' };
const spec: MarbleSpec = { ...test, operator: 'delay', title: 'late', label: 'delay(1)', lanes };
const picture: MarblePicture = { inputs: { source: '-a-|' }, build, operator: 'delay', title: 'late', label: 'delay(1)' };
const assertEqual: AssertEqual = (actual, expected) => actual === expected;
same<Recording>()(runSpec(spec, assertEqual));
same<Recording>()(record(picture));
same<string>()(draw(picture) + drawSvg(picture) + renderText(picture, record(picture)) + renderSvg(picture, record(picture)));
same<string>()(renderPage('specs', [{ title: 'late', text: draw(picture) }]));
const run: Run = record(picture).result;
same<readonly Mark[]>()(run.marks);

export function lastFrame(marks: readonly Mark[]): number {
  return marks.at(-1)?.frame ?? 0;
}

export function mismatch(error: unknown): string {
  return error instanceof MarbleMismatchError ? `${error.problem} ${error.recording.leftBehind}` : 'another';
}

// Virtual time and randomness
same<number>()(virtualTime(({ advance, now }: VirtualClock) => {
  advance(1000);
  return now();
}));
same<() => number>()(seededRandom(1));

// Laws
const subject: LawSubject<number[]> = { operator: 'batch', create: () => batch({ maxSize: 2 }), holdsAtMost: 2, itemsOf: (items) => items };
same<readonly string[]>()(checkLaws(subject));
same<readonly Law[]>()(laws);
export const broken: Error = new LawBrokenError('batch', 'a law', 'a problem');

// Leaks
const holder: LeakHolder = { inFlight: 0 };
const leakOptions: LeakCheckOptions = { holders: { holder } };
const leaks: LeakCheck = leakCheck(leakOptions);
same<readonly string[]>()(leaks.left());
leaks[Symbol.dispose]();
export const leak: readonly string[] = new LeakError(['a timer']).left;

// Workers and providers
const workerOptions: WorkerOptions<readonly string[], number[]> = { marbles: '--r|', answer: (items) => items.map(({ length }) => length) };
const worker: Worker<readonly string[], number[]> = createWorker(workerOptions);
same<Observable<number[]>>()(worker.work(['a']));
const calls: readonly WorkerCall<readonly string[]>[] = worker.calls;
const first: CallRecord<readonly string[]> = calls[0];
same<'running' | 'ok' | 'failed' | 'cancelled'>()(first.outcome);

const errorRate: FakeErrorRate = { throttled: 0.1 };
const latencyMs: FakeLatency = { base: 20, perItem: 1 };
const providerOptions: FakeProviderOptions<string, number> = {
  answer: ({ length }) => length,
  errorRate,
  latencyMs,
  seed: 1,
};
const provider: FakeProvider<string, number> = fakeProvider(providerOptions);
const context: FakeContext = { signal: new AbortController().signal };
void provider.work(['a'], context);
const made: readonly FakeProviderCall<string>[] = provider.calls;
same<FakeFate[]>()(made.map(({ fate }) => fate));
same<Observable<string>>()(provider.workOne('a').pipe(map(String)));
export const refusal: number | undefined = new FakeProviderError('slow down', 429).status;

// Providers with rules and books of their own
const anthropicLimits: AnthropicLimits = { requestsPerMinute: 50 };
const anthropicOptions: AnthropicOptions = { ...anthropicLimits, outputCharged: 'onArrival', models: { haiku: anthropicLimits } };
const openaiLimits: OpenAILimits = { tokensPerMinute: 30_000 };
const openaiOptions: OpenAIOptions = { ...openaiLimits, charge: 'sum' };
const azureLimits: AzureLimits = { tokensPerMinute: 10_000 };
const azureOptions: AzureOptions = { ...azureLimits, sliceMs: 1000 };
const day: GeminiDay = { timeZone: 'America/Los_Angeles', hour: 0 };
const geminiLimits: GeminiLimits = { requestsPerDay: 20 };
const geminiOptions: GeminiOptions = { ...geminiLimits, dayStartsAt: day };
export const presets: readonly ProviderPreset[] = [anthropic(anthropicOptions), openai(openaiOptions), azure(azureOptions), gemini(geminiOptions)];
const faults: ProviderFaults = { refuseForMs: 1000 };
const answered: ProviderAnswer = { text: 'yes', outputTokens: 1 };
const rulesOptions: ProviderOptions = { provider: presets[0], answer: ({ number }: ProviderQuestion) => (number === 1 ? answered : 'no'), faults };
const simulation: ProviderSimulation = fakeProvider(rulesOptions);
const body: ProviderBody = { model: 'claude', max_tokens: 1 };
const asked: ProviderRequest = { path: '/v1/messages', body };
same<Observable<ProviderEvent>>()(simulation.request(asked));
same<Observable<ProviderReply>>()(simulation.send(asked));
same<Observable<unknown>>()(simulation.workOne(body));
const books: ProviderBooks = simulation.booksOf('haiku');
const unit: ProviderUnit = 'outputTokens';
const fullest: FullestWindow = books.fullest(unit, 60_000);
const snapshot: ClientSnapshot = { rates: [{ unit, left: fullest.used }] };
const ours: ClientBooks = snapshot;
const compared: BookDifference | undefined = books.difference(ours)[unit];
const entries: readonly BookEntry[] = books.history('req_1');
const seen: readonly ProviderCall[] = simulation.calls;
same<ProviderFate[]>()(seen.map(({ fate }) => fate));
export const sum: number = entries.length + (compared?.difference ?? 0);
