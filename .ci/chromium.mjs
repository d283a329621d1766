// Prints the path of a Chromium to test in, and installs Debian's where none is installed.
//   node .ci/chromium.mjs
import { printProgram } from './debian.mjs';

printProgram({
  variable: 'CHROMIUM_PATH',
  names: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
  debian: 'chromium',
  needs: 'The browser tests need',
  orSet: 'the executable of one',
});
