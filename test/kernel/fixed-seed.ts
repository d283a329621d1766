import fc from 'fast-check';

// A mutant lives or dies the same way in every run, and nobody reads how it died. The normal test run keeps its random seeds.
fc.configureGlobal({ seed: 1, endOnFailure: true });
