import type { Observable } from 'rxjs';
import { catchError, map } from 'rxjs';
import { lostRun } from './lost-run.js';
import type { AguiEvent, AguiStream } from './types.js';

/** A stream of theirs, to be listened to. What is made of it stands in its place: one Observable works with the operators of every copy of RxJS. */
export function ours(stream: AguiStream): Observable<AguiEvent> {
  return stream as unknown as Observable<AguiEvent>;
}

/** The run of an agent. One whose stream was lost ends with an event that says so, not with an error. */
export function heard(run: AguiStream): Observable<AguiEvent> {
  return ours(run).pipe(
    map((event) => lostRun(event['rawEvent']) ?? event),
    catchError((error: unknown) => {
      const end = lostRun(error);
      if (end) return [end];
      throw error;
    }),
  );
}
