/** Whether a `finish_reason` says that the answer has ended. Some servers say an empty one, or "null", with every part. */
export function isReason(reason: unknown): reason is string {
  return typeof reason === 'string' && reason !== '' && reason !== 'null';
}
