import type { Observable } from 'rxjs';
import { concatMap, mergeMap, switchMap } from 'rxjs';
import { speculate, switchLatest } from '../../operators/index.js';

/** A call of a tool or of the model: stops when its signal aborts. */
export type Call = (input: string, signal: AbortSignal) => Observable<string>;

/** The tool and the model behind it are one call. A new intent aborts the signal of whichever of the two is under way. */
export const answerNewest = (intents: Observable<string>, tool: Call, model: Call): Observable<string> =>
  intents.pipe(switchLatest((intent, { signal }) => tool(intent, signal).pipe(concatMap((found) => model(found, signal)))));

/** The tool runs on a guess, but what it finds is held until the user says so. Nothing reaches the model before that. */
export const answerConfirmed = (guesses: Observable<string>, intents: Observable<string>, tool: Call, model: Call): Observable<string> =>
  speculate((intent, { signal }) => tool(intent, signal), {
    predict: guesses,
    confirm: intents,
    match: (guess, intent) => guess === intent,
  }).pipe(switchLatest((found, { signal }) => model(found, signal)));

/** `switchMap` around the tool alone: a result that came just before the new intent still goes to the model and to the screen. */
export const answerLeaky = (
  intents: Observable<string>,
  tool: (input: string) => Observable<string>,
  model: (input: string) => Observable<string>,
): Observable<string> =>
  intents.pipe(
    switchMap((intent) => tool(intent)),
    mergeMap((found) => model(found)),
  );
