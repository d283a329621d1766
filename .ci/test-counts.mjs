// Prints "passed failed" from vitest's JSON report, and then what failed, once at least: node .ci/test-counts.mjs <report> <exit code of the test command>
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const [file, exitCode] = process.argv.slice(2);
const { passed, failed, failures } = readReport();
// Failures that belong to no test (a file that does not load, an unhandled rejection, a failed install) count as one.
const failedInAll = exitCode !== '0' ? Math.max(failed, 1) : failed;
console.log(`${passed} ${failedInAll}`);
for (const failure of failures) console.log(failure);

function readReport() {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    const unloaded = report.testResults.filter((result) => result.status === 'failed' && result.assertionResults.length === 0);
    // One that has passed was asked again.
    const tests = report.testResults.flatMap(({ name, assertionResults }) =>
      assertionResults
        .filter(({ failureMessages }) => failureMessages.length > 0)
        .map(({ status, fullName, failureMessages }) => told(name, `${fullName} (${status} in the end)`, failureMessages[0])),
    );
    return {
      passed: report.numPassedTests,
      failed: report.numFailedTests + unloaded.length,
      failures: [...tests, ...unloaded.map(({ name, message }) => told(name, 'does not load', message))],
    };
  } catch (error) {
    return { passed: 0, failed: 1, failures: [`no report of the tests: ${error.message}`] };
  }
}

function told(file, what, message = '') {
  const [reason] = message.split('\n');
  return `${relative(process.cwd(), file)}: ${what}: ${reason}`;
}
