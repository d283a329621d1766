export type { CallRecord } from './call-log.js';
export { draw, drawSvg } from './draw.js';
export type {
  FakeContext,
  FakeErrorRate,
  FakeFate,
  FakeLatency,
  FakeProvider,
  FakeProviderCall,
  FakeProviderOptions,
} from './fake-provider.js';
export { FakeProviderError, fakeProvider } from './fake-provider.js';
export type { Law, LawSubject } from './laws.js';
export { checkLaws, LawBrokenError, laws } from './laws.js';
export type { LeakCheck, LeakCheckOptions, LeakHolder } from './leak-check.js';
export { LeakError, leakCheck } from './leak-check.js';
export type { AnthropicLimits, AnthropicOptions } from './providers/anthropic.js';
export { anthropic } from './providers/anthropic.js';
export type { AzureLimits, AzureOptions } from './providers/azure.js';
export { azure } from './providers/azure.js';
export type { BookDifference, BookEntry, ClientBooks, ClientSnapshot, FullestWindow, ProviderBooks } from './providers/books.js';
export type { GeminiDay, GeminiLimits, GeminiOptions } from './providers/gemini.js';
export { gemini } from './providers/gemini.js';
export type { OpenAILimits, OpenAIOptions } from './providers/openai.js';
export { openai } from './providers/openai.js';
export type {
  ProviderAnswer,
  ProviderBody,
  ProviderCall,
  ProviderEvent,
  ProviderFate,
  ProviderFaults,
  ProviderOptions,
  ProviderPreset,
  ProviderQuestion,
  ProviderReply,
  ProviderRequest,
  ProviderSimulation,
} from './providers/types.js';
export type { ProviderUnit } from './providers/units.js';
export { seededRandom } from './random.js';
export { renderSvg } from './render-svg.js';
export { renderPage, renderText } from './render-text.js';
export type { AssertEqual } from './run.js';
export { MarbleMismatchError, record, runSpec } from './run.js';
export type { MarblePicture, MarbleSpec, MarbleTest, Mark, Recording, Run, SpecKit, SpecLanes } from './spec.js';
export type { VirtualClock } from './virtual.js';
export { virtualTime } from './virtual.js';
export type { Worker, WorkerCall, WorkerOptions } from './worker.js';
export { createWorker } from './worker.js';
