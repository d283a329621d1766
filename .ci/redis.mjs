// Prints the path of a redis-server for the tests of `sluice/redis`, and installs Debian's where there is none. No service is left running: tests start
// servers of their own.
//   node .ci/redis.mjs
import { printProgram } from './debian.mjs';

printProgram({
  variable: 'REDIS_SERVER_PATH',
  names: ['redis-server', 'valkey-server'],
  debian: 'redis-server',
  needs: 'The tests of sluice/redis need',
  orSet: 'the executable of a Redis 7 or Valkey',
  before: [
    // The package starts a service on port 6379 otherwise.
    'policy=/usr/sbin/policy-rc.d',
    `if [ ! -e "$policy" ]; then trap 'rm -f "$policy"' EXIT; printf '#!/bin/sh\\nexit 101\\n' > "$policy"; chmod 755 "$policy"; fi`,
  ],
  // Nor at the next start of the machine.
  after: ['if command -v systemctl; then systemctl disable redis-server || true; fi'],
});
