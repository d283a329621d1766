import type { Observable } from 'rxjs';
import type { AguiEvent, AguiStream } from './types.js';

/** A stream of theirs, to be listened to. What is made of it stands in its place: one Observable works with the operators of every copy of RxJS. */
export function ours(stream: AguiStream): Observable<AguiEvent> {
  return stream as unknown as Observable<AguiEvent>;
}
