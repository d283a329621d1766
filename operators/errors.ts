/** The errors of this package, for its own pipelines and adapters; users find them in `sluice/operators`. */

export * from './options/errors.js';
