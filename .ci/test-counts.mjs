// Prints "passed failed" from vitest's JSON report: node .ci/test-counts.mjs <report> <exit code of the test command>
import { readFileSync } from 'node:fs';

const [file, exitCode] = process.argv.slice(2);
const { passed, failed } = readReport();
// Failures that belong to no test (a file that does not load, an unhandled rejection, a failed install) count as one.
const failedInAll = exitCode !== '0' ? Math.max(failed, 1) : failed;
console.log(`${passed} ${failedInAll}`);

function readReport() {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    const unloaded = report.testResults.filter((result) => result.status === 'failed' && result.assertionResults.length === 0);
    return { passed: report.numPassedTests, failed: report.numFailedTests + unloaded.length };
  } catch {
    return { passed: 0, failed: 1 };
  }
}
