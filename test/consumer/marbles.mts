import { delay, map, type Observable } from 'rxjs';
import {
  type AnthropicOptions,
  anthropic,
  type AssertEqual,
  type AzureOptions,
  azure,
  checkLaws,
  creditStoreLaws,
  createWorker,
  draw,
  drawSvg,
  type FakeProvider,
  type FakeProviderCall,
  FakeProviderError,
  type FakeProviderOptions,
  fakeProvider,
  type GeminiOptions,
  gemini,
  type LawSubject,
  type LeakCheck,
  type LeakCheckOptions,
  leakCheck,
  type MarbleSpec,
  type MarbleTest,
  type OpenAIOptions,
  openai,
  type ProviderAnswer,
  type ProviderBooks,
  type ProviderOptions,
  type ProviderPreset,
  type ProviderQuestion,
  type ProviderSimulation,
  type Recording,
  type Run,
  record,
  renderText,
  runSpec,
  type SpecKit,
  type StoreLawOptions,
  type StoreUnderTest,
  seededRandom,
  type VirtualClock,
  virtualTime,
  type Worker,
  type WorkerCall,
  type WorkerOptions,
} from 'sluice/marbles';
import { batch, memoryStore } from 'sluice/operators';

// Specs, drawings and runs
const build = ({ input, scheduler }: SpecKit) => input('source').pipe(delay(1, scheduler));
const test: MarbleTest = { inputs: { source: '-a-|' }, expected: '--a-|', build };
const lanes = { input: 'source', names: ['one'], of: () => 'one' };
const spec: MarbleSpec = { ...test, operator: 'delay', title: 'late', label: 'delay(1)', lanes };
const picture = { inputs: { source: '-a-|' }, build, operator: 'delay', title: 'late', label: 'delay(1)' };
const assertEqual: AssertEqual = (actual, expected) => actual === expected;
same<Recording>()(runSpec(spec, assertEqual));
same<Recording>()(record(picture));
const run: Run = record(picture).result;

// Virtual time and randomness
same<number>()(virtualTime(({ advance, now }: VirtualClock) => {
  advance(1000);
  return now();
}));
same<() => number>()(seededRandom(1));

// Laws
const subject: LawSubject<number[]> = { operator: 'batch', create: () => batch({ maxSize: 2 }), holdsAtMost: 2, itemsOf: (items) => items };
same<readonly string[]>()(checkLaws(subject));

// Laws of a store
const tested = (): StoreUnderTest => ({ store: memoryStore(), advance: (ms: number) => void ms, restart: () => memoryStore(), close: () => undefined });
const lawOptions: StoreLawOptions = { name: 'own', seed: 1, schedules: 1, windowMs: 1000, only: [] };
same<Promise<readonly string[]>>()(creditStoreLaws(tested, lawOptions));

// Leaks
const holder = { inFlight: 0 };
const leakOptions: LeakCheckOptions = { holders: { holder } };
const leaks: LeakCheck = leakCheck(leakOptions);
same<readonly string[]>()(leaks.left());
leaks[Symbol.dispose]();

// Workers and providers
const workerOptions: WorkerOptions<readonly string[], number[]> = { marbles: '--r|', answer: (items) => items.map(({ length }) => length) };
const worker: Worker<readonly string[], number[]> = createWorker(workerOptions);
same<Observable<number[]>>()(worker.work(['a']));
const calls: readonly WorkerCall<readonly string[]>[] = worker.calls;
const first: WorkerCall<readonly string[]> = calls[0];
same<'running' | 'ok' | 'failed' | 'cancelled'>()(first.outcome);

const errorRate = { throttled: 0.1 };
const latencyMs = { base: 20, perItem: 1 };
const providerOptions: FakeProviderOptions<string, number> = {
  answer: ({ length }) => length,
  errorRate,
  latencyMs,
  seed: 1,
};
const provider: FakeProvider<string, number> = fakeProvider(providerOptions);
const context = { signal: new AbortController().signal };
void provider.work(['a'], context);
const made: readonly FakeProviderCall<string>[] = provider.calls;
same<Observable<string>>()(provider.workOne('a').pipe(map(String)));
export const refusal: number | undefined = new FakeProviderError('slow down', 429).status;

// Providers with rules and books of their own
const anthropicLimits = { requestsPerMinute: 50 };
const anthropicOptions: AnthropicOptions = { ...anthropicLimits, outputCharged: 'onArrival', models: { haiku: anthropicLimits } };
const openaiLimits = { tokensPerMinute: 30_000 };
const openaiOptions: OpenAIOptions = { ...openaiLimits, charge: 'sum' };
const azureLimits = { tokensPerMinute: 10_000 };
const azureOptions: AzureOptions = { ...azureLimits, sliceMs: 1000 };
const day = { timeZone: 'America/Los_Angeles', hour: 0 };
const geminiLimits = { requestsPerDay: 20 };
const geminiOptions: GeminiOptions = { ...geminiLimits, dayStartsAt: day };
export const presets: readonly ProviderPreset[] = [anthropic(anthropicOptions), openai(openaiOptions), azure(azureOptions), gemini(geminiOptions)];
const faults = { refuseForMs: 1000 };
const answered: ProviderAnswer = { text: 'yes', outputTokens: 1 };
const rulesOptions: ProviderOptions = { provider: presets[0], answer: ({ number }: ProviderQuestion) => (number === 1 ? answered : 'no'), faults };
const simulation: ProviderSimulation = fakeProvider(rulesOptions);
const body = { model: 'claude', max_tokens: 1 };
const asked = { path: '/v1/messages', body };
same<Observable<unknown>>()(simulation.workOne(body));
const books: ProviderBooks = simulation.booksOf('haiku');
const unit = 'outputTokens';
const fullest = books.fullest(unit, 60_000);
const snapshot = { rates: [{ unit, left: fullest.used }] };
const ours = snapshot;
const compared = books.difference(ours)[unit];
const entries = books.history('req_1');
const seen = simulation.calls;
export const sum: number = entries.length + (compared?.difference ?? 0);
