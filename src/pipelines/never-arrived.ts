import { evidenceOf } from '../../operators/build.js';

/** There was never a connection. */
const NEVER_ARRIVED: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETDOWN', 'ENETUNREACH', 'EHOSTDOWN', 'EHOSTUNREACH', 'UND_ERR_CONNECT_TIMEOUT'],
]);

/** Whether the other side cannot have seen the request. Says the error itself, and not what a server has put into it. */
export function neverArrived(error: unknown): boolean {
  return evidenceOf(error).some(({ code }) => NEVER_ARRIVED.has(code));
}
