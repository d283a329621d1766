/**
 * The operators under the option names that most tests were written with. Who changes an option translates its old name into the new one in the
 * file of its family, where a function takes the place of the re-export; a test that has moved to the new names imports `operators/index.ts`.
 */
export * from './today/batches.js';
export * from './today/items.js';
export * from './today/limiter.js';
export * from './today/loads.js';
export * from './today/queues.js';
export * from './today/racing.js';
export * from './today/rest.js';
