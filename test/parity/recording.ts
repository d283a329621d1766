import type { ObservableInput, OperatorFunction } from 'rxjs';
import { NEVER, Observable } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';

export type Project = (item: string, index: number) => ObservableInput<unknown>;
export type Operator = (project: Project) => OperatorFunction<string, unknown>;

/** One run: the letters of the source call the inner stream of their name. */
export interface Example {
  readonly source: string;
  readonly inners?: Readonly<Record<string, string>>;
  /** The frame in which the consumer leaves. */
  readonly leavesAt?: number;
  /** The value at which the consumer leaves, from inside `next`. */
  readonly leavesOn?: string;
  /** Used in place of the inner streams. */
  readonly project?: Project;
  readonly isHot?: boolean;
}

/** Everything that happens, in the order in which it happens and with its frame: subscriptions, values, ends, teardowns. */
export function logOf({ source, inners = {}, leavesAt, leavesOn, project, isHot = false }: Example, operator: Operator): string[] {
  const log: string[] = [];
  const scheduler = new TestScheduler(() => true);
  const say = (what: string): void => {
    log.push(`${scheduler.frame} ${what}`);
  };
  const watched = <T>(name: string, stream: Observable<T>): Observable<T> =>
    new Observable((subscriber) => {
      say(`subscribe ${name}`);
      subscriber.add(() => {
        say(`tear down ${name}`);
      });
      subscriber.add(stream.subscribe(subscriber));
    });
  scheduler.run(({ cold, hot }) => {
    const streams = new Map(Object.entries(inners).map(([name, marbles]) => [name, watched(name, cold(marbles))]));
    const input = watched<string>('source', isHot ? hot(source) : cold(source));
    const result = input.pipe(
      operator((item, index) => {
        say(`project ${item} ${index}`);
        return project ? project(item, index) : (streams.get(item) ?? NEVER);
      }),
    );
    const subscription = result.subscribe({
      next: (value) => {
        say(`next ${String(value)}`);
        if (value === leavesOn) subscription.unsubscribe();
      },
      error: (error: unknown) => {
        say(`error ${String(error)}`);
      },
      complete: () => {
        say('complete');
      },
    });
    subscription.add(() => {
      say('closed');
    });
    if (leavesAt !== undefined) {
      scheduler.schedule(() => {
        subscription.unsubscribe();
      }, leavesAt);
    }
  });
  return log;
}
