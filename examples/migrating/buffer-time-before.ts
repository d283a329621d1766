import type { Observable } from 'rxjs';
import { bufferTime, mergeMap } from 'rxjs';

export const embedAll = (texts: Observable<string>, embed: (texts: readonly string[]) => Observable<number[]>): Observable<number> =>
  texts.pipe(
    bufferTime(50, null, 20),
    mergeMap((batch) => embed(batch), 4),
    mergeMap((vectors) => vectors),
  );
