import { firstValueFrom, forkJoin } from 'rxjs';
import type { Batcher, LoadOptions, Settled } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';

/** What is wrong with what should be a text. */
function faultOf(operator: string, option: string, text: unknown): FlowConfigError | undefined {
  return typeof text === 'string' ? undefined : new FlowConfigError(operator, option, 'a string', text);
}

/** @throws FlowConfigError */
export function checkText(operator: string, option: string, text: unknown): void {
  const fault = faultOf(operator, option, text);
  if (fault) throw fault;
}

/** @throws FlowConfigError, which does not quote a text that was given in place of a list */
export function checkTextList(operator: string, option: string, texts: unknown): void {
  if (Array.isArray(texts)) return;
  const expected = 'an array of strings';
  if (typeof texts === 'string') throw new FlowConfigError(operator, option, expected, undefined, 'a string');
  throw new FlowConfigError(operator, option, expected, texts);
}

/** @throws FlowConfigError */
export function checkTexts(operator: string, option: string, texts: readonly unknown[]): void {
  checkTextList(operator, option, texts);
  // One that was left out is no text either.
  for (let i = 0; i < texts.length; i++) checkText(operator, `${option}[${String(i)}]`, texts[i]);
}

/** What became of each text, in their order. What is no text is refused by itself, and not sent. */
export async function settleTexts<R>(
  operator: string,
  option: string,
  batcher: Pick<Batcher<string, R>, 'loadSettled'>,
  texts: readonly string[],
  how: LoadOptions | undefined,
): Promise<Settled<string, R>[]> {
  const faults = Array.from(texts, (text, index) => faultOf(operator, `${option}[${String(index)}]`, text));
  const sent = await firstValueFrom(forkJoin(texts.flatMap((text, index) => (faults[index] ? [] : batcher.loadSettled(text, how)))), {
    defaultValue: [],
  });
  let next = 0;
  return faults.map((reason, index) => {
    const place = { index, id: String(index) };
    if (reason) return { status: 'rejected', reason, input: texts[index] as string, ...place, attempts: 0 };
    // Those that shared a call, or have left it, say another place.
    return { ...(sent[next++] as Settled<string, R>), ...place };
  });
}
