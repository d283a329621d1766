import { Observable, type SchedulerLike } from 'rxjs';
import type { FlowEvent, Limiter, Store } from 'sluice/operators';
import {
  AbortCalls,
  Alarm,
  ask,
  check,
  connect,
  type Evidence,
  evidenceOf,
  type HeaderReader,
  headerReader,
  listenTo,
  onAbort,
  openPull,
  type Pull,
  report,
  type Shutdown,
  ShutdownHandle,
  type ShutdownHost,
  selectFrom,
  streamOf,
  type Teller,
  teller,
  type Trampoline,
  trampoline,
} from 'sluice/operators/build';

declare const scheduler: SchedulerLike;
declare const limiter: Limiter;
declare const signal: AbortSignal;
declare const users: Store<{ readonly name: string }>;

// Options and callbacks
interface Options {
  readonly maxSize?: number;
  readonly mode?: 'fast' | 'exact';
  readonly limiter?: Limiter;
  readonly onEvent?: (event: FlowEvent) => void;
  readonly scheduler?: SchedulerLike;
}
const read = (options: Options) =>
  check.options(
    'createThing',
    options,
    { maxSize: 10, mode: 'fast' as const },
    {
      maxSize: check.count,
      mode: check.oneOf('fast', 'exact'),
      limiter: check.limiter,
      onEvent: check.callback,
      scheduler: check.scheduler,
    },
  );
const { maxSize, limiter: shared, scheduler: clock } = read({ limiter });
same<number>()(maxSize);
same<Limiter | undefined>()(shared);
same<SchedulerLike>()(clock);
same<number>()(ask('createThing', 'weigh', (text: string) => text.length, 'a'));

// Calls and signals
const signals = new AbortCalls((endAll) => endAll());
same<() => void>()(onAbort(signal, () => undefined));

// Streams
export const steps = new Observable((subscriber) => {
  const run: Trampoline = trampoline(subscriber);
  run((text) => subscriber.next(text), 'a');
});
const doubled = (source: Observable<number>) =>
  new Observable<number>((subscriber) => {
    signals.stop(signal, subscriber, (reason) => subscriber.error(reason));
    connect(source, subscriber, { next: (value) => subscriber.next(2 * value) });
  });
same<Observable<number>>()(doubled(new Observable<number>()));
same<Observable<string> | undefined>()(streamOf<string>({}));
const pull: Pull = openPull(['a', 'b'], { room: () => true, next: (item: string) => item, done: () => undefined, failed: report });
pull.resume();
same<Store<string>>()(selectFrom(users, ({ name }) => name));

// Time, events, errors, headers
const alarm = new Alarm(scheduler, () => undefined);
alarm.setBy(alarm.now() + 5);
const tell: Teller | undefined = teller('createThing', { name: 'one' }, () => alarm.now());
same<FlowEvent | undefined>()(tell?.({ type: 'accepted', lane: check.defaultLane, queued: 1 }));
same<() => void>()(listenTo(limiter, { event: (event) => event.type, ended: report }));
const [evidence]: readonly Evidence[] = evidenceOf(new Error('busy'));
same<number | undefined>()(evidence?.status);
const header: HeaderReader = headerReader({ 'retry-after': '1' });
same<HeaderReader | undefined>()(headerReader({ get: (name: string) => name }, 'ratelimit'));
same<string | undefined>()(header('retry-after'));

// A handle
class Thing extends ShutdownHandle implements Pick<ShutdownHost, 'stop' | 'abort'> {
  protected override readonly shutdown: Shutdown = this.shutdownOf({
    operator: 'createThing',
    scheduler,
    stop: () => this.stop(),
    abort: (error) => this.abort(error),
  });

  stop(): void {
    this.shutdown.finish();
  }

  abort(error: unknown): void {
    report(error);
    this.shutdown.count('aborted', 2);
    this.stop();
  }
}
same<Promise<void>>()(new Thing()[Symbol.asyncDispose]());
