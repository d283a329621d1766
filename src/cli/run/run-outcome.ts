import { isFlowError } from '../../../operators/index.js';
import type { DocumentResult } from '../../pipelines/stages/stages-types.js';
import { saidBy } from '../provider.js';
import type { Hide } from '../secrets.js';
import { AnswerError } from './answer.js';
import type { FailureLine, FinishedDocument } from './run-output.js';
import type { RunDocument } from './run-stages.js';

type Result = DocumentResult<RunDocument, unknown>;

/**
 * What a document leaves behind; undefined when the run was over before it was.
 *
 * @param isWritten - whether an earlier run has written what became of an item, whose last stage this is
 * @param isStopping - the run ends: what was late has waited for nothing
 * @param hide - of what is said about failures
 */
export function outcomeOf(
  result: Result,
  isWritten: (stage: string, item: string) => boolean,
  isStopping: boolean,
  hide: Hide,
): FinishedDocument | undefined {
  const reasons = reasonsOf(result);
  if (reasons.some((reason) => isClosed(reason) || (isStopping && isLate(reason)))) return undefined;
  const { document, documentId, items } = result;
  const { id, number: row } = document;
  const failures = failuresOf(result, hide);
  if (result.status === 'rejected') return { documentId, status: 'failed', output: [], failures };
  const output = items.flatMap((item) =>
    item.status === 'rejected' || isWritten(item.stage, item.item) ? [] : [{ id, row, ...itemOf(item), ...item.values }],
  );
  return { documentId, status: failures.length > 0 ? 'partial' : 'ok', output, failures };
}

/** What failed by itself, and not with another item of its document. */
function failuresOf(result: Result, hide: Hide): FailureLine[] {
  const { id, number: row } = result.document;
  const failures = result.items.flatMap((item) =>
    item.status === 'fulfilled' || isFlowError(item.reason, 'FLOW_CLOSED')
      ? []
      : [{ id, row, ...itemOf(item), stage: item.stage, error: saidBy(item.reason, hide), ...partialOf(item.reason) }],
  );
  if (failures.length > 0 || result.status === 'fulfilled') return failures;
  return [{ id, row, error: saidBy(result.reason, hide) }];
}

/** Of an answer that came: what was wrong with it, and its text as it came. */
function partialOf(reason: unknown): Pick<FailureLine, 'fault' | 'partial'> {
  if (!(reason instanceof AnswerError)) return {};
  const { fault, partial = '' } = reason;
  return { fault, ...(partial !== '' && { partial }) };
}

/** Left out when the document is one. */
function itemOf({ item }: { readonly item: string }): { readonly item?: string } {
  return item === '' ? {} : { item };
}

function reasonsOf(result: Result): unknown[] {
  const reasons = result.items.flatMap((item) => (item.status === 'rejected' ? [item.reason] : []));
  return result.status === 'rejected' ? [...reasons, result.reason] : reasons;
}

/** By the end of the run; with a cause it is another item's failure. */
function isClosed(reason: unknown): boolean {
  return isFlowError(reason, 'FLOW_CLOSED') && reason.cause === undefined;
}

function isLate(reason: unknown): boolean {
  return isFlowError(reason, 'FLOW_DEADLINE') || isFlowError(reason, 'FLOW_ATTEMPT_TIMEOUT');
}
