// The example of docs/guides/own-pipeline.md, as a stranger pastes it.
import { mergeMap, Observable } from 'rxjs';
import { ClosedError, createBatcher, type Limiter, type PolicyOptions, policy, retryFailed } from 'sluice/operators';
import { AbortCalls, check, connect, type Shutdown, ShutdownHandle, teller } from 'sluice/operators/build';

export interface TranslatorOptions extends Pick<PolicyOptions, 'deadlineMs' | 'onEvent' | 'scheduler'> {
  readonly moderate: (texts: readonly string[]) => Promise<boolean[]>; // whether each text may be translated
  readonly translate: (text: string, signal: AbortSignal) => Promise<string>;
  readonly limiter: Limiter; // permits of both kinds of calls
}
const NAME = 'Translator';
const FUNCTIONS = { moderate: check.requiredFunction, translate: check.requiredFunction, onEvent: check.callback };
const CHECKS = { ...FUNCTIONS, limiter: check.requiredLimiter, deadlineMs: check.durationMs, scheduler: check.scheduler };

export class Translator extends ShutdownHandle {
  protected override readonly shutdown: Shutdown;
  readonly translate: (text: string, signal?: AbortSignal) => Observable<string>;

  constructor(options: TranslatorOptions) {
    super();
    const { moderate, translate, limiter, deadlineMs, onEvent, scheduler } = check.options(NAME, options, { deadlineMs: 30_000 }, CHECKS);
    const verdicts = createBatcher(moderate, { operator: NAME, limiter, scheduler, maxSize: 20 });
    const calls = policy({ operator: NAME, limiter, scheduler, retry: retryFailed({ maxShare: 0.2 }) });
    const tell = teller(NAME, { onEvent }, () => scheduler.now());
    const signals = new AbortCalls();
    const open = new Set<{ wasSent: boolean; fail: (error: unknown) => void }>(); // accepted, and without a result
    const rest = () => { if (this.shutdown.isClosed && open.size === 0 && this.shutdown.finish()) tell?.({ type: 'drained' }); };
    const abort = (error: unknown) => {
      for (const item of open) { this.shutdown.count(item.wasSent ? 'aborted' : 'dropped'); item.fail(error); }
      rest();
    };
    this.shutdown = this.shutdownOf({ operator: NAME, scheduler, stop: rest, abort });
    this.translate = (text, signal) => new Observable((subscriber) => {
      const item = { wasSent: false, fail: (error: unknown) => { subscriber.error(error); } };
      if (this.shutdown.isClosed) item.fail(new ClosedError(NAME));
      else if (signal) signals.stop(signal, subscriber, item.fail);
      if (subscriber.closed) return;
      const endsAt = scheduler.now() + deadlineMs;
      open.add(item);
      subscriber.add(() => { open.delete(item); rest(); });
      tell?.({ type: 'accepted', lane: check.defaultLane, queued: open.size });
      if (subscriber.closed) return; // the listener has closed this handle
      const result = verdicts.load(text, { deadlineMs }).pipe(mergeMap((mayPass) => {
        if (!mayPass) throw new Error('refused by moderation');
        const leftMs = Math.max(0, endsAt - scheduler.now());
        return calls((attempt) => { item.wasSent = true; return translate(text, attempt.signal); }, { deadlineMs: leftMs });
      }));
      connect(result, subscriber, {
        next: (translation) => { subscriber.next(translation); },
        error: (error) => { this.shutdown.count('done'); item.fail(error); },
        complete: () => { this.shutdown.count('done'); subscriber.complete(); },
      });
    });
  }
}

declare const options: TranslatorOptions;
const translator = new Translator(options);
same<Observable<string>>()(translator.translate('hello', new AbortController().signal));
same<Promise<number>>()(
  translator.drain().then(({ done, aborted, dropped }) => done + aborted + dropped),
);
same<Translator>()(translator.shutdownOn(new AbortController().signal, { timeoutMs: 1000 }));
translator.close();
// @ts-expect-error -- only the handle itself reads its shutdown
translator.shutdown;
