import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import type { AguiEvent, AguiNext, AguiStream } from './types.js';

/** A stream of theirs, to be listened to. */
export function ours(stream: AguiStream): Observable<AguiEvent> {
  return stream as unknown as Observable<AguiEvent>;
}

/** A stream of ours in the place of the one that `next` makes: one Observable works with the operators of every copy of RxJS. */
export function inPlaceOf<I, O extends AguiStream>(
  next: AguiNext<I, O>,
  start: (to: Subscriber<AguiEvent>, run: (input: I) => Observable<AguiEvent>) => void,
): O {
  return new Observable<AguiEvent>((to) => {
    start(to, (input) => ours(next.run(input)));
  }) as unknown as O;
}
